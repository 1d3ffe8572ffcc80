"""Noise and bias of sensors, for NumPy arrays and torch tensors alike."""

from dataclasses import asdict, dataclass

from hardware.rotation import multiply, namespace_of
from hardware.spec import SLIDE_LEVER_M, RobotSpec
from hardware.types import Array

LARGEST = 100.0  # of any noise: far beyond what a sensor is


@dataclass(frozen=True)
class Noise:
    """Standard deviation of white measurement noise, and of the constant bias that a world's sensors start with."""

    pos_m: float = 0.0
    angle_rad: float = 0.0
    lin_vel_m_s: float = 0.0
    ang_vel_rad_s: float = 0.0
    joint_pos_rad: float = 0.0  # of a slide times SLIDE_LEVER_M, as below
    joint_vel_rad_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0.0 <= value <= LARGEST:
                raise ValueError(f"noise {name} = {value:g}: 0 to {LARGEST:g}")

    def per_column(self, joints: int) -> list[float]:
        """12 + 2 J numbers: position, rotation vector, velocities, joint positions and velocities."""
        base = (self.pos_m, self.angle_rad, self.lin_vel_m_s, self.ang_vel_rad_s)
        columns = [value for value in base for _ in range(3)]
        return columns + [self.joint_pos_rad] * joints + [self.joint_vel_rad_s] * joints

    def __bool__(self) -> bool:
        return self != _NONE


_NONE = Noise()


def error_scale(robot: RobotSpec) -> list[float]:
    """What errors (12 + 2 J) of a robot's sensors are multiplied by.

    Where a base is bolted down is known exactly; the noise of a slide is that of its motor, rad.
    """
    slides = {joint for c, joint in zip(robot.channels, robot.joint_of_channel, strict=True) if c.unit == "m"}
    lever = [SLIDE_LEVER_M if joint in slides else 1.0 for joint in range(len(robot.joints))]
    return [float(not robot.fixed_base)] * 12 + lever + lever


def add_error(rows: Array, error: Array) -> None:
    """Add errors (..., 12 + 2 J) to what is measured, (..., 13 + 2 J): base pose, velocities, joints; in place."""
    rows[..., 0:3] += error[..., 0:3]
    rows[..., 3:7] = _tilted(rows[..., 3:7], error[..., 3:6])
    rows[..., 7:] += error[..., 6:]


def _tilted(quat: Array, angle: Array) -> Array:
    """`quat` turned by small rotation vectors (..., 3) rad, body."""
    xp = namespace_of(quat)
    turned = multiply(quat, xp.concat([xp.ones_like(angle[..., :1]), 0.5 * angle], axis=-1))
    return turned / xp.linalg.vector_norm(turned, axis=-1, keepdims=True)
