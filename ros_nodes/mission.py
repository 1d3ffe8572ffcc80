"""The mission that `phalanx deploy` flies: a team swaps places through one middle, and back; one policy dies midway."""

from dataclasses import dataclass

import numpy as np

LEAST_RADIUS_M = 0.7
LARGEST_TEAM = 16  # on the widest circle, 2.2 m: the shield's fence is at 2.4 m
NEIGHBOUR_M = 0.64  # distance of neighbours on the circle, at least
HEIGHT_M = (0.9, 1.5)
SETTLED_M = 0.3  # a robot within this of its goal is there
HOLD_S = 1.0  # ... and has to be for this long before a leg ends
KILL_INTO_LEG_S = 0.8  # the policy dies this long after the way back has begun


@dataclass(frozen=True, slots=True)
class Leg:
    """From `start_s` of the mission on, robots fly to `goals` (N, 3) m, world."""

    start_s: float
    goals: np.ndarray


@dataclass(frozen=True, slots=True)
class Mission:
    """What is to be flown, all of it decided by the seed."""

    names: tuple[str, ...]
    starts: np.ndarray  # (N, 4): x, y, z m and yaw rad
    legs: tuple[Leg, ...]
    duration_s: float
    kill_s: float | None  # when one policy is killed, None for never
    kill_robot: int = 0

    def ends_s(self) -> tuple[float, ...]:
        """When each leg ends, s."""
        return (*(leg.start_s for leg in self.legs[1:]), self.duration_s)


def plan_swap(robots: int, duration_s: float, kill_s: float | None, seed: int, prefix: str = "cf") -> Mission:
    """Robots on a circle of random phase, radius, heights and headings; goals opposite, and back.

    ValueError when there are no robots or the times do not fit.
    """
    if robots < 1:
        raise ValueError(f"a team needs at least one robot, not {robots}")
    if robots > LARGEST_TEAM:
        raise ValueError(f"the mission has room for {LARGEST_TEAM} robots, not {robots}")
    if not 4.0 <= duration_s <= 600.0:
        raise ValueError(f"duration_s = {duration_s:g}: must be from 4 to 600")
    if kill_s is not None and not 3.0 <= kill_s <= duration_s - 1.0:
        raise ValueError(
            f"kill_after_s = {kill_s:g}: must be from 3 to {duration_s - 1:g} for a mission of {duration_s:g} s"
        )
    rng = np.random.default_rng(seed)
    least = max(LEAST_RADIUS_M, NEIGHBOUR_M / 2 / np.sin(np.pi / max(robots, 2)))
    radius = least + 0.5 * rng.random()
    angle = 2 * np.pi * (np.arange(robots) / robots + rng.random())
    xy = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    height, goal_height = rng.uniform(*HEIGHT_M, (2, robots, 1))
    starts = np.hstack([xy, height, rng.uniform(-np.pi, np.pi, (robots, 1))])
    back_s = duration_s / 2 if kill_s is None else kill_s - KILL_INTO_LEG_S
    legs = Leg(0.0, np.hstack([-xy, goal_height])), Leg(back_s, np.hstack([xy, height]))
    return Mission(tuple(f"{prefix}{i + 1}" for i in range(robots)), starts, legs, duration_s, kill_s)
