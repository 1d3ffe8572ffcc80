"""Whether a mission succeeded, by the truth."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ros_nodes.mission.ground_truth import GroundTruth
from ros_nodes.plans.mission import Mission

SETTLED_M = 0.3  # a robot within this of its goal is there


@dataclass(frozen=True, slots=True)
class MissionSuccess:
    """Success and terminations of T moments and N robots."""

    success: np.ndarray  # (T, N) bool
    terminations: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> (T, N) bool; none may happen


Check = tuple[float, np.ndarray, list[int]]
Criterion = Callable[[Mission, GroundTruth], MissionSuccess]


def near_goal(mission: Mission, truth: GroundTruth) -> MissionSuccess:
    """Success is a base near its goal; the criterion of a mission without a task."""
    goal = mission.command_at("goal_pos", truth.time_s, range(len(mission.team)))
    pos = np.stack([state.base_pos for state in truth.robots], axis=1)
    return MissionSuccess(np.linalg.norm(pos - goal, axis=-1) < SETTLED_M)


def checked(mission: Mission, truth: GroundTruth, killed_s: float | None) -> Iterator[Check]:
    """Of each check: time s, moments (T,) bool that count, robots whose policy lives to see it."""
    for end_s in mission.checks_s:
        window = (truth.time_s > end_s - mission.hold_s) & (truth.time_s <= end_s)
        dead = mission.kill_robot if killed_s is not None and end_s >= killed_s else None
        yield end_s, window, [robot for robot in range(len(mission.team)) if robot != dead]


def legs_done(mission: Mission, truth: GroundTruth, outcome: MissionSuccess, killed_s: float | None) -> list[bool]:
    """Of each check that a policy lives to see, whether success held before it for every robot with a living one."""
    return [
        bool(window.any() and outcome.success[window][:, living].all())
        for _, window, living in checked(mission, truth, killed_s)
        if living
    ]
