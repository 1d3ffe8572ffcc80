"""Where it runs: thin ROS 2 nodes. Messages become types in `conversion` and `joint_messages`."""
