"""Smooth actions (CAPS, Mysore et al. 2021, arXiv:2012.06644): little change in time, and little with what is seen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hardware.ranges import check_fields
from policies.algorithms.algorithm import Group, mean
from policies.networks.normaliser import Features


@dataclass(frozen=True)
class SmoothCfg:
    """Hyperparameters that all algorithms have."""

    NAME: ClassVar[str]

    temporal_smoothness: float = 0.0  # weight of the squared change of the best action from a step to the next (CAPS)
    spatial_smoothness: float = 0.0  # and of what it changes by where what is seen is a little off
    spatial_std: float = 0.1  # by how much, in standard deviations of what is seen

    def __post_init__(self) -> None:
        limits = {"temporal_smoothness": (0, 1e6), "spatial_smoothness": (0, 1e6), "spatial_std": (1e-6, 10)}
        check_fields(f"{self.NAME}.", self, **limits)


def check_chunk(name: str, group: Group) -> None:
    """ValueError where actions of the group `name` are chunks, which overlap in time, and are to be smooth in time."""
    if group.cfg.temporal_smoothness and group.network.chunk > 1:
        chunk = f"network.chunk = {group.network.chunk} of {name!r}"
        raise ValueError(f"temporal_smoothness with {chunk}: chunks overlap; one of the two")


def change(action: Tensor, other: Tensor, weight: Tensor | None) -> Tensor:
    """Mean squared change, (), of actions (S, N, U); squared, so that a small one costs next to nothing."""
    return mean((other - action).square().sum(-1), weight)


def nearby(seen: Features, off: Tensor) -> Features:
    """What is seen, where that of the robot itself is `off` (S, N, D)."""
    return seen._replace(own=seen.own + off)


def noise(own: Tensor, count: int, cfg: SmoothCfg, generator: torch.Generator) -> Tensor:
    """How far what is seen is off, (count, N, D), where rows are as those of `own` (S, N, D)."""
    drawn = torch.randn(count, *own.shape[1:], generator=generator, device=own.device)
    return cfg.spatial_std * drawn.to(own.dtype)


def roughness(
    best: Callable[[Features], Tensor],
    seen: Features,
    after: Features,
    weight: Tensor | None,
    cfg: SmoothCfg,
    generator: torch.Generator,
) -> Tensor | float:
    """What a policy's loss grows by, whose `best` actions are (S, N, U), for what was seen and what came `after`."""
    total: Tensor | float = 0.0
    if cfg.temporal_smoothness:
        total = total + cfg.temporal_smoothness * change(best(seen), best(after), weight)
    if cfg.spatial_smoothness:
        other = nearby(seen, noise(seen.own, len(seen.own), cfg, generator))
        total = total + cfg.spatial_smoothness * change(best(seen), best(other), weight)
    return total
