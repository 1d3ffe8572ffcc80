"""Terms for things that arms move: where they are from tool and goal. Axes are those of the arm's base."""

import torch

from hardware.rotation import rotate, rotate_inverse
from sim.task import Percept, Transition
from sim.terms.arms import shortened, tool_pose_b

Tensor = torch.Tensor


def object_from_tool(p: Percept, robot: str, name: str) -> Tensor:
    """From the tool to the object, (..., 3) m, base."""
    pos = rotate_inverse(p.state.base_quat, p.objects[name].pos - p.state.base_pos)
    return pos - tool_pose_b(p.state, robot)[0]


def object_to_goal(p: Percept, name: str, limit_m: float) -> Tensor:
    """From the object to `goal_pos`, (..., 3) m, base; shortened to `limit_m`."""
    return rotate_inverse(p.state.base_quat, shortened(p.command["goal_pos"] - p.objects[name].pos, limit_m))


def object_vel(p: Percept, name: str) -> Tensor:
    """Velocity of the object, (..., 3) m/s, base."""
    thing = p.objects[name]
    return rotate_inverse(p.state.base_quat, rotate(thing.quat, thing.lin_vel))


def goal_distance(t: Transition, name: str) -> Tensor:
    """From the object to `goal_pos`, (W, N) m."""
    return torch.linalg.vector_norm(t.command["goal_pos"] - t.objects[name].pos, dim=-1)


def object_near(t: Transition, name: str, scale_m: float) -> Tensor:
    """exp(-distance / scale) of the object from `goal_pos`."""
    return torch.exp(-goal_distance(t, name) / scale_m)


def object_speed_to_goal(t: Transition, name: str, limit_m_s: float) -> Tensor:
    """Speed of the object towards `goal_pos` over the limit, clipped to +-1."""
    thing = t.objects[name]
    offset = t.command["goal_pos"] - thing.pos
    way = offset / torch.linalg.vector_norm(offset, dim=-1, keepdim=True).clamp(min=0.01)
    return ((rotate(thing.quat, thing.lin_vel) * way).sum(-1) / limit_m_s).clamp(-1.0, 1.0)


def tool_behind(t: Transition, name: str, behind_m: float, scale_m: float, there_m: float) -> Tensor:
    """exp(-distance / scale) of the tool from where it would push the object to `goal_pos`; 1 once it is there."""
    offset = (t.command["goal_pos"] - t.objects[name].pos)[..., :2]
    length = torch.linalg.vector_norm(offset, dim=-1, keepdim=True)
    point = t.objects[name].pos[..., :2] - behind_m * offset / length.clamp(min=1e-3)
    distance = torch.linalg.vector_norm(t.frame("tool")[0][..., :2] - point, dim=-1)
    return torch.where(length.squeeze(-1) < there_m, 1.0, torch.exp(-distance / scale_m))


def object_there(t: Transition, name: str, distance_m: float) -> Tensor:
    """Whether the object is within `distance_m` of `goal_pos`."""
    return goal_distance(t, name) < distance_m


def object_outside(t: Transition, name: str, low_m: tuple[float, ...], high_m: tuple[float, ...]) -> Tensor:
    """Whether the object has left the box, world: nobody can reach it any more."""
    pos = t.objects[name].pos
    return ((pos < torch.tensor(low_m)) | (pos > torch.tensor(high_m))).any(-1).expand(t.action.shape[:2])
