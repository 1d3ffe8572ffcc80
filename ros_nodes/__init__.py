"""Where it runs: thin ROS 2 nodes around hardware and deploy. Message types stop at `ros_nodes.conversion`."""
