"""The truth about a mission, row by row: what the simulated robots record and what the mission is judged by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hardware import load_robot
from hardware.types import ObjectState, RobotState
from ros_nodes.mission.mission import Member, Mission

BASE = 13  # numbers of a base or an object: position, quaternion, linear and angular velocity in the body


class TrueRobot(Protocol):
    """What knows how a robot really is."""

    target: np.ndarray  # (U,) what its drives were told

    def true_state(self) -> RobotState: ...


class TrueTeam(Protocol):
    """What knows how things really are."""

    @property
    def robots(self) -> Sequence[TrueRobot]: ...

    def true_object(self, name: str) -> ObjectState: ...


@dataclass(frozen=True, slots=True)
class Truth:
    """T moments of the robots of a mission, in its order, and of its objects."""

    time_s: np.ndarray  # (T,) since the mission began
    robots: Sequence[RobotState]  # (T, ...) each
    target: Sequence[np.ndarray]  # (T, U) each, what the drives were told
    objects: Mapping[str, ObjectState]  # (T, ...) each


def truth_columns(mission: Mission) -> tuple[str, ...]:
    """Names of the numbers of `truth_row`."""
    return (
        *(f"{member.name}_{i}" for member in mission.team for i in range(sum(_sizes(member)))),
        *(f"{name}_{i}" for name in mission.objects for i in range(BASE)),
    )


def truth_row(team: TrueTeam, objects: Sequence[str]) -> np.ndarray:
    """All robots, then all `objects`."""
    parts = []
    for robot in team.robots:
        s = robot.true_state()
        parts += [s.base_pos, s.base_quat, s.base_lin_vel, s.base_ang_vel, s.joint_pos, s.joint_vel, robot.target]
    for name in objects:
        o = team.true_object(name)
        parts += [o.pos, o.quat, o.lin_vel, o.ang_vel]
    return np.concatenate(parts)


def read_truth(series: Mapping[str, np.ndarray], mission: Mission) -> Truth:
    """From the columns (T,) of a record, `time_s` first."""
    time_s = series["time_s"]
    age = np.zeros(time_s.shape)

    def rows(name: str, count: int) -> np.ndarray:
        return np.stack([series[f"{name}_{i}"] for i in range(count)], axis=-1)

    robots, targets = [], []
    for member in mission.team:
        sizes = _sizes(member)
        row = rows(member.name, sum(sizes))
        base, joint_pos, joint_vel, target = np.split(row, np.cumsum(sizes)[:-1], axis=-1)
        robots.append(RobotState(joint_pos, joint_vel, *_split(base), age=age))
        targets.append(target)
    objects = {name: ObjectState(*_split(rows(name, BASE)), age=age) for name in mission.objects}
    return Truth(time_s, robots, targets, objects)


def _split(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return rows[..., 0:3], rows[..., 3:7], rows[..., 7:10], rows[..., 10:13]


def _sizes(member: Member) -> tuple[int, int, int, int]:
    """Numbers of base, joint positions, joint velocities and target."""
    spec = load_robot(member.robot)
    return BASE, len(spec.joints), len(spec.joints), len(spec.channels)
