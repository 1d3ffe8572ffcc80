"""What a task is made of. A task is one file in sim/tasks that builds one `TaskCfg` from terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from deploy.contract.groups import group_and_number
from hardware import load_robot
from hardware.ranges import check_fields
from hardware.types import ObjectState, Peers, RobotState
from sim.noise import Noise
from sim.scenes.scene import PropsFunc
from sim.terms import EventTerm, MeanTerm, MemoryTerm, RewardTerm, Term

Tensor = torch.Tensor
LONGEST_EPISODE_S = 86_400.0


@dataclass(slots=True)
class PolicyInput:
    """All that a robot's policy is given in one control period; the raw inputs of the exported graph."""

    state: RobotState
    peers: Peers
    objects: Mapping[str, ObjectState]
    command: Mapping[str, Tensor]  # (..., n) what the operator asks
    memory: Mapping[str, Tensor]  # (..., n) what the policy remembers
    correction: Tensor  # (..., U) what the shield sent, less what the policy had requested, a control period ago


@dataclass(frozen=True)
class ObservationCfg:
    """What a robot's policy sees: `own` terms, `peer` terms for each robot in range, and what it remembers.

    `privileged` terms look at the truth and are shown to the critic only. Without `peer` terms robots observe no peers.
    """

    own: Mapping[str, Term]
    peer: Mapping[str, Term] = field(default_factory=dict)
    memory: Mapping[str, MemoryTerm] = field(default_factory=dict)
    privileged: Mapping[str, Term] = field(default_factory=dict)
    peer_range_m: float = 1.0  # farther robots are not heard
    max_peers: int = 0  # only the nearest count


@dataclass(frozen=True)
class ActionCfg:
    """target = centre + scale * action, action in [-1, 1]; one entry a channel, in its unit.

    Channels in `relative` are joints whose centre is where they are measured to be: the action is a small step. With
    `transform` ((state, (..., U)) -> (..., U), linear) scale * action are coordinates that it turns into what is added
    to the centre: of a tool, say, instead of joints. `bias` (state -> (..., U)) is added to them: what keeps by itself
    the coordinates that the task leaves alone. `limit` ((state, (..., U)) -> (..., U)) makes the sum smaller
    where it is more than may be.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    relative: tuple[bool, ...] = ()  # one entry a channel; empty for none
    transform: Term | None = None
    bias: Term | None = None
    limit: Term | None = None


@dataclass(frozen=True)
class CommandCfg:
    """One quantity that the operator gives each robot."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    unit: str
    frame: str
    meaning: str


@dataclass(frozen=True)
class SceneCfg:
    """What stands around the robots."""

    props: PropsFunc | None = None  # adds bodies, cables, pillars, ... to the scene
    objects: tuple[str, ...] = ()  # free bodies that all robots see
    bases: Callable[[int], np.ndarray] | None = None  # robots N -> (N, 4) x, y, z m, yaw rad, where bases are fixed
    downwash: bool = False  # multirotors push down those below them, see sim/envs/downwash.py


@dataclass
class Draw:
    """What a start is drawn from: K worlds of N robots."""

    generator: torch.Generator
    worlds: int
    robots: int
    difficulty: Tensor  # (K,) 0 to 1, from the curriculum; 1 without one

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """(K, *shape), each between `low` and `high`."""
        return low + (high - low) * torch.rand(self.worlds, *shape, generator=self.generator)


@dataclass
class Start:
    """Where episodes begin, for K worlds of N robots; what a kind of robot has none of is left out."""

    command: dict[str, Tensor]  # (K, N, size)
    pos: Tensor | None = None  # (K, N, 3) m, world; of free bases
    quat: Tensor | None = None  # (K, N, 4) wxyz
    lin_vel: Tensor | None = None  # (K, N, 3) m/s, world
    joint_pos: Tensor | None = None  # (K, N, J) rad; home by default
    objects: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # name -> pos (K, 3) m, quat (K, 4) wxyz
    plan: dict[str, Tensor] = field(default_factory=dict)  # (K, N, size) what `update_commands` needs to move commands


UpdateCommandsFunc = Callable[
    [Mapping[str, Tensor], Tensor], dict[str, Tensor]
]  # (plan, time_s (W, 1, 1)) -> commands (W, N, .)


@dataclass(frozen=True)
class CourseCfg:
    """Goals one after the other: who has passed one is given the next, see `sim.terms.courses`."""

    within_m: float  # of a goal, and
    below_m_s: float  # slower than this: then it is passed


