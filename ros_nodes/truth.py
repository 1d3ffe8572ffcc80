"""The truth about a mission, row by row: what the simulated robots record and what the mission is judged by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hardware import load_robot
from hardware.types import ObjectState, RobotState
from ros_nodes.mission import Mission

BASE = 13  # numbers of a base or an object: position, quaternion, linear and angular velocity in the body


class Truthful(Protocol):
    """What knows how things really are."""

    num_robots: int
    target: np.ndarray  # (N, U)

    def true_state(self, robot: int) -> RobotState: ...

    def true_object(self, name: str) -> ObjectState: ...


@dataclass(frozen=True, slots=True)
class Truth:
    """T moments of N robots and their objects."""

    time_s: np.ndarray  # (T,) since the mission began
    robots: RobotState  # (T, N, ...)
    target: np.ndarray  # (T, N, U) what the drives were told
    objects: Mapping[str, ObjectState]  # (T, ...)


def truth_columns(mission: Mission) -> tuple[str, ...]:
    """Names of the numbers of `truth_row`."""
    size = _row_size(mission)
    return (
        *(f"{name}_{i}" for name in mission.names for i in range(size)),
        *(f"{name}_{i}" for name in mission.objects for i in range(BASE)),
    )


def truth_row(team: Truthful, objects: Sequence[str]) -> np.ndarray:
    """All robots, then all `objects`."""
    parts = []
    for robot in range(team.num_robots):
        s = team.true_state(robot)
        parts += [s.base_pos, s.base_quat, s.base_lin_vel, s.base_ang_vel, s.joint_pos, s.joint_vel, team.target[robot]]
    for name in objects:
        o = team.true_object(name)
        parts += [o.pos, o.quat, o.lin_vel, o.ang_vel]
    return np.concatenate(parts)


def read_truth(series: Mapping[str, np.ndarray], mission: Mission) -> Truth:
    """From the columns (T,) of a record, `time_s` first."""
    spec = load_robot(mission.robot)
    joints, size = len(spec.joints), _row_size(mission)

    def rows(name: str, count: int) -> np.ndarray:
        return np.stack([series[f"{name}_{i}"] for i in range(count)], axis=-1)

    robots = np.stack([rows(name, size) for name in mission.names], axis=1)
    base, joint_pos, joint_vel, target = np.split(robots, [BASE, BASE + joints, BASE + 2 * joints], axis=-1)
    age = np.zeros(robots.shape[:2])
    return Truth(
        series["time_s"],
        RobotState(joint_pos, joint_vel, *_split(base), age=age),
        target,
        {name: ObjectState(*_split(rows(name, BASE)), age=age[:, 0]) for name in mission.objects},
    )


def _split(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return rows[..., 0:3], rows[..., 3:7], rows[..., 7:10], rows[..., 10:13]


def _row_size(mission: Mission) -> int:
    spec = load_robot(mission.robot)
    return BASE + 2 * len(spec.joints) + len(spec.channels)
