"""The contract: everything that a robot, an operator or a person must know about a policy file.

`deploy.contract_json` reads and writes it, `deploy.contract_rules` checks what must agree inside it. Numbers are SI.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from deploy.signals import TensorSpec
from hardware.spec import Channel, RobotSpec

FORMAT = "phalanx-policy/1"


class ContractError(ValueError):
    """The contract is malformed or contradicts itself; the message names the field."""


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """What the graph carries from one control period to the next: feed `output` back into `input`."""

    input: str
    output: str  # always `<input>_out`
    initial: tuple[Any, ...]  # nested, in the shape of `input` without batch


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """An input that the operator gives, with the range per element that the policy was trained for."""

    name: str
    shape: tuple[int | str, ...]  # ("batch", n)
    unit: str
    frame: str
    meaning: str
    low: tuple[float, ...]  # n
    high: tuple[float, ...]  # n


@dataclass(frozen=True, slots=True)
class RobotInterface:
    """The robot that the policy drives: a RobotSpec reduced to what has to match."""

    name: str
    kind: str
    joint_names: tuple[str, ...]
    channels: tuple[Channel, ...]
    radius_m: float
    mass_kg: float
    fallback: str


@dataclass(frozen=True, slots=True)
class TeamSpec:
    """The team in training, and what one robot hears of it."""

    trained_with: int  # robots in the team, itself included
    peer_range_m: float  # peers further away than this were never shown to the policy
    max_peers: int  # nearest peers that were shown to it at once


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the policy comes from, enough to train it again."""

    phalanx_version: str
    task_config: Mapping[str, Any]
    seed: int
    env_steps: int
    trained_at_utc: str  # ISO 8601
    git_commit: str | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Contract:
    """What a policy file promises; see the field types for units."""

    task: str
    robot: RobotInterface
    control_dt_s: float
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    memory: tuple[MemorySpec, ...]
    commands: tuple[CommandSpec, ...]
    team: TeamSpec
    shield: Mapping[str, Any]
    provenance: Provenance
    role: str = ""  # whose of the task's roles this is; empty where robots are all alike
    objects: tuple[str, ...] = ()  # tracked things that the policy looks at, see `deploy.signals.object_signals`
    format: str = FORMAT


def robot_interface(spec: RobotSpec) -> RobotInterface:
    """The part of a robot's specification that belongs in a contract."""
    return RobotInterface(**{field.name: getattr(spec, field.name) for field in fields(RobotInterface)})
