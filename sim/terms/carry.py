"""Terms of humanoids that carry one load between them: where it is to go, and how it is held.

The load's heading frame is the load's, turned upright: x where it points and its bearers face, y to their left, z up.
Bearers see where the load is, and not where they are themselves. The terms of their gait are those of `humanoids`,
commanded to walk as the load has to go.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from hardware.rotation import down_b, rotate
from hardware.types import ObjectState
from sim.task import PolicyInput
from sim.terms import humanoids
from sim.terms.flight import LOAD, LOAD_GOAL, load_velocity_w
from sim.transition import Transition

Tensor = torch.Tensor
WALK_M_S = 0.4  # how fast a load is carried to a goal that is far
RATE = 1.0  # share of the distance to a near one that is covered in a second
THERE_M = 0.1  # no robot walks to bring a load nearer than this


# What the policy sees: a inputs -> (..., k).


def walk(s: PolicyInput | Transition) -> Tensor:
    """Velocity with which the load is to go to its goal, (..., 2) m/s forward and left, load's heading frame."""
    load = s.objects[LOAD]
    offset = level(load, s.command[LOAD_GOAL] - load.pos)[..., :2]
    distance = torch.linalg.vector_norm(offset, dim=-1, keepdim=True)
    speed = (RATE * distance).clamp(max=WALK_M_S) * (distance > THERE_M)
    return speed * offset / distance.clamp(min=THERE_M)


def gait_clock(p: PolicyInput) -> Tensor:
    """Sine and cosine of the gait's phase, (..., 2); both zero while the load is where it is to be."""
    return humanoids.gait_clock(replace(p, command=_walk_command(p)))


def load_vel(p: PolicyInput) -> Tensor:
    """Velocity of the load, (..., 3) m/s, load's heading frame."""
    return level(p.objects[LOAD], load_velocity_w(p))


def load_lean(p: PolicyInput) -> Tensor:
    """How the load leans: the level part of gravity in its own axes, (..., 2)."""
    return down_b(p.objects[LOAD].quat)[..., :2]


# What it remembers: old value, inputs, action -> new value.


def gait_phase(old: Tensor, p: PolicyInput, action: Tensor, dt_s: float, period_s: float) -> Tensor:
    """Phase of the gait, (..., 1) in [0, 1): runs while the load has to go somewhere."""
    return humanoids.gait_phase(old, replace(p, command=_walk_command(p)), action, dt_s, period_s)


# What only the critic sees: a transition -> (W, N, k).


def load_end(t: Transition) -> Tensor:
    """Which end of the load the robot carries, (W, N, 1): 1 in front, -1 behind."""
    load = t.objects[LOAD]
    return level(load, t.state.base_pos - load.pos)[..., :1].sign()


def load_height(t: Transition) -> Tensor:
    """Height of the load, (W, N, 1) m."""
    return t.objects[LOAD].pos[..., 2:].expand(*t.state.age.shape, 1)


# How well it does: a transition -> (W, N).


def load_near_goal(t: Transition, scale_m: float) -> Tensor:
    """exp(-level distance of the load to its goal / scale)."""
    return torch.exp(-goal_distance(t) / scale_m)


def load_tilt(t: Transition) -> Tensor:
    """Squared sine of the load's tilt."""
    return down_b(t.objects[LOAD].quat)[..., :2].square().sum(-1).expand_as(t.state.age)


def walking(t: Transition, term: Callable[..., Tensor], **params: Any) -> Tensor:
    """A `term` of `humanoids` with its `params`, were the robot's command the velocity with which the load is to go."""
    return term(t.with_command(_walk_command(t)), **params)


# How it ends: a transition -> (W, N) bool.


def dropped(t: Transition, height_m: float, tilt_rad: float) -> Tensor:
    """The load lower than `height_m` or tilted by more than `tilt_rad`."""
    load = t.objects[LOAD]
    upright = -down_b(load.quat)[..., 2]
    return ((load.pos[..., 2] < height_m) | (upright < torch.cos(torch.tensor(tilt_rad)))).expand_as(t.state.age)


def delivered(t: Transition, distance_m: float, height_m: float, tilt_rad: float) -> Tensor:
    """The load within `distance_m` of its goal, level distance, not lower than `height_m` and tilted no more."""
    return (goal_distance(t) < distance_m) & ~dropped(t, height_m, tilt_rad)


def goal_distance(t: Transition) -> Tensor:
    """Level distance of the load to its goal, (W, N) m."""
    return torch.linalg.vector_norm((t.command[LOAD_GOAL] - t.objects[LOAD].pos)[..., :2], dim=-1)


def level(load: ObjectState, vec_w: Tensor) -> Tensor:
    """World vectors (..., 3) in the load's heading frame."""
    ahead = rotate(load.quat, torch.tensor([1.0, 0.0, 0.0]).expand_as(load.pos))[..., :2]
    x, y = (ahead / torch.linalg.vector_norm(ahead, dim=-1, keepdim=True).clamp(min=1e-6)).unbind(-1)
    forward, left = x * vec_w[..., 0] + y * vec_w[..., 1], x * vec_w[..., 1] - y * vec_w[..., 0]
    return torch.stack([forward, left, vec_w[..., 2].expand_as(forward)], dim=-1)


def _walk_command(s: PolicyInput | Transition) -> dict[str, Tensor]:
    """The velocity command of a robot that walks as the load has to go, without turning."""
    velocity = walk(s)
    return {"velocity": torch.cat([velocity, torch.zeros_like(velocity[..., :1])], dim=-1)}
