"""The truth about robots after a step, as reward, failure and success terms see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import torch

from hardware import load_robot
from hardware.kinematics import Chain, load_chain
from hardware.rotation import multiply, rotate
from hardware.types import ObjectState, RobotState
from sim.scenes.terrain import Ground
from sim.tree import on_tensors
from sim.vectors import length, pairwise

Tensor = torch.Tensor


@dataclass
class Transition:
    """What reward, failure and success terms may look at: the truth, without noise or delay (W worlds, N robots)."""

    robot: str
    state: RobotState  # (W, N, ...)
    last_state: RobotState  # a control step before
    objects: Mapping[str, ObjectState]  # (W, 1, ...)
    command: Mapping[str, Tensor]  # (W, N, size)
    target: Tensor  # (W, N, U) what the actuators were sent
    action: Tensor  # (W, N, U) in [-1, 1]
    last_action: Tensor  # (W, N, U)
    memory: Mapping[str, Tensor]  # (W, N, size)
    time_s: Tensor  # (W,) since the start of the episode
    dt_s: float
    plan: Mapping[str, Tensor] = field(default_factory=dict)  # (W, N, ...) what is to come of the commands
    others: Mapping[str, RobotState] = field(default_factory=dict)  # role -> (W, its N, ...), in a mixed team
    means: Mapping[str, Tensor] = field(default_factory=dict)  # (W, N, k) of the group's `MeanTerm`s
    correction: Tensor | None = None  # (W, N) by which the shield moved the command, see `FilterInfo`; None without
    ground: Ground | None = None  # None for a plain floor at height 0
    # Frames that a term asked for: kinematics is most of what terms of legs and arms cost.
    frames: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False)
    last_frames: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False)

    def with_command(self, command: Mapping[str, Tensor]) -> "Transition":
        """The same moment, had robots been given `command`; what is known of their frames is known there too."""
        other = replace(self, command=command)
        other.frames, other.last_frames = self.frames, self.last_frames
        return other

    def of(self, worlds: Tensor) -> "Transition":
        """The same of `worlds` (K,) alone, (K, N, ...)."""
        return on_tensors(lambda tensor: tensor[worlds], self)

    def know_frames(self, before: "Transition", worlds: Tensor) -> None:
        """Take over the frames of the transition at the same moment, before `worlds` (K,) were restarted."""
        if not before.frames:
            return
        state = on_tensors(lambda tensor: tensor[worlds], self.state)
        for role, (pos, quat) in before.frames.items():
            new_pos, new_quat = _frame_pose(self.robot, state, role)
            self.frames[role] = pos.index_copy(0, worlds, new_pos), quat.index_copy(0, worlds, new_quat)

    @cached_property
    def lin_vel_w(self) -> Tensor:
        """Velocity of the bases, (W, N, 3) m/s, world."""
        return rotate(self.state.base_quat, self.state.base_lin_vel)

    @cached_property
    def offset(self) -> Tensor:
        """(W, N, N, 3) m, world: position of j minus position of i."""
        return pairwise(self.state.base_pos)

    @cached_property
    def rel_vel(self) -> Tensor:
        """(W, N, N, 3) m/s, world: velocity of j minus velocity of i."""
        return pairwise(self.lin_vel_w)

    @cached_property
    def distance(self) -> Tensor:
        """(W, N, N) m between the centres of bases; inf on the diagonal."""
        own = torch.diag(self.offset.new_full((self.offset.shape[1],), torch.inf))
        return length(self.offset) + own

    def above_ground(self, pos: Tensor) -> Tensor:
        """Height (W, ...) m of `pos` (W, ..., 3) m, world, above the ground below it."""
        return pos[..., 2] if self.ground is None else pos[..., 2] - self.ground.height(pos)

    def frame(self, role: str) -> tuple[Tensor, Tensor]:
        """Pose of the robots' frame `role` in the world: (W, N, 3) m and (W, N, 4) wxyz."""
        if role not in self.frames:
            self.frames[role] = _frame_pose(self.robot, self.state, role)
        return self.frames[role]

    def last_frame(self, role: str) -> tuple[Tensor, Tensor]:
        """The same a control step before."""
        if role not in self.last_frames:
            self.last_frames[role] = _frame_pose(self.robot, self.last_state, role)
        return self.last_frames[role]


def windowed_mean(values: Tensor, steps: int) -> Tensor:
    """Mean of values (T, ...) over the last `steps` of them, at each step; NaN before there are so many."""
    total = values.double().cumsum(0)
    mean = total.new_full(total.shape, torch.nan)
    mean[steps - 1 :] = total[steps - 1 :]
    mean[steps:] -= total[:-steps]
    return (mean / steps).to(values.dtype)


@cache
def _chain_of(robot: str, role: str) -> Chain:
    """The chain from the base of a robot, by name, to its frame `role`."""
    return load_chain(load_robot(robot), role)


def _frame_pose(robot: str, state: RobotState, role: str) -> tuple[Tensor, Tensor]:
    """Pose in the world of the frame `role` of a robot in `state`: (..., 3) m and (..., 4) wxyz."""
    pos, quat = _chain_of(robot, role).forward(state.joint_pos)
    return state.base_pos + rotate(state.base_quat, pos), multiply(state.base_quat, quat)
