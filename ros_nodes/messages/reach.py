"""Whether the tool of an arm can come to a goal at all, by how far any part of it is from its base at most."""

from collections.abc import Sequence

import numpy as np

from deploy.contract import CommandSpec
from hardware.spec import RobotSpec


def beyond_reach(
    command: CommandSpec, value: np.ndarray | Sequence[float], spec: RobotSpec, base_pose: Sequence[float]
) -> str:
    """Why an arm that stands at `base_pose` (x, y, z m, yaw rad) cannot come to a goal, or an empty string.

    `value` (n,) is of any command.
    """
    if not _is_place(command, spec):
        return ""
    far_m = float(np.linalg.norm(np.subtract(value, base_pose[:3])))
    at = [float(f"{number:.3g}") for number in base_pose[:3]]
    return f"{far_m:.2f} m from its base at {at}, and it reaches {spec.radius_m:g} m" if far_m > spec.radius_m else ""


def range_beyond_reach(commands: Sequence[CommandSpec], spec: RobotSpec, base_pose: Sequence[float]) -> str:
    """Why an arm reaches no goal that its policy takes from where it stands, or an empty string."""
    for command in commands:
        if _is_place(command, spec):
            nearest = np.clip(base_pose[:3], command.low, command.high)
            if far := beyond_reach(command, nearest, spec, base_pose):
                goals = f"goals from {list(command.low)} to {list(command.high)} m in the world"
                return f"its policy takes {goals}: the nearest is {far}"
    return ""


def _is_place(command: CommandSpec, spec: RobotSpec) -> bool:
    return command.name == "goal_pos" and command.frame == "world" and spec.fixed_base
