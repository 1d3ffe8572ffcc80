"""Terms for two arms and a bar: each takes the end that is nearer to its base. The bar's axis is its own y."""

import torch

from hardware.rotation import rotate, rotate_inverse
from hardware.types import ObjectState
from sim.task import PolicyInput
from sim.terms.arms import forward
from sim.terms.objects import SLACK_M
from sim.transition import Transition

Tensor = torch.Tensor


def ends(base_pos: Tensor, bar: ObjectState, grip_m: float) -> tuple[Tensor, Tensor]:
    """Where a robot at `base_pos` grips the bar and where another one does, (..., 3) m each, world."""
    along = rotate(bar.quat, torch.tensor([0.0, grip_m, 0.0]).expand_as(bar.pos))
    side = ((base_pos - bar.pos) * along).sum(-1, keepdim=True)
    own = torch.where(side < 0.0, -along, along)
    return bar.pos + own, bar.pos - own


def grip_from_tool(p: PolicyInput, robot: str, name: str, grip_m: float) -> Tensor:
    """From the tool to where it is to grip the bar, (..., 3) m, base."""
    own, _ = ends(p.state.base_pos, p.objects[name], grip_m)
    return rotate_inverse(p.state.base_quat, own - p.state.base_pos) - forward(robot, p.state.joint_pos)[0]


def ends_to_height(p: PolicyInput, name: str, grip_m: float) -> Tensor:
    """What is missing to `height` at the robot's own end and at the other one, (..., 2) m."""
    own, other = ends(p.state.base_pos, p.objects[name], grip_m)
    return p.command["height"] - torch.cat([own[..., 2:], other[..., 2:]], dim=-1)


def at_grip(t: Transition, name: str, grip_m: float, scale_m: float) -> Tensor:
    """exp(-distance / scale) of the tool from where it is to grip."""
    return torch.exp(-_from_grip(t, name, grip_m) / scale_m)


def gripped(t: Transition, name: str, grip_m: float, near_m: float, width_m: float) -> Tensor:
    """1 where the tool is within `near_m` of its grip and its fingers, the last joint, are as close as the bar lets."""
    closed = (t.state.joint_pos[..., -1] - width_m / 2).abs() < SLACK_M
    return (closed & (_from_grip(t, name, grip_m) < near_m)).float()


def end_near_height(t: Transition, name: str, grip_m: float, own: bool, scale_m: float) -> Tensor:
    """exp(-what is missing to `height` / scale) at the robot's own end of the bar, or at the other one."""
    end = ends(t.state.base_pos, t.objects[name], grip_m)[0 if own else 1]
    return torch.exp(-(t.command["height"][..., 0] - end[..., 2]).abs() / scale_m)


def end_raised(t: Transition, name: str, grip_m: float, own: bool, rest_m: float) -> Tensor:
    """How far the robot's own end of the bar, or the other one, is on its way from `rest_m` to `height`, at most 1.

    Above `height` it falls again, as fast as it rose below.
    """
    end = ends(t.state.base_pos, t.objects[name], grip_m)[0 if own else 1]
    share = (end[..., 2] - rest_m) / (t.command["height"][..., 0] - rest_m)
    return (1.0 - (share - 1.0).abs()).clamp(min=0.0)


def tilt(t: Transition, name: str, grip_m: float) -> Tensor:
    """Difference in height between the two grips, m."""
    own, other = ends(t.state.base_pos, t.objects[name], grip_m)
    return (own - other)[..., 2].abs()


def level_at_height(t: Transition, name: str, grip_m: float, tolerance_m: float) -> Tensor:
    """Whether both grips are within `tolerance_m` of `height`."""
    both = torch.stack(ends(t.state.base_pos, t.objects[name], grip_m), dim=-1)[..., 2, :]
    return ((both - t.command["height"]).abs() < tolerance_m).all(-1)


def _from_grip(t: Transition, name: str, grip_m: float) -> Tensor:
    own, _ = ends(t.state.base_pos, t.objects[name], grip_m)
    return torch.linalg.vector_norm(t.frame("tool")[0] - own, dim=-1)
