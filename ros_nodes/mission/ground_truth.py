"""Ground truth of a mission, row by row: what the simulated robots record and what the mission is evaluated by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hardware import load_robot
from hardware.types import ObjectState, RobotState
from ros_nodes.plans.mission import Member, Mission

BASE = 13  # numbers of a base or an object: position, quaternion, linear and angular velocity in the body


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """T moments of the robots of a mission, in its order, and of its objects."""

    time_s: np.ndarray  # (T,) since the mission began
    robots: Sequence[RobotState]  # (T, ...) each
    target: Sequence[np.ndarray]  # (T, U) each, set-points of the drives
    objects: Mapping[str, ObjectState]  # (T, ...) each


def ground_truth_columns(mission: Mission) -> tuple[str, ...]:
    """Names of the numbers that are recorded: all robots, then all objects."""
    return (
        *(f"{member.name}_{i}" for member in mission.team for i in range(sum(_sizes(member)))),
        *(f"{name}_{i}" for name in mission.objects for i in range(BASE)),
    )


def read_ground_truth(series: Mapping[str, np.ndarray], mission: Mission) -> GroundTruth:
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
        robots.append(RobotState(joint_pos, joint_vel, *split_base(base), age=age))
        targets.append(target)
    objects = {name: ObjectState(*split_base(rows(name, BASE)), age=age) for name in mission.objects}
    return GroundTruth(time_s, robots, targets, objects)


def split_base(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position, quaternion, linear and angular velocity in the body, of rows (..., 13 or more)."""
    return rows[..., 0:3], rows[..., 3:7], rows[..., 7:10], rows[..., 10:13]


def _sizes(member: Member) -> tuple[int, int, int, int]:
    """Numbers of base, joint positions, joint velocities and target."""
    spec = load_robot(member.robot)
    return BASE, len(spec.joints), len(spec.joints), len(spec.channels)
