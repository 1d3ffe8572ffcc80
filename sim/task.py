"""What a task is made of. A task is one file in sim/tasks that builds one `TaskCfg` from terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from hardware.types import RobotState

Tensor = torch.Tensor


@dataclass(frozen=True)
class Term:
    """A function of a module in sim/terms and the keyword parameters that this task gives it."""

    func: Callable[..., Tensor]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RewardTerm(Term):
    """A reward term; `weight` is per control step."""

    weight: float = 1.0


@dataclass(frozen=True)
class MemoryTerm(Term):
    """What a policy carries from step to step: `func(old, state, command, action, **params)` returns the new value."""

    initial: tuple[float, ...] = ()  # value at the start of an episode, one entry a component


@dataclass(frozen=True)
class RandomTerm:
    """`func(world, worlds, generator, **params)` draws values for `worlds` at their reset; see sim/randomisation.py."""

    func: Callable[..., None]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ObservationCfg:
    """What a robot's policy sees: `own` terms, `peer` terms for each robot in range, and what it remembers."""

    own: Mapping[str, Term]
    peer: Mapping[str, Term]
    memory: Mapping[str, MemoryTerm]
    peer_range_m: float  # farther robots are not heard
    max_peers: int  # only the nearest count


@dataclass(frozen=True)
class ActionCfg:
    """target = centre + scale * action, action in [-1, 1]; one entry a channel, in its unit."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True)
class CommandCfg:
    """One quantity that the operator gives each robot."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    unit: str
    frame: str
    meaning: str


@dataclass(frozen=True)
class Noise:
    """Standard deviation of white measurement noise."""

    pos_m: float = 0.0
    angle_rad: float = 0.0
    lin_vel_m_s: float = 0.0
    ang_vel_rad_s: float = 0.0


@dataclass
class Start:
    """Where episodes begin, for K worlds of N robots."""

    pos: Tensor  # (K, N, 3) m, world
    quat: Tensor  # (K, N, 4) wxyz
    lin_vel: Tensor  # (K, N, 3) m/s, world
    command: dict[str, Tensor]  # (K, N, size)


@dataclass
class Transition:
    """What reward, failure and success terms may look at: the truth, without noise or delay (W worlds, N robots)."""

    state: RobotState  # (W, N, ...)
    command: Mapping[str, Tensor]  # (W, N, size)
    action: Tensor  # (W, N, U) in [-1, 1]
    last_action: Tensor  # (W, N, U)
    offset: Tensor  # (W, N, N, 3) m, world, position of j minus position of i
    rel_vel: Tensor  # (W, N, N, 3) m/s, world, velocity of j minus velocity of i
    distance: Tensor  # (W, N, N) m between centres; inf on the diagonal


StartFunc = Callable[[torch.Generator, int, int], Start]


@dataclass(frozen=True)
class TaskCfg:
    """One task, whole: everything that training and evaluation need to know beside the algorithm."""

    name: str
    summary: str
    robot: str
    num_agents: int
    episode_s: float
    commands: Mapping[str, CommandCfg]
    observation: ObservationCfg
    action: ActionCfg
    start: StartFunc  # (generator, worlds K, robots N) -> Start
    rewards: Mapping[str, RewardTerm]
    failures: Mapping[str, Term]  # (W, N) bool; a robot that fails ends the episode of its world
    success: Term  # (W, N) bool; must hold for the last `success_hold_s` of the episode
    success_hold_s: float
    noise: Noise
    randomisation: Mapping[str, RandomTerm]
    ppo: Mapping[str, Any] = field(default_factory=dict)  # overrides of the algorithm's defaults
    shield: Mapping[str, Any] = field(default_factory=dict)  # overrides of the robot's shield parameters


@dataclass(frozen=True)
class ObsLayout:
    """An observation is [own, P x (peer features, valid)], flattened."""

    own_dim: int
    peer_dim: int

    def split(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(..., D) -> own (..., own_dim), peers (..., P, peer_dim), valid (..., P) bool."""
        own = obs[..., : self.own_dim]
        peers = obs[..., self.own_dim :].reshape(*obs.shape[:-1], -1, self.peer_dim + 1)
        return own, peers[..., :-1], peers[..., -1] > 0.5
