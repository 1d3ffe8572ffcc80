"""What a robot is: specifications, state and command types, drivers."""

from hardware.robots import load_robot, robot_names
from hardware.spec import Channel, FlightModel, Joint, RobotSpec
from hardware.types import ActuatorCommand, Array, Peers, RobotState

__all__ = [
    "ActuatorCommand",
    "Array",
    "Channel",
    "FlightModel",
    "Joint",
    "Peers",
    "RobotSpec",
    "RobotState",
    "load_robot",
    "robot_names",
]
