"""Failures of a mission and takeovers by shields: which robot, when and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ros_nodes.messages.diagnostics import ShieldMode
from ros_nodes.mission.ground_truth import GroundTruth
from ros_nodes.mission.mission_success import MissionSuccess, checked
from ros_nodes.plans.mission import Mission

Time = float | None
Failure = dict[str, Any]  # robot, t_s of the mission, and the reason


@dataclass(slots=True)
class Takeover:
    """A shield took its robot over from the policy."""

    robot: str
    t_s: float  # of the mission
    from_mode: str
    to_mode: str
    reason: str
    latched: bool  # only a reset would have given the robot back
    until_s: float | None = None  # when the policy had it again


def takeovers(changes: Mapping[str, Sequence[ShieldMode]], start_ns: int) -> list[Takeover]:
    """Takeovers of the mission that began at `start_ns` (robot time), by time; `changes`: modes of each shield.

    One before its beginning counts where the policy did not have the robot again by then.
    """
    found = []
    for robot, modes in changes.items():
        policy, current = "", None
        for mode in modes:
            t_s = round((mode.time_ns - start_ns) * 1e-9, 3)
            if mode.policy_flies:
                if current is not None:
                    current.until_s = t_s
                policy, current = mode.mode, None
            elif current is None:
                current = Takeover(robot, t_s, policy, mode.mode, mode.reason, mode.latched)
                if policy:
                    found.append(current)
            elif mode.latched and not current.latched:
                current.latched, current.reason = True, mode.reason
    counted = [t for t in found if t.t_s >= 0.0 or t.until_s is None or t.until_s > 0.0]
    return sorted(counted, key=lambda takeover: takeover.t_s)


def events(changes: Mapping[str, Sequence[ShieldMode]], start_ns: int) -> list[dict[str, Any]]:
    """Who has had each robot, by time: every change of state, and of what a policy does to a shield; and all delays.

    Times are s since the mission began at `start_ns` (robot time).
    """
    found = []
    for robot, modes in changes.items():
        before, delays = "", 0
        for mode in modes:
            now, t_s = mode.label, round((mode.time_ns - start_ns) * 1e-9, 3)
            whose = {"t_s": t_s, "robot": robot, "from": before}
            if mode.delays > delays:  # the reason of a change is the shield's, not the delay that ended then
                found.append(whose | {"to": before, "reason": mode.last_delay})
            if now != before:
                found.append(whose | {"to": now, "reason": mode.reason})
            before, delays = now, mode.delays
    return sorted(found, key=lambda event: event["t_s"])


def lost_robots(mission: Mission, found: Sequence[Takeover], killed_s: float | None) -> list[Failure]:
    """Robots that their shield took out for good, but for the one whose policy was killed."""
    killed = mission.names[mission.kill_robot] if killed_s is not None else ""
    return [
        {"robot": t.robot, "t_s": t.t_s, "why": f"shield {t.from_mode} -> {t.to_mode} for good: {t.reason}"}
        for t in found
        if t.latched and not (t.robot == killed and killed_s is not None and t.t_s >= killed_s)
    ]


def mission_failures(
    mission: Mission, truth: GroundTruth, outcome: MissionSuccess, killed_s: Time, causes: Sequence[Failure]
) -> list[Failure]:
    """All by time, but those goals that were missed last, for these follow from the others; `causes`: known already."""
    causes = [*causes, *terminated_robots(mission, truth, outcome, killed_s)]
    return [*sorted(causes, key=lambda cause: cause["t_s"]), *missed_goals(mission, truth, outcome, killed_s)]


def missed_goals(mission: Mission, truth: GroundTruth, outcome: MissionSuccess, killed_s: Time) -> list[Failure]:
    """Robots that were not where they were asked to be at a check."""
    return [
        {"robot": mission.names[robot], "t_s": end_s, "why": f"goal not held for {mission.hold_s:g} s"}
        for end_s, window, living in checked(mission, truth, killed_s)
        for robot in living
        if not (window.any() and outcome.success[window, robot].all())
    ]


def terminated_robots(mission: Mission, truth: GroundTruth, outcome: MissionSuccess, killed_s: Time) -> list[Failure]:
    """The first moment of each termination term of the task, of robots while their policy lived."""
    found = []
    for name, happened in outcome.terminations.items():
        for robot, moments in enumerate(happened.T):
            if killed_s is not None and robot == mission.kill_robot:
                moments = moments & (truth.time_s < killed_s)
            if moments.any():
                t_s = round(float(truth.time_s[np.argmax(moments)]), 3)
                found.append(
                    {"robot": mission.names[robot], "t_s": t_s, "why": f"{name}, {int(moments.sum())} moments"}
                )
    return found
