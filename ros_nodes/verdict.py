"""Whether a mission succeeded, by the truth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ros_nodes.mission import Mission
from ros_nodes.truth import Truth

SETTLED_M = 0.3  # a robot within this of its goal is there


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said of each of T moments and N robots."""

    success: np.ndarray  # (T, N) bool
    failures: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> (T, N) bool; none may happen at any time


Judge = Callable[[Mission, Truth], Verdict]


def near_goal(mission: Mission, truth: Truth) -> Verdict:
    """Success is a base near its goal; what a mission is judged by that no task judges."""
    goal = mission.command_at("goal_pos", truth.time_s, range(len(mission.team)))
    pos = np.stack([state.base_pos for state in truth.robots], axis=1)
    return Verdict(np.linalg.norm(pos - goal, axis=-1) < SETTLED_M)


def legs_done(mission: Mission, truth: Truth, verdict: Verdict, killed_s: float | None) -> list[bool]:
    """Of each check that a policy lives to see, whether success held before it for every robot with a living one."""
    done = []
    for end_s in mission.checks_s:
        window = (truth.time_s > end_s - mission.hold_s) & (truth.time_s <= end_s)
        living = [r for r in range(len(mission.team)) if not _dead(mission, r, end_s, killed_s)]
        if living:
            done.append(bool(window.any() and verdict.success[window][:, living].all()))
    return done


def failures(mission: Mission, truth: Truth, verdict: Verdict, killed_s: float | None) -> dict[str, int]:
    """How many moments of each failure there were, of robots while their policy lived."""
    living = np.ones((len(truth.time_s), len(mission.team)), bool)
    if killed_s is not None:
        living[truth.time_s >= killed_s, mission.kill_robot] = False
    return {name: int((happened & living).sum()) for name, happened in verdict.failures.items()}


def _dead(mission: Mission, robot: int, now_s: float, killed_s: float | None) -> bool:
    return killed_s is not None and robot == mission.kill_robot and now_s >= killed_s
