"""A recorded flight, as the report draws it."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from phalanx.report.film import Film


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once: `kind` is a short word such as "kill", "fallback" or "landed"."""

    t: float  # s since the flight began
    robot: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a chart."""

    name: str
    values: np.ndarray  # (T,)
    owner: int  # which robot it is of, -1 for none; decides the colour
    dashed: bool = False  # a command


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over the time of a flight."""

    title: str
    about: str
    label: str  # of the vertical axis, with the unit
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Flight:
    """T moments of N robots on one clock; the simulator's truth, not what the robots believed."""

    names: tuple[str, ...]
    t: np.ndarray  # (T,) s since the flight began, increasing
    pos: np.ndarray  # (T, N, 3) m, world
    goal: np.ndarray  # (N, 3) m, world; (0, 3) where robots have no goals of their own
    limit_m: float  # centre distance below which two robots collide; 0 where their distance means nothing
    radius_m: float
    mode: np.ndarray  # (T, N) index into `mode_names`
    mode_names: tuple[str, ...]
    intervention: np.ndarray  # (T, N) how far the shield moved the request, 0 when it passed untouched
    events: tuple[Event, ...] = ()
    latency_ms: np.ndarray = field(default_factory=lambda: np.zeros(0))  # measurement to command, one entry a command
    period_error_us: np.ndarray = field(default_factory=lambda: np.zeros(0))  # one entry a control period
    control_period_ms: float = 20.0
    film: Film | None = None  # of the same moments
    rewards: Mapping[str, np.ndarray] = field(default_factory=dict)  # term -> (T,) of each control step
    charts: tuple[Chart, ...] = ()  # what depends on the class of robot and the task

    def separation_m(self) -> np.ndarray:
        """(T,) distance between the centres of the closest pair, m; inf where there is no pair or it means nothing."""
        if not self.limit_m:
            return np.full(len(self.t), np.inf)
        offset = self.pos[:, :, None] - self.pos[:, None]
        distance = np.linalg.norm(offset, axis=-1)
        distance[:, np.arange(len(self.names)), np.arange(len(self.names))] = np.inf
        return distance.min(axis=(1, 2))

    def seen(self) -> np.ndarray:
        """(T, M, 3) m, world: points that a picture has to show at each moment."""
        if self.film is not None:
            return np.concatenate([self.film.seen(), self.pos], axis=1)
        return np.concatenate([self.pos, np.broadcast_to(self.goal, (len(self.t), *self.goal.shape))], axis=1)

    def thinned(self, hz: float) -> "Flight":
        """The same flight with at most `hz` moments a second; the closest approach stays in."""
        if len(self.t) < 2:
            return self
        grid = np.arange(self.t[0], self.t[-1], 1.0 / hz)
        keep = np.unique(np.append(np.searchsorted(self.t, grid), [int(self.separation_m().argmin()), len(self.t) - 1]))
        return replace(
            self,
            t=self.t[keep],
            pos=self.pos[keep],
            mode=self.mode[keep],
            intervention=self.intervention[keep],
            film=None if self.film is None else self.film.at(keep),
            rewards={name: values[keep] for name, values in self.rewards.items()},
            charts=tuple(
                replace(c, lines=tuple(replace(line, values=line.values[keep]) for line in c.lines))
                for c in self.charts
            ),
        )


def load_flight(path: Path) -> Flight:
    """The flight in the .npz that a mission left behind; ValueError when the file is not one."""
    try:
        with np.load(path, allow_pickle=False) as data:
            return Flight(
                names=tuple(str(name) for name in data["names"]),
                t=data["t"],
                pos=data["pos"].astype(float),
                goal=data["goal"],
                limit_m=float(data["limit_m"]),
                radius_m=float(data["radius_m"]),
                mode=data["mode"],
                mode_names=tuple(str(name) for name in data["mode_names"]),
                intervention=data["intervention"],
                events=tuple(Event(**event) for event in json.loads(str(data["events"]))),
                latency_ms=data["latency_ms"],
                period_error_us=data["period_error_us"],
                control_period_ms=float(data["control_period_ms"]),
            )
    except (KeyError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path} is not a recorded flight: {error}") from error
