"""How wrong sensors are."""

from dataclasses import dataclass, fields

import torch

from hardware.rotation import multiply

Tensor = torch.Tensor


@dataclass(frozen=True)
class Noise:
    """Standard deviation of white measurement noise, and of the constant bias that a world's sensors start with."""

    pos_m: float = 0.0
    angle_rad: float = 0.0
    lin_vel_m_s: float = 0.0
    ang_vel_rad_s: float = 0.0
    joint_pos_rad: float = 0.0
    joint_vel_rad_s: float = 0.0

    def per_column(self, joints: int) -> Tensor:
        """(12 + 2 J,): position, rotation vector, velocities, joint positions and velocities."""
        base = (self.pos_m, self.angle_rad, self.lin_vel_m_s, self.ang_vel_rad_s)
        columns = [torch.tensor(base).repeat_interleave(3)]
        columns += [torch.full((joints,), value) for value in (self.joint_pos_rad, self.joint_vel_rad_s)]
        return torch.cat(columns)

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


def tilted(quat: Tensor, angle: Tensor) -> Tensor:
    """`quat` turned by small rotation vectors (..., 3) rad, body."""
    turned = multiply(quat, torch.cat([torch.ones_like(angle[..., :1]), 0.5 * angle], dim=-1))
    return turned / torch.linalg.vector_norm(turned, dim=-1, keepdim=True)
