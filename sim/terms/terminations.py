"""Failures and successes: (W, N) bool, one for each robot of each world, from the true state."""

import torch

from sim.transition import Transition

Tensor = torch.Tensor


def collided(t: Transition, distance_m: float) -> Tensor:
    """Closer to another robot's centre than two robot radii."""
    return t.distance.amin(-1) < distance_m


def outside(t: Transition, low_m: tuple[float, ...], high_m: tuple[float, ...]) -> Tensor:
    """Outside the box, world; its floor is what the robot crashes into."""
    pos = t.state.base_pos
    return ((pos < torch.tensor(low_m)) | (pos > torch.tensor(high_m))).any(-1)


def reached(t: Transition, distance_m: float) -> Tensor:
    """Within `distance_m` of the goal."""
    return torch.linalg.vector_norm(t.command["goal_pos"] - t.state.base_pos, dim=-1) < distance_m


def settled(t: Transition, distance_m: float, speed_m_s: float) -> Tensor:
    """Within `distance_m` of the goal and slower than `speed_m_s`."""
    return reached(t, distance_m) & (torch.linalg.vector_norm(t.state.base_lin_vel, dim=-1) < speed_m_s)
