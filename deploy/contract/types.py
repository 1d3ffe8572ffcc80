"""What a policy file promises: the one definition behind the classes and the JSON. Numbers are SI.

`codec` reads and writes it; `rules` checks what no type can express.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert

from deploy.contract.plant import Plant
from hardware.spec import Fallback, Kind, RobotSpec, Unit

FORMAT: Literal["phalanx-policy/3"] = "phalanx-policy/3"

Name = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]
ObjectName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]  # `<object>_pos` is an input
Text = Annotated[str, Meta(min_length=1)]
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]
Shape = Annotated[tuple[Annotated[int, Meta(ge=1)] | Literal["batch", "peers"], ...], Meta(min_length=1)]
UtcTime = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}([.]\d+)?(Z|[+]00:00)$")]


class ContractError(ValueError):
    """The contract is malformed or contradicts itself; the message names the field."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class TensorSpec(_Part, frozen=True):
    """One named input or output of the graph."""

    name: Name
    shape: Shape  # starts with "batch" and may hold "peers"
    dtype: Literal["float32", "bool"]
    unit: str
    frame: str
    meaning: Text


class MemorySpec(_Part, frozen=True):
    """What the graph carries from one control period to the next: feed `output` back into `input`."""

    input: Name
    output: Name  # always `<input>_out`
    initial: tuple[Any, ...]  # nested, in the shape of `input` without batch


class CommandSpec(_Part, frozen=True):
    """An input that the operator gives, with the range per element that the policy was trained for."""

    name: Name
    shape: Shape  # ("batch", n)
    unit: str
    frame: str
    meaning: Text
    low: tuple[float, ...]  # n
    high: tuple[float, ...]  # n


class ChannelSpec(_Part, frozen=True):
    """One actuator channel: `low` and `high` bound the set-point in `unit`."""

    name: Name
    unit: Unit
    low: float
    high: float
    meaning: Text


class RobotInterface(_Part, frozen=True):
    """The robot that the policy drives: a RobotSpec reduced to what has to match."""

    name: Name
    kind: Kind
    joint_names: tuple[Name, ...]
    channels: Annotated[tuple[ChannelSpec, ...], Meta(min_length=1)]
    radius_m: Positive  # of one robot, see RobotSpec
    mass_kg: Positive
    fallback: Fallback


class TeamSpec(_Part, frozen=True):
    """The team in training, and what one robot receives from it."""

    trained_with: Annotated[int, Meta(ge=1)]  # robots in the team, itself included
    peer_range_m: Annotated[float, Meta(ge=0)]  # peers further away than this were never shown to the policy
    max_peers: Count  # nearest peers that were shown to it at once


class Provenance(_Part, frozen=True):
    """Where the policy comes from, enough to train it again."""

    phalanx_version: Text
    task_config: Mapping[str, Any]
    seed: int
    env_steps: Count
    trained_at_utc: UtcTime  # ISO 8601
    git_commit: str | None
    versions: Mapping[str, str]


class Contract(_Part, frozen=True):
    """What a policy file promises; see the field types for units."""

    task: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.:-]*$")]  # its name, or module:NAME of a user's own
    robot: RobotInterface
    control_dt_s: Positive
    inputs: Annotated[tuple[TensorSpec, ...], Meta(min_length=1)]
    outputs: Annotated[tuple[TensorSpec, ...], Meta(min_length=1)]
    memory: tuple[MemorySpec, ...]
    commands: tuple[CommandSpec, ...]
    team: TeamSpec
    shield: Mapping[str, Any]
    provenance: Provenance
    group: str = ""  # of the task's groups of like robots the one that this is for; empty where there is only one
    objects: tuple[ObjectName, ...] = ()  # tracked things among the inputs, see `tensor_specs.object_tensor_specs`
    plant: Plant | None = None  # None in files of versions 1 and 2, which did not state it
    format: Literal["phalanx-policy/3"] = FORMAT


def robot_interface(spec: RobotSpec) -> RobotInterface:
    """The part of a robot's specification that belongs in a contract."""
    return convert(spec, RobotInterface, from_attributes=True)
