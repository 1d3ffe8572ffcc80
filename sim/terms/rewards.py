"""Reward terms: (W, N), one value for each robot of each world, from the true state; weights live in the task."""

import torch

from sim.transition import Transition
from sim.vectors import dot, length

Tensor = torch.Tensor


def near_goal(t: Transition, scale_m: float) -> Tensor:
    """exp(-distance to goal / scale): 1 at the goal."""
    return torch.exp(-_goal_distance(t) / scale_m)


def at_goal(t: Transition, scale_m: float) -> Tensor:
    """exp(-(distance / scale)^2): only the last centimetres count."""
    return torch.exp(-((_goal_distance(t) / scale_m) ** 2))


def goal_speed(t: Transition, limit_m_s: float, slow_m: float) -> Tensor:
    """Speed towards the goal over the limit, clipped to +-1; fades inside `slow_m` so that overshoot does not pay."""
    return approach(t.command["goal_pos"] - t.state.base_pos, t.lin_vel_w, limit_m_s, slow_m)


def approach(offset: Tensor, vel: Tensor, limit_m_s: float, slow_m: float) -> Tensor:
    """Share (...) of the limit by which `vel` (..., 3) m/s leads along `offset` (..., 3) m, as `goal_speed`."""
    distance = torch.linalg.vector_norm(offset, dim=-1, keepdim=True)
    closing = (vel * offset / distance.clamp(min=1e-6)).sum(-1)
    return (closing / limit_m_s).clamp(-1.0, 1.0) * (distance.squeeze(-1) / slow_m).clamp(max=1.0)


def speeding(t: Transition, limit_m_s: float) -> Tensor:
    """Speed above the limit, m/s."""
    return (torch.linalg.vector_norm(t.state.base_lin_vel, dim=-1) - limit_m_s).clamp(min=0.0)


def action_change(t: Transition, channels: tuple[int, ...] | None = None) -> Tensor:
    """Squared change of the action, summed over `channels` or over all."""
    change = t.action - t.last_action
    return (change if channels is None else change[..., list(channels)]).square().sum(-1)


def correction(t: Transition, scale: float) -> Tensor:
    """How far the shield moved the command, in `scale` (drones m/s^2, joints rad), at most 1; 0 without a shield."""
    if t.correction is None:
        return torch.zeros_like(t.action[..., 0])
    return (t.correction / scale).clamp(max=1.0)


def joint_speed(t: Transition) -> Tensor:
    """Squared joint velocities, summed, (rad/s)^2."""
    return t.state.joint_vel.square().sum(-1)


def spin(t: Transition) -> Tensor:
    """Squared angular velocity, (rad/s)^2."""
    return (t.state.base_ang_vel**2).sum(-1)


def crowding(t: Transition, separation_m: float, downwash_ratio: float) -> Tensor:
    """How deep the robot is in the worst neighbour's ellipsoid: 0 outside, 1 at its centre."""
    return (1.0 - ellipsoid_distance(t.offset, separation_m, downwash_ratio)).clamp(min=0.0).amax(-1)


def closing_in(t: Transition, separation_m: float, downwash_ratio: float, brake_m_s2: float) -> Tensor:
    """Speed, m/s, by which the robot closes in on its worst neighbour faster than both could still brake."""
    scale = torch.tensor([1.0, 1.0, 1.0 / downwash_ratio])
    offset, rel_vel = t.offset * scale, t.rel_vel * scale
    distance = length(offset).clamp(min=1e-6)
    closing = -dot(offset, rel_vel) / distance
    allowed = torch.sqrt(2.0 * brake_m_s2 * (distance - separation_m).clamp(min=0.0))
    excess = (closing - allowed).clamp(min=0.0)
    return torch.where(torch.isinf(t.distance), 0.0, excess).amax(-1)


def near_wall(t: Transition, margin_m: float, low_m: tuple[float, ...], high_m: tuple[float, ...]) -> Tensor:
    """How deep the robot is in the layer of `margin_m` along the walls of its space: 0 outside, 1 at a wall."""
    pos = t.state.base_pos
    room = torch.minimum(pos - torch.tensor(low_m), torch.tensor(high_m) - pos).amin(-1)
    return (1.0 - room / margin_m).clamp(0.0, 1.0)


def failed(t: Transition, separation_m: float, low_m: tuple[float, ...], high_m: tuple[float, ...]) -> Tensor:
    """1 for a robot that collided or left its space."""
    inside = ((t.state.base_pos > torch.tensor(low_m)) & (t.state.base_pos < torch.tensor(high_m))).all(-1)
    return (~inside | (t.distance.amin(-1) < separation_m)).float()


def ellipsoid_distance(offset: Tensor, separation_m: float, downwash_ratio: float) -> Tensor:
    """(..., N, N, 3) m offsets -> (..., N, N): 1 on the surface of the pair's ellipsoid; inf on the diagonal.

    It is `separation_m` wide across and `downwash_ratio` times that up and down, as the shield's, for the air that a
    drone blows down on the one below.
    """
    scale = torch.tensor([1.0, 1.0, 1.0 / downwash_ratio]) / separation_m
    distance = length(offset * scale)
    return distance + torch.diag(torch.full((offset.shape[-2],), torch.inf))


def _goal_distance(t: Transition) -> Tensor:
    return torch.linalg.vector_norm(t.command["goal_pos"] - t.state.base_pos, dim=-1)
