"""What a robot is: specifications, state and command types, drivers."""

from hardware.robots import load_robot, robot_names
from hardware.spec import Channel, FlightModel, RobotSpec
from hardware.types import ActuatorCommand, Array, Peers, RobotState

__all__ = [
    "ActuatorCommand",
    "Array",
    "Channel",
    "FlightModel",
    "Peers",
    "RobotSpec",
    "RobotState",
    "load_robot",
    "robot_names",
]
