"""What comes out of a step, and all that an environment is between two steps, as values."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from hardware.types import ObjectState, Peers, RobotState
from sim.envs.observation import Observation
from sim.scenes.terrain import Ground
from sim.tree import on_tensors

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
    acted: dict[str, Tensor]  # (W, N) bool: its action was felt; its drives were whole, and the physics did not blow up
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
    jitter: Tensor
    measured_ago: Tensor
    said_ago: Tensor
    held_states: Tensor
    dropout: Tensor
    bias: Tensor
    lost: Tensor
    loop_state: dict[str, Tensor]  # of the rate loops; empty without
    camera_state: dict[str, Tensor]
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
    last_correction: Tensor
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
    frames: dict[str, dict[str, tuple[Tensor, Tensor]]]  # computed once more they might differ in the last bit
    generator: Tensor | None  # None where a program has generators of its own


class Environment(Protocol):
    """What a state is read from and written to: these attributes of a `TeamEnv`, besides its groups' own."""

    num_envs: int
    groups: dict[str, Any]
    world: Any
    steps: Tensor
    min_separation: Tensor
    difficulty: Tensor
    generator: torch.Generator
    device: torch.device


STATE_TYPES = (EnvState, GroupState, RobotsState, Observation, Ground, RobotState, Peers, ObjectState)


def read_env(env: Environment, traced: bool) -> EnvState:
    """All that changes of an environment from step to step, nothing copied.

    `traced` is for programs that thread a `TraceablePhysics` through: generators are theirs, and frames follow.
    """
    physics: Any = env.world.physics
    return EnvState(
        groups={name: _read(GroupState, group) for name, group in env.groups.items()},
        robots={name: _read(RobotsState, group.robots) for name, group in env.groups.items()},
        steps=env.steps,
        min_separation=env.min_separation,
        difficulty=env.difficulty,
        physics=physics.tensors() if traced else physics.state_dict(),
        frames={} if traced else {name: group.now.frames for name, group in env.groups.items()},
        generator=None if traced else env.generator.get_state(),
    )


def write_env(env: Environment, state: EnvState) -> None:
    """Put a state that `read_env` gave in place of the one that is there: as a copy, unless it was traced."""
    physics: Any = env.world.physics
    if state.generator is not None:
        env.generator.set_state(state.generator.cpu())
        state = on_tensors(lambda tensor: tensor.to(env.device, copy=True), state)
    for name, group in env.groups.items():
        _write(group, state.groups[name])
        _write(group.robots, state.robots[name])
    env.steps, env.min_separation, env.difficulty = state.steps, state.min_separation, state.difficulty
    if state.generator is None:
        physics.put(state.physics)
        return
    physics.load_state_dict(state.physics)
    for group in env.groups.values():
        if group.robots.ground is not None:  # heights are no part of the physics' state
            group.robots.set_ground(group.robots.ground, torch.arange(env.num_envs))


def _read(kind: "type[Kind]", owner: Any) -> "Kind":
    """The attributes of `owner` that a state of this kind has, nothing copied."""
    return kind(**{field.name: getattr(owner, field.name) for field in fields(kind)})


def _write(owner: Any, state: "DataclassInstance") -> None:
    """Put the entries of `state` in place of the attributes of `owner`."""
    for field in fields(state):
        setattr(owner, field.name, getattr(state, field.name))
