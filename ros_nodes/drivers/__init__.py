"""Drivers whose devices speak ROS."""
