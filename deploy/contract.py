"""The contract: everything that a robot, an operator or a person must know about a policy file, as JSON.

`contract.schema.json` fixes the form of the JSON, `deploy.contract_rules` what must agree inside it. Numbers are SI and
keep full precision: what was written is read back bit for bit.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hardware.spec import Channel, RobotSpec

FORMAT = "phalanx-policy/1"
SCHEMA_PATH = Path(__file__).with_name("contract.schema.json")

T = TypeVar("T")


class ContractError(ValueError):
    """The contract is malformed or contradicts itself; the message names the field."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One named input or output of the graph; `shape` starts with "batch" and may hold "peers"."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str  # "float32" or "bool"
    unit: str
    frame: str
    meaning: str


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
    format: str = FORMAT

    def to_json(self) -> str:
        """Readable JSON with full precision. Raises ContractError when the contract is not valid."""
        try:
            text = json.dumps(asdict(self), indent=1, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ContractError(f"contract cannot be written as JSON: {error}") from error
        Contract.from_json(text)
        return text

    @staticmethod
    def from_json(text: str) -> "Contract":
        """Parse and check. Raises ContractError naming the first bad field."""
        from deploy.contract_rules import check_rules

        try:
            data = json.loads(text, parse_constant=_finite, parse_float=_finite)
        except json.JSONDecodeError as error:
            raise ContractError(f"contract is not JSON: {error}") from error
        _check_format(data)
        _check_schema(data)
        contract = _build(Contract, data)
        check_rules(contract)
        return contract


def robot_interface(spec: RobotSpec) -> RobotInterface:
    """The part of a robot's specification that belongs in a contract."""
    return RobotInterface(**{field.name: getattr(spec, field.name) for field in fields(RobotInterface)})


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ContractError(f"contract holds {text}; every number must be finite")
    return value


def _check_format(data: Any) -> None:
    """Say which version was found before the schema complains about fields that another version may have."""
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise ContractError(f"contract.format: {found!r} is not a version that this program reads ({FORMAT!r})")


@cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))


def _check_schema(data: Any) -> None:
    errors = sorted(_validator().iter_errors(data), key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        error = errors[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        message = error.message if len(error.message) <= 200 else f"... {error.message[-200:]}"
        raise ContractError(f"contract{path}: {message}")


def _build(kind: type[T], data: Any) -> T:
    """Make `kind` from plain JSON data that the schema has accepted: objects to dataclasses, lists to tuples."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _build(hints[name], value) for name, value in data.items()})
    if get_origin(kind) is tuple:
        return tuple(_build(get_args(kind)[0], item) for item in data)  # type: ignore[return-value]
    if kind is float:
        return float(data)  # type: ignore[return-value]
    return _freeze(data)


def _freeze(data: Any) -> Any:
    """Lists to tuples at any depth, so that what frozen dataclasses gave to free-form fields comes back equal."""
    if isinstance(data, list):
        return tuple(_freeze(item) for item in data)
    if isinstance(data, dict):
        return {name: _freeze(value) for name, value in data.items()}
    return data