@dataclass(frozen=True)
class Curriculum:
    """Each world's starts grow harder by `up` after a success, easier by `down` after a failure; evaluation is at 1."""

    initial: float = 0.0
    up: float = 0.1
    down: float = 0.05

    def __post_init__(self) -> None:
        check_fields("curriculum.", self, initial=(0, 1), up=(0, 1), down=(0, 1))


@dataclass(frozen=True, kw_only=True)
class GroupCfg:
    """What like robots of a team have to do: what they see, what they may do, and what is good."""

    robot: str
    num_agents: int
    commands: Mapping[str, CommandCfg]
    observation: ObservationCfg
    action: ActionCfg
    rewards: Mapping[str, RewardTerm]
    terminations: Mapping[str, Term]  # (W, N) bool; a robot that fails ends the episode of its world
    success: Term  # (W, N) bool; must hold for the last `success_hold_s` of the episode
    means: Mapping[str, MeanTerm] = field(default_factory=dict)  # what rewards and success look at over time
    noise: Noise
    randomisation: Mapping[str, EventTerm]
    rate_loop: bool = (
        False  # drones fly by their firmware's rate loop, at its rate; else by their model's own, slower one
    )
    update_commands: UpdateCommandsFunc | None = None  # moves the commands during an episode
    course: CourseCfg | None = None  # goals that follow one another as they are passed
    baseline: Term | None = None  # func(inputs, **params) -> target (..., U): a controller without training
    # algorithm -> fields that it overrides, its own or those of the network that it learns; "collection" -> `shield`
    training: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shield: Mapping[str, Any] = field(default_factory=dict)  # overrides of the robot's shield parameters
    lands_on: str = ""  # group of an arm on what it holds these robots land: the links that carry that may be near


@dataclass(frozen=True, kw_only=True)
class TaskCfg:
    """What a team has to do, whole: all that training and evaluation need to know beside the algorithm.

    `groups` has an entry for each kind of robot, with its own policy; where robots are all alike it is the only one,
    under the robot's name.
    """

    name: str
    summary: str
    episode_s: float  # see `lasts_s`
    success_hold_s: float
    groups: Mapping[str, GroupCfg]
    starts: Callable[[Draw], Mapping[str, Start]]  # group -> where it begins
    scene: SceneCfg = SceneCfg()
    curriculum: Curriculum | None = None
    min_success: float = 0.95  # rate behind its shield that must be shown, at 95 %, for a policy to count as verified
    max_collisions: float = 0.0  # rate of episodes with a collision that it may have there
    num_envs: int = 512  # worlds to train in
    train_steps: int = 2_000_000  # agent steps to train for: control periods x worlds x robots
    verify_teams: tuple[int, ...] = ()  # team sizes that `phalanx verify` flies beside the one of training
    episode_robots: int = 0  # more robots than these get more time, in proportion: they wait for one another; 0: none

    def __post_init__(self) -> None:
        if numbered := [name for name in self.groups if group_and_number(name)[1] is not None]:
            raise ValueError(f"task {self.name!r}: group {numbered[0]!r} is named as one robot of a group")
        period_s = max(1.0 / load_robot(group.robot).control_hz for group in self.groups.values())
        lasts = {"episode_s": (period_s, LONGEST_EPISODE_S), "success_hold_s": (0.0, LONGEST_EPISODE_S)}
        check_fields(f"task {self.name!r}: ", self, **lasts, min_success=(0.0, 1.0), max_collisions=(0.0, 1.0))

    def lasts_s(self, robots: int) -> float:
        """How long an episode of a team of `robots` lasts."""
        return self.episode_s * max(1.0, robots / (self.episode_robots or robots))

    @property
    def group_name(self) -> str:
        """Name of the only group; ValueError where there are several."""
        if len(self.groups) > 1:
            raise ValueError(f"task {self.name!r} has several groups: {', '.join(self.groups)}; this takes one")
        return next(iter(self.groups))

    @property
    def group(self) -> GroupCfg:
        """The only group; ValueError where there are several."""
        return self.groups[self.group_name]

    def changed(self, **changes: Any) -> "TaskCfg":
        """The same task with other fields: its own, and those of its only group."""
        own = {name: changes.pop(name) for name in list(changes) if name in self.__dataclass_fields__}
        if changes:
            own["groups"] = {self.group_name: replace(self.group, **changes)}
        return replace(self, **own)
