"""Pairs and lines of drones: whether they keep their distance, what leads to less, and how long finding out takes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deploy.shield.check.cells import BOUNDS, Cells, Wrong, flow, leaving, safe_cells
from deploy.shield.check.robot import Robot

FRESH_S = 0.028  # age of a message that is not late
SECONDS, STEP_S = 5.0, 0.02  # of flights
Size = tuple[float, float]  # of a cell: m, m/s


@dataclass(frozen=True)
class Pair:
    """Cells of a robot and its peer (G, H), what each does towards the other, and the round each cell was lost in."""

    robot: Robot
    cells: Cells
    own: np.ndarray
    other: np.ndarray
    lost: np.ndarray  # 0 for safe ones

    @classmethod
    def of(
        cls,
        robot: Robot,
        age_s: float,
        size: Size,
        shares: bool = True,
        wrong: Wrong = BOUNDS,
        closing: float = np.inf,
        far_m: float = np.inf,
    ) -> "Pair":
        """`robot` and one like it; where that does not share, it flies straight on. See `Cells.of`."""
        cells = Cells.of(robot, age_s, size, far_m, closing)
        own = cells.caps(robot, age_s, wrong)
        other = own if shares else np.zeros_like(own)
        return cls(robot, cells, own, other, safe_cells(cells, own, other))

    @property
    def keeps(self) -> bool:
        """Whether every cell with h >= 0 is safe."""
        return not bool((self.lost[:, self.cells.begins] > 0).any())

    def trace(self, points: int = 8) -> list[dict[str, float]]:
        """A way from a start with h >= 0, far away, to where the distance or the smallest h is lost; m, m/s, m/s^2."""
        sinks, nearer, farther = flow(self.cells, self.own + self.other)
        at = tuple(np.argwhere((self.lost > 0) & self.cells.begins & self.cells.flown)[-1].tolist())
        way = [at]
        while self.lost[at] > 1:
            i, j = at
            doors = [(sinks[at], (i, j - 1)), (nearer[at], (i - 1, j)), (farther[at], (i + 1, j)), (True, (i, j + 1))]
            at = min((to for door, to in doors if door and self._is_lost(to)), key=lambda to: self.lost[to])
            way.append(at)
        return [self._point(*cell) for cell in (*way[:: max(1, len(way) // points)], way[-1])]

    def _is_lost(self, cell: tuple[int, int]) -> bool:
        return all(0 <= k < size for k, size in zip(cell, self.lost.shape, strict=True)) and self.lost[cell] > 0

    def _point(self, i: int, j: int) -> dict[str, float]:
        cells = self.cells
        values = {
            "gap_m": cells.gap[i, 0],
            "closing_m_s": cells.allowed[i, 0] - cells.h[0, j],
            "h_m_s": cells.h[0, j],
            "own_m_s2": self.own[i, j],
            "other_m_s2": self.other[i, j],
        }
        return {name: round(self.robot.stretch * float(value), 3) for name, value in values.items()}


def fly(robot: Robot, age_s: float, others_part: float = 1.0, top_m_s: float = np.inf) -> float:
    """The least gap, m, when both do all that they may, from full speed or `top_m_s` at a distance, errors at bounds.

    The other one does `others_part` of what the robot does; at 0 it flies straight on.
    """
    top = min(2.0 * robot.params.max_speed, top_m_s) / robot.stretch
    gap, closing = float(Cells.of(robot, age_s, (0.1, 0.1)).gap[-1, 0]), top
    least, wrong = gap, [error / robot.stretch for error in BOUNDS]
    for _ in range(round(SECONDS / STEP_S)):
        own = float(robot.hardest(robot.bound(np.array(gap + wrong[0]), np.array(closing - wrong[1]), age_s)))
        gap, closing = gap - closing * STEP_S, min(closing + (1.0 + others_part) * own * STEP_S, top)
        least = min(least, gap)
    return round(robot.stretch * least, 3)


def greatest(passes: Callable[[float], bool], high: float, steps: int = 5) -> float:
    """The largest number up to `high` that `passes`, by bisection."""
    low = 0.0
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if passes(middle) else (low, middle)
    return round(low, 3)


def compare_three(robot: Robot, size: Size, far_m: float) -> dict[str, int]:
    """Safe cells of three on a line, as one game, beside the product of what is safe for each pair; without errors.

    The one in the middle cannot brake for both sides at once; it then falls short of both rows alike, as its fallback
    does.
    """
    pair = Pair.of(robot, FRESH_S, size, wrong=(0.0, 0.0), far_m=far_m)
    first, second = (slice(None), slice(None), None, None), (None, None)
    lost = np.zeros(pair.lost.shape * 2, dtype=bool)
    faces = [_faces(pair, here, there) for here, there in ((first, second), (second, first))]
    while True:
        leaks = ~lost & (leaving(faces[0], lost, axis=0) | leaving(faces[1], lost, axis=2))
        if not leaks.any():
            break
        lost |= leaks
    alone = pair.lost == 0
    product = alone[first] & alone[second]
    return {"cells": lost.size, "product": int(product.sum()), "together": int((~lost & product).sum())}


def _faces(pair: Pair, here: Any, there: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`flow` in one of the two gaps of three robots (G, H, G, H)."""
    cells, cap = pair.cells, pair.own
    torn = cap[here] + cap[there] < 0.0
    middle = np.where(torn, 0.5 * (cap[here] - cap[there]), cap[here])
    sinks = (cap[here] + middle + cells.steepest()[here] > 0.0) & cells.flown[here]
    _, nearer, farther = flow(cells, cap)
    return sinks, *(np.broadcast_to((face & cells.flown)[here], sinks.shape) for face in (nearer, farther))


def synthesis_time(robot: Robot, size: Size, far_m: float, robots: int) -> dict[str, Any]:
    """Seconds for the cells of each of `robots` on a line, one after the other; how many cells one game would have."""
    began, count = time.perf_counter(), 0
    for place in range(robots):
        for _ in range(1 if place in (0, robots - 1) else 2):  # neighbours
            count = Pair.of(robot, FRESH_S, size, far_m=far_m).lost.size
    seconds = (time.perf_counter() - began) / robots
    return {"robots": robots, "local_s_each": round(seconds, 3), "cells_of_one_game": count ** (robots - 1)}
