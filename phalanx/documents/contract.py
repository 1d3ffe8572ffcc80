"""What a contract holds, written into a document: `make docs` fills `docs/contract.md` from the schema."""

from collections.abc import Mapping
from typing import Any

from msgspec.json import schema

from deploy.contract import Contract, TensorSpec
from deploy.contract.tensor_specs import (
    correction_tensor_spec,
    object_tensor_specs,
    peer_tensor_specs,
    state_tensor_specs,
)
from deploy.contract.types import FRAMES
from phalanx.documents.markdown import table

JOINTS, OBJECT = 0, "box"


def contract_part(name: str) -> str:
    """The tables that the code gives now: `contract`, `inputs` or `frames`; ValueError for another name."""
    parts = {"contract": _structures, "inputs": _inputs, "frames": _frames}
    if name not in parts:
        raise ValueError(f"mark {name!r} is none of {', '.join(parts)}")
    return parts[name]()


def _structures() -> str:
    """A table for each structure, the contract first, then as they are named."""
    found = schema(Contract)["$defs"]
    order, tables = ["Contract"], []
    for name in order:  # grows
        fields = found[name]["properties"]
        order += [other for other in dict.fromkeys(_refs(list(fields.values()))) if other not in order]
        needed = (*found[name].get("required", ()), "format")  # a contract without its version is refused
        rows = (
            (f"`{f}`" + ("" if f in needed else " (may be left out)"), _kind(p), _about(p)) for f, p in fields.items()
        )
        tables.append(f"### {name}\n\n{found[name]['description']}\n\n{table(('field', 'kind', 'meaning'), rows)}")
    return "\n".join(tables)


def _refs(part: Any) -> list[str]:
    if isinstance(part, Mapping):
        own = [part["$ref"].rpartition("/")[2]] if "$ref" in part else []
        return own + [name for value in part.values() for name in _refs(value)]
    return [name for value in part for name in _refs(value)] if isinstance(part, list) else []


def _kind(part: Mapping[str, Any]) -> str:
    """A JSON schema in words."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in part:
        return " or ".join(_kind(each) for each in part["anyOf"])
    if "enum" in part:
        return " or ".join(f"`{value or 'empty'}`" for value in part["enum"])
    if part.get("type") == "array":
        items: Mapping[str, Any] = part.get("items") or next(iter(part.get("prefixItems", [])), {})
        return f"list of {_kind(items)}"
    if part.get("type") == "object":
        return "object"
    words = {"number": "number", "integer": "whole number", "string": "text", "null": "null"}
    limits = {"exclusiveMinimum": "above", "minimum": "at least"}
    bound = "".join(f", {word} {part[key]:g}" for key, word in limits.items() if key in part)
    return words.get(part.get("type", ""), "any") + bound


def _about(part: Mapping[str, Any]) -> str:
    return part.get("description", "").replace("<", "&lt;")


def _inputs() -> str:
    joints = (t for t in state_tensor_specs(1) if t.frame == "joint")
    named = [*state_tensor_specs(JOINTS), *object_tensor_specs(OBJECT), *peer_tensor_specs()]
    rows = [*(_input(t, "batch x joints") for t in joints), *(_input(t, " x ".join(map(str, t.shape))) for t in named)]
    rows.append(_input(correction_tensor_spec(["of each channel"]), "batch x channels"))
    return table(("input", "shape", "kind", "unit", "frame", "meaning"), rows)


def _input(tensor: TensorSpec, shape: str) -> tuple[str, ...]:
    return f"`{tensor.name}`", shape, tensor.dtype, tensor.unit, tensor.frame, tensor.meaning


def _frames() -> str:
    return table(("frame", "what it is"), ((f"`{name}`", text) for name, text in FRAMES.items()))
