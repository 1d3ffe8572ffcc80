"""Contracts as JSON. What was written is read back bit for bit; what older versions wrote is read as well."""

import json
import re
from math import isfinite
from typing import Any

import msgspec
from msgspec.inspect import LiteralType, Metadata, StructType, type_info

from deploy.contract.rules import check_rules
from deploy.contract.types import FORMAT, OLDER_FORMAT, Contract, ContractError

OLDEST_FORMAT = "phalanx-policy/1"
LONGEST = 200  # characters of a refused value that are shown


def contract_to_json(contract: Contract) -> str:
    """Readable JSON with full precision. Raises ContractError when the contract is not valid."""
    try:
        text = json.dumps(msgspec.to_builtins(contract, enc_hook=_plain), indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractError(f"contract cannot be written as JSON: {error}") from error
    contract_from_json(text)
    return text


def contract_from_json(text: str) -> Contract:
    """Parse and check. Raises ContractError naming the first bad field."""
    try:
        data = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except ContractError:
        raise
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and lists in lists in lists
        raise ContractError(f"contract is not JSON: {str(error)[:LONGEST]}") from error
    data = _tuples(data)
    found = data.get("format") if isinstance(data, dict) else None
    if found == OLDEST_FORMAT:
        data = _upgraded(data)
    elif found not in (FORMAT, OLDER_FORMAT):  # said before fields are missed that another version may not have
        raise ContractError(f"contract.format: {found!r} is not a version that this program reads ({FORMAT!r})")
    try:
        contract = msgspec.convert(data, Contract)
    except msgspec.ValidationError as error:
        raise ContractError(_refusal(str(error), data)) from error
    check_rules(contract)
    return contract


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """A contract of version 1 in the words of version 2, its shield's parameters as this one means them."""
    data = {("group" if name == "role" else name): value for name, value in data.items()} | {"format": OLDER_FORMAT}
    if not isinstance(shield := data.get("shield"), dict):
        return data
    if "effort_share" in shield:
        shield.setdefault("pickup_share", 0.0)  # a file from before there was one was verified without it
    if "latch_s" not in shield and shield.get("act_periods") == 3:
        shield["act_periods"] = 5  # the default then, when every hold was latched; now short ones end by themselves
    return data


def _plain(value: Any) -> Any:
    """The number or text that a NumPy number, or a version, is a kind of."""
    for kind in (str, float, int):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{value!r} is of type {type(value).__name__}")


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ContractError(f"contract holds {text}; every number must be finite")
    return value


def _tuples(data: Any) -> Any:
    """Lists to tuples at any depth, so that what frozen classes gave to free-form fields comes back equal."""
    if isinstance(data, list):
        return tuple(_tuples(item) for item in data)
    return {name: _tuples(value) for name, value in data.items()} if isinstance(data, dict) else data


def _refusal(message: str, data: Any) -> str:
    """Msgspec's "<what> - at `$.<path>`" as one line: path, value, and what was allowed."""
    what, _, path = message.partition(" - at `$")
    kind: Any = type_info(Contract)
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        data = data[name or int(index)]
        if isinstance(kind, StructType):
            kind = next(field.type for field in kind.fields if field.encode_name == name)
        else:
            kind = getattr(kind, "item_type", None)
        kind = kind.type if isinstance(kind, Metadata) else kind  # it has a description
    if isinstance(kind, LiteralType):
        what = f"not one of {', '.join(map(repr, kind.values))}"
    value = "" if isinstance(data, dict) or len(repr(data)) > LONGEST else f"{data!r}: "
    return f"contract{path.rstrip('`')}: {value}{what[:1].lower()}{what[1:]}".replace("`", "'")
