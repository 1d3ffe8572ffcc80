"""One control period of a policy: the robot's state in, an actuator command out."""

from deploy.runtime.compatibility import RobotMismatchError, check_robot
from deploy.runtime.graph_inputs import InputError
from deploy.runtime.policy_runtime import NO_OBJECTS, ControlStep, PolicyOutputError, PolicyRuntime

__all__ = [
    "NO_OBJECTS",
    "ControlStep",
    "InputError",
    "PolicyOutputError",
    "PolicyRuntime",
    "RobotMismatchError",
    "check_robot",
]
