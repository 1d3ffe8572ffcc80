"""The quantities that travel between a robot, its policy and its shield.

Every field is a NumPy array on the robot and a torch tensor in simulation; `...` is any batch. SI units, float32,
quaternions wxyz, axes x forward, y left, z up.
"""

from dataclasses import dataclass
from math import nan
from typing import Any, TypeAlias

Array: TypeAlias = Any  # numpy.ndarray on the robot, torch.Tensor in simulation: the arithmetic is the same


@dataclass(slots=True)
class RobotState:
    """What one robot knows about itself."""

    joint_pos: Array  # (..., J) rad
    joint_vel: Array  # (..., J) rad/s
    base_pos: Array  # (..., 3) m, world
    base_quat: Array  # (..., 4) wxyz, body -> world
    base_lin_vel: Array  # (..., 3) m/s, body
    base_ang_vel: Array  # (..., 3) rad/s, body
    age: Array  # (...) s since the oldest measurement


@dataclass(slots=True)
class Peers:
    """What one robot has received from its team mates: nearest first, padded to P slots."""

    pos: Array  # (..., P, 3) m, world
    lin_vel: Array  # (..., P, 3) m/s, world
    age: Array  # (..., P) s since it was measured
    valid: Array  # (..., P) bool; False marks padding


@dataclass(frozen=True, slots=True)
class Battery:
    """What a robot says of its battery; NaN for what it does not know."""

    charge: float  # from 0 to 1
    voltage_v: float = nan


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What a robot's own controller says of itself."""

    armed: bool  # its motors obey
    fault: str = ""  # why they do not, or must not be made to; empty for none


@dataclass(slots=True)
class ObjectState:
    """What is known of a tracked thing that is no robot: a load, a box."""

    pos: Array  # (..., 3) m, world
    quat: Array  # (..., 4) wxyz, body -> world
    lin_vel: Array  # (..., 3) m/s, body
    ang_vel: Array  # (..., 3) rad/s, body
    age: Array  # (...) s since it was measured


@dataclass(slots=True)
class ActuatorCommand:
    """One set-point per actuator channel, in the unit that the robot's spec names."""

    target: Array  # (..., U)
