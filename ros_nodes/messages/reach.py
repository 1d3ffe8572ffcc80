"""Whether the tool of an arm can come to a goal at all, by how far it is from the arm's base at most."""

from collections.abc import Sequence
from math import inf

import numpy as np

from deploy.contract import CommandSpec
from hardware.kinematics import load_chain
from hardware.spec import RobotSpec

GOAL, TOOL = "goal_pos", "tool"  # the command, and the frame that it is for
POSES, MISSED = 4096, 1.01  # drawn at random, and how much farther than in all of them the tool may come: 0.5 %


def reach_m(spec: RobotSpec) -> float:
    """How far (m) the tool of an arm is from its base at most, whatever its joints do; infinite for other robots."""
    if not spec.fixed_base or TOOL not in spec.frames:
        return inf
    low, high = (np.array([getattr(joint, end) for joint in spec.joints]) for end in ("low", "high"))
    poses = np.random.default_rng(0).uniform(low, high, (POSES, len(spec.joints)))
    return MISSED * float(np.linalg.norm(load_chain(spec, TOOL).forward(poses)[0], axis=-1).max())


def beyond_reach(
    command: CommandSpec, value: np.ndarray | Sequence[float], reach_m: float, base_pose: Sequence[float]
) -> str:
    """Why an arm that stands at `base_pose` (x, y, z m, yaw rad) cannot come to a goal, or an empty string.

    `value` (n,) is of any command.
    """
    if command.name != GOAL or command.frame != "world":
        return ""
    far_m = float(np.linalg.norm(np.subtract(value, base_pose[:3])))
    at = [float(f"{number:.3g}") for number in base_pose[:3]]
    return f"{far_m:.2f} m from its base at {at}, and its tool reaches {reach_m:.2f} m" if far_m > reach_m else ""


def range_beyond_reach(commands: Sequence[CommandSpec], reach_m: float, base_pose: Sequence[float]) -> str:
    """Why an arm reaches no goal that its policy takes from where it stands, or an empty string."""
    for command in commands:
        if command.name == GOAL:
            nearest = np.clip(base_pose[:3], command.low, command.high)
            if far := beyond_reach(command, nearest, reach_m, base_pose):
                goals = f"goals from {list(command.low)} to {list(command.high)} m in the world"
                return f"its policy takes {goals}: the nearest is {far}; let it stand nearer to the world's origin"
    return ""
