"""What comes out of a step, and all that an environment is between two steps, as values."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from hardware.types import ObjectState, Peers, RobotState
from sim.envs.observation import Observation
from sim.scenes.terrain import Ground

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Kind = TypeVar("Kind", bound=DataclassInstance)


@dataclass(slots=True)
class EnvStep:
    """What came of one control step of W worlds; a dict has an entry for each group, of N robots."""

    obs: dict[str, Observation]  # where a world has ended, the first of its next episode
    final_obs: dict[str, Observation]  # what was seen before that
    reward: dict[str, Tensor]  # (W, N)
    reward_terms: dict[str, dict[str, Tensor]]  # name -> (W, N), weighted
    terminations: dict[str, dict[str, Tensor]]  # name -> (W, N) bool
    terminated: dict[str, Tensor]  # (W, N) bool: the robot failed
    truncated: dict[str, Tensor]  # (W, N) bool: it did not, and its world ended all the same
    ended: Tensor  # (W,) bool; what follows is meaningful where it holds
    success: Tensor  # (W,) bool
    min_separation_m: Tensor  # (W,) least distance between two robots of a group in the episode
    episode_length: Tensor  # (W,) control steps
    interventions: Tensor  # (W,) steps x robots in which the shield changed the command


@dataclass(slots=True)
class RobotsState:
    """What changes of a group's bodies and drives; see `RobotGroup`, (W, ...)."""

    strength: Tensor
    dead: Tensor
    curve: Tensor
    actuator_delay: Tensor
    sensor_delay: Tensor
    network_delay: Tensor
    dropout: Tensor
    bias: Tensor
    sent: Tensor
    received: Tensor
    force: Tensor
    difficulty: Tensor
    ground: Ground | None


@dataclass(slots=True)
class GroupState:
    """What changes of a group's agents; see `AgentGroup`, (W, N, ...)."""

    measured: tuple[RobotState, Peers, dict[str, ObjectState]]
    shield_peers: Peers
    obs: Observation
    held: Tensor
    last_action: Tensor
    shielded: Tensor
    memory: dict[str, Tensor]
    command: dict[str, Tensor]
    plan: dict[str, Tensor]
    due: dict[str, Tensor]
    windows: dict[str, Tensor]


@dataclass(slots=True)
class EnvState:
    """All that changes from step to step: put back, an environment goes on bitwise."""

    groups: dict[str, GroupState]
    robots: dict[str, RobotsState]  # by group too
    steps: Tensor  # (W,)
    min_separation: Tensor  # (W,) m
    difficulty: Tensor  # (W,)
    physics: Any  # of the engine
    frames: dict[str, dict[str, tuple[Tensor, Tensor]]]  # computed anew they might differ in the last bit
    generator: Tensor | None  # None where a program has generators of its own


STATE_TYPES = (EnvState, GroupState, RobotsState, Observation, Ground, RobotState, Peers, ObjectState)


def read(kind: "type[Kind]", owner: Any) -> "Kind":
    """The attributes of `owner` that a state of this kind has, nothing copied."""
    return kind(**{field.name: getattr(owner, field.name) for field in fields(kind)})


def write(owner: Any, state: "DataclassInstance") -> None:
    """Put the entries of `state` in place of the attributes of `owner`."""
    for field in fields(state):
        setattr(owner, field.name, getattr(state, field.name))
