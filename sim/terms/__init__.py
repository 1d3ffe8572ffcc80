"""Observation, reward and termination terms: small pure functions, and how a task names and parametrises them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


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
    """What a policy carries from step to step: `func(old, inputs, action, **params)` returns the new value."""

    initial: tuple[float, ...] = ()  # value at the start of an episode, one entry a component


@dataclass(frozen=True)
class MeanTerm(Term):
    """A quantity (W, N, k) of a transition whose mean over the last `window_s` rewards and success find in `t.means`.

    It is NaN, and so no comparison holds, until an episode has lasted that long.
    """

    window_s: float = 1.0


@dataclass(frozen=True)
class EventTerm:
    """`func(robots, worlds, generator, **params)` changes something for `worlds` (K,); see sim/randomisation.py.

    It may scale with the curriculum, `robots.difficulty` (W,), 0 to 1, as terrain does.

    It is called at every reset; with `interval_range_s` repeatedly during an episode instead, each time after an
    interval that each world draws from that range. With (0, 0) it is called in every control step.
    """

    func: Callable[..., None]
    params: Mapping[str, Any] = field(default_factory=dict)
    interval_range_s: tuple[float, float] | None = None
