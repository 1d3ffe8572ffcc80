"""Commands that ask for no motion, until an operator sends the first one."""

from collections.abc import Mapping, Sequence

import numpy as np

from deploy.contract import CommandSpec
from hardware.kinematics import load_chain
from hardware.rotation import multiply, rotate
from hardware.spec import RobotSpec
from hardware.types import Array, ObjectState, RobotState

TOOL = "tool"


class HoldCommand:
    """Commands (n,) float32 that keep a robot and its objects where they are, as far as the policy's ranges go.

    A goal, or a `height`, is that of the one object which an arm's policy observes, else of the robot's `tool` frame,
    else of its base; `<object>_goal` is that of the object. Everything else is zero, such as velocities. Of an arm they
    are placeholders until all commands have been received: see `CommandInbox.awaited`.
    """

    def __init__(self, robot: RobotSpec, commands: Sequence[CommandSpec]):
        self._commands = commands
        self._manipulates = robot.kind == "manipulator"
        self._chain = load_chain(robot, TOOL) if TOOL in robot.frames else None

    def __call__(self, state: RobotState, objects: Mapping[str, ObjectState]) -> dict[str, np.ndarray]:
        """Where `state` and `objects` (no batch) are now."""
        here = {spec.name: self._here(spec, state, objects) for spec in self._commands}
        return {s.name: np.clip(here[s.name], s.low, s.high).astype(np.float32) for s in self._commands}

    def _here(self, spec: CommandSpec, state: RobotState, objects: Mapping[str, ObjectState]) -> Array:
        size = int(spec.shape[1])
        for name, thing in objects.items():
            if spec.name == f"{name}_goal" and size == 3:
                return thing.pos
        if spec.name in ("goal_pos", "goal_quat", "height"):
            pos, quat = self._pose(state, objects, spec.frame == "world")
            return {"goal_pos": pos, "goal_quat": upper_half(quat), "height": pos[2:]}[spec.name]
        if spec.frame == "joint" and size == len(state.joint_pos):
            return state.joint_pos
        return np.zeros(size)

    def _pose(self, state: RobotState, objects: Mapping[str, ObjectState], in_world: bool) -> tuple[Array, Array]:
        """Where what a goal is for is now, in the world or in the base."""
        if self._manipulates and len(objects) == 1 and in_world:
            (thing,) = objects.values()
            return thing.pos, thing.quat
        pos, quat = np.zeros(3, np.float32), np.array((1.0, 0.0, 0.0, 0.0), np.float32)
        if self._chain is not None:
            pos, quat = self._chain.forward(state.joint_pos)
        if not in_world:
            return pos, quat
        return state.base_pos + rotate(state.base_quat, pos), multiply(state.base_quat, quat)


def upper_half(quat: np.ndarray) -> np.ndarray:
    """Of the two quaternions of a turn the one with w >= 0."""
    return quat if quat[0] >= 0 else -quat
