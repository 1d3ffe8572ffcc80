"""A recorded flight, as the report draws it."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once: `kind` is a short word such as "kill", "fallback" or "landed"."""

    t: float  # s since the flight began
    robot: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Flight:
    """T moments of N robots on one clock; the simulator's truth, not what the robots believed."""

    names: tuple[str, ...]
    t: np.ndarray  # (T,) s since the flight began, increasing
    pos: np.ndarray  # (T, N, 3) m, world
    goal: np.ndarray  # (N, 3) m, world
    limit_m: float  # centre distance below which two robots collide
    radius_m: float
    mode: np.ndarray  # (T, N) index into `mode_names`
    mode_names: tuple[str, ...]
    intervention: np.ndarray  # (T, N) how far the shield moved the request, 0 when it passed untouched
    events: tuple[Event, ...] = ()
    latency_ms: np.ndarray = field(default_factory=lambda: np.zeros(0))  # measurement to command, one entry a command
    period_error_us: np.ndarray = field(default_factory=lambda: np.zeros(0))  # one entry a control period
    control_period_ms: float = 20.0

    def separation_m(self) -> np.ndarray:
        """(T,) distance between the centres of the closest pair, m; inf for a robot alone."""
        offset = self.pos[:, :, None] - self.pos[:, None]
        distance = np.linalg.norm(offset, axis=-1)
        distance[:, np.arange(len(self.names)), np.arange(len(self.names))] = np.inf
        return distance.min(axis=(1, 2))

    def thinned(self, hz: float) -> "Flight":
        """The same flight with at most `hz` moments a second; the closest approach stays in."""
        if len(self.t) < 2:
            return self
        grid = np.arange(self.t[0], self.t[-1], 1.0 / hz)
        keep = np.unique(np.append(np.searchsorted(self.t, grid), [int(self.separation_m().argmin()), len(self.t) - 1]))
        return Flight(
            self.names,
            self.t[keep],
            self.pos[keep],
            self.goal,
            self.limit_m,
            self.radius_m,
            self.mode[keep],
            self.mode_names,
            self.intervention[keep],
            self.events,
            self.latency_ms,
            self.period_error_us,
            self.control_period_ms,
        )
