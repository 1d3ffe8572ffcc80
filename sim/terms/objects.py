"""Terms for things that arms move: where they are from tool and goal. Axes are those of the arm's base."""

import torch

from hardware.rotation import rotate, rotate_inverse
from sim.task import PolicyInput
from sim.terms.arms import forward
from sim.terms.observations import shortened
from sim.transition import Transition

Tensor = torch.Tensor
SLACK_M = 0.003  # a finger this far from the side of a thing still touches it


def object_from_tool(p: PolicyInput, robot: str, name: str) -> Tensor:
    """From the tool to the object, (..., 3) m, base."""
    pos = rotate_inverse(p.state.base_quat, p.objects[name].pos - p.state.base_pos)
    return pos - forward(robot, p.state.joint_pos)[0]


def object_to_goal(p: PolicyInput, name: str, limit_m: float) -> Tensor:
    """From the object to `goal_pos`, (..., 3) m, base; shortened to `limit_m`."""
    return rotate_inverse(p.state.base_quat, shortened(p.command["goal_pos"] - p.objects[name].pos, limit_m))


def object_vel(p: PolicyInput, name: str) -> Tensor:
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


def push_point(pos: Tensor, goal: Tensor, behind_m: float, height_m: float) -> Tensor:
    """(..., 3) m, world: the point `behind_m` behind the object at `pos`, seen from its goal, at `height_m`."""
    way = (goal - pos)[..., :2]
    way = way / torch.linalg.vector_norm(way, dim=-1, keepdim=True).clamp(min=1e-3)
    point = pos[..., :2] - behind_m * way
    return torch.cat([point, torch.full_like(point[..., :1], height_m)], dim=-1)


def push_point_from_tool(p: PolicyInput, robot: str, name: str, behind_m: float, height_m: float) -> Tensor:
    """From the tool to the `push_point` of the object, (..., 3) m, base."""
    point = push_point(p.objects[name].pos, p.command["goal_pos"], behind_m, height_m)
    return rotate_inverse(p.state.base_quat, point - p.state.base_pos) - forward(robot, p.state.joint_pos)[0]


def at_push_point(t: Transition, name: str, behind_m: float, height_m: float, scale_m: float, there_m: float) -> Tensor:
    """exp(-distance / scale) of the tool from the `push_point`; 1 once the object is within `there_m` of its goal."""
    point = push_point(t.objects[name].pos, t.command["goal_pos"], behind_m, height_m)
    distance = torch.linalg.vector_norm(t.frame("tool")[0] - point, dim=-1)
    return torch.where(goal_distance(t, name) < there_m, 1.0, torch.exp(-distance / scale_m))


def at_object(t: Transition, name: str, scale_m: float) -> Tensor:
    """exp(-distance / scale) of the tool from the object."""
    return torch.exp(-torch.linalg.vector_norm(t.objects[name].pos - t.frame("tool")[0], dim=-1) / scale_m)


def grasped(t: Transition, name: str, near_m: float, width_m: float) -> Tensor:
    """1 where the tool is within `near_m` of the object and its fingers, the last joint, touch its sides."""
    distance = torch.linalg.vector_norm(t.objects[name].pos - t.frame("tool")[0], dim=-1)
    finger = t.state.joint_pos[..., -1]
    return ((distance < near_m) & ((finger - width_m / 2).abs() < SLACK_M)).float()


def lifted(t: Transition, name: str, rest_m: float, full_m: float) -> Tensor:
    """How far the object is above `rest_m`, as a share of `full_m`, 0 to 1."""
    share = (t.objects[name].pos[..., 2] - rest_m) / full_m
    return share.clamp(0.0, 1.0).expand(t.action.shape[:2])


def object_there(t: Transition, name: str, distance_m: float) -> Tensor:
    """Whether the object is within `distance_m` of `goal_pos`."""
    return goal_distance(t, name) < distance_m


def object_outside(t: Transition, name: str, low_m: tuple[float, ...], high_m: tuple[float, ...]) -> Tensor:
    """Whether the object has left the box, world: out of every robot's reach."""
    pos = t.objects[name].pos
    return ((pos < torch.tensor(low_m)) | (pos > torch.tensor(high_m))).any(-1).expand(t.action.shape[:2])
