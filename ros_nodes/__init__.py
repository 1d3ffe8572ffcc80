"""Where it runs: thin ROS 2 nodes around hardware and deploy. Messages become types in `conversion` and `joint_messages`."""
