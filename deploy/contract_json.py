"""Contracts as JSON: `contract.schema.json` fixes the form; what was written is read back bit for bit."""

import json
from dataclasses import asdict, is_dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from deploy.contract import FORMAT, Contract, ContractError
from deploy.contract_rules import check_rules

SCHEMA_PATH = Path(__file__).with_name("contract.schema.json")

T = TypeVar("T")


def contract_to_json(contract: Contract) -> str:
    """Readable JSON with full precision. Raises ContractError when the contract is not valid."""
    try:
        text = json.dumps(asdict(contract), indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractError(f"contract cannot be written as JSON: {error}") from error
    contract_from_json(text)
    return text


def contract_from_json(text: str) -> Contract:
    """Parse and check. Raises ContractError naming the first bad field."""
    try:
        data = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise ContractError(f"contract is not JSON: {error}") from error
    _check_format(data)
    _check_schema(data)
    _update_shield(data["shield"])
    contract = _build(Contract, data)
    check_rules(contract)
    return contract


def _update_shield(shield: dict[str, Any]) -> None:
    """Shield parameters of a file that an older version wrote, as this version means them."""
    if "effort_share" in shield:
        shield.setdefault("pickup_share", 0.0)  # a file from before there was one was verified without it
    if "latch_s" not in shield and shield.get("act_periods") == 3:
        shield["act_periods"] = 5  # the default then, when every hold was latched; now short ones end by themselves


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
