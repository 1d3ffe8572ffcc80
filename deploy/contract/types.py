"""What a policy file promises: the one definition behind the classes and the JSON. Numbers are SI.

`codec` reads and writes it; `rules` checks what no type can express.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, field

from deploy.contract.plant import Plant
from hardware.spec import Fallback, Kind, RobotSpec, Unit

FORMAT: Literal["phalanx-policy/3"] = "phalanx-policy/3"
OLDER_FORMAT: Literal["phalanx-policy/2"] = "phalanx-policy/2"  # states no plant

FRAMES = {
    "world": "fixed, right-handed, z up; where its origin is and where x points is the operator's choice, the same for "
    "all robots of a team",
    "body": "at the robot's base: x forward, y left, z up; of an object, its own axes",
    "heading": "body without roll and pitch: z up, x where the robot's front points",
    "body to world": "the quaternion w, x, y, z that turns a vector of the body into the world",
    "joint": "along or about each joint, in the order of robot.joint_names or of the channels",
    "none": "no direction",
}

Name = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=100)]
ObjectName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=100)]  # `<object>_pos` is an input
Text = Annotated[str, Meta(min_length=1)]
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
    shape: Annotated[Shape, Meta(description="begins with batch, the number of robots; peers is the number of slots")]
    dtype: Literal["float32", "bool"]
    unit: Annotated[str, Meta(description="1 for what has none; SI where the entries differ")]
    frame: Annotated[str, Meta(description="one of `frames`")]
    meaning: Text


class MemorySpec(_Part, frozen=True):
    """What the graph carries from one control period to the next: feed `output` back into `input`."""

    input: Annotated[Name, Meta(description="its unit and frame stand in `inputs`")]
    output: Annotated[Name, Meta(description="always <input>_out")]
    initial: Annotated[
        tuple[Any, ...], Meta(description="value in the first period of a flight, in the shape of input without batch")
    ]


class CommandSpec(_Part, frozen=True):
    """An input that the operator gives, with the range per element that the policy was trained for."""

    name: Name
    shape: Annotated[Shape, Meta(description="batch, n")]
    unit: str
    frame: str
    meaning: Text
    low: Annotated[tuple[float, ...], Meta(description="n numbers; never give less")]
    high: Annotated[tuple[float, ...], Meta(description="n numbers; never give more")]


class ChannelSpec(_Part, frozen=True):
    """One actuator channel: `low` and `high` bound the set-point in `unit`."""

    name: Annotated[Name, Meta(description="of a joint when the unit is rad or m: the set-point is its position")]
    unit: Unit
    low: float
    high: float
    meaning: Text


class RobotInterface(_Part, frozen=True):
    """The robot that the policy drives. Name, kind, joints and channels have to match, the mass by the plant."""

    name: Name
    kind: Kind
    joint_names: Annotated[tuple[Name, ...], Meta(description="in the order of joint_pos and joint_vel")]
    channels: Annotated[tuple[ChannelSpec, ...], Meta(min_length=1, description="in the order of the output target")]
    radius_m: Annotated[float, Meta(gt=0, description="no part of the robot is farther from its base")]
    mass_kg: Annotated[float, Meta(gt=0, description="nominal")]
    fallback: Annotated[Fallback, Meta(description="what its shield does without a usable policy")]


class TeamSpec(_Part, frozen=True):
    """The team in training, and what one robot receives from it. Who runs the file selects the peers."""

    trained_with: Annotated[int, Meta(ge=1, le=100_000, description="robots in the team, itself included")]
    peer_range_m: Annotated[float, Meta(ge=0, description="peers farther away were never shown to the policy")]
    max_peers: Annotated[
        int, Meta(ge=0, le=1024, description="show it the nearest ones, nearest first, and no more than these")
    ]


class Provenance(_Part, frozen=True):
    """Where the policy comes from, enough to train it again."""

    phalanx_version: Text
    task_config: Annotated[Mapping[str, Any], Meta(description="the whole task as data")]
    seed: int
    env_steps: Count
    trained_at_utc: Annotated[UtcTime, Meta(description="ISO 8601")]
    git_commit: str | None
    versions: Mapping[str, str]


class Contract(_Part, frozen=True):
    """What a policy file promises. Numbers are SI; quaternions are w, x, y, z."""

    task: Annotated[
        str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.:-]*$", description="its name, or module:NAME of a user's own")
    ]
    robot: RobotInterface
    control_dt_s: Annotated[float, Meta(gt=0, description="time from one step of the policy to the next, s")]
    inputs: Annotated[
        tuple[TensorSpec, ...], Meta(min_length=1, description="what the graph has to be given, all of it")
    ]
    outputs: Annotated[
        tuple[TensorSpec, ...],
        Meta(min_length=1, description="target is the command; obs and action are for the record; <memory>_out"),
    ]
    memory: tuple[MemorySpec, ...]
    commands: tuple[CommandSpec, ...]
    team: TeamSpec
    shield: Annotated[Mapping[str, Any], Meta(description="limits that it was trained behind, see docs/shield.md")]
    provenance: Provenance
    group: Annotated[
        str, Meta(description="of a task with several groups of like robots the one that this is for; else empty")
    ] = ""
    objects: Annotated[
        tuple[ObjectName, ...], Meta(description="tracked things: <object>_pos, _quat, _lin_vel, _ang_vel are inputs")
    ] = ()
    frames: Annotated[Mapping[str, Text], Meta(description="what each frame is that tensors name")] = field(
        default_factory=lambda: dict(FRAMES)
    )
    plant: Annotated[
        Plant | None, Meta(description="what it was trained on; null in files of versions 1 and 2, which did not say")
    ] = None
    format: Annotated[
        Literal["phalanx-policy/3", "phalanx-policy/2"], Meta(description="the older one states no plant")
    ] = FORMAT


def robot_interface(spec: RobotSpec) -> RobotInterface:
    """The part of a robot's specification that belongs in a contract."""
    return convert(spec, RobotInterface, from_attributes=True)
