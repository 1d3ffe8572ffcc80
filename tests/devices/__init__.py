"""Emulated devices: the other side of a driver, over a real socket, with the robot in MuJoCo behind it.

Each is written from what its maker publishes, and imports nothing of the drivers.
"""
