"""Tensors in nested containers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def on_tensors(func: Callable[..., Tensor], value: Any, *others: Any) -> Any:
    """`value` with `func` of every tensor in it; dataclasses, mappings, lists and tuples are entered and made again.

    `func` gets the tensors in the same place of `others`, which are built alike, as further arguments.
    """
    if isinstance(value, Tensor):
        return func(value, *others)
    if isinstance(value, Mapping):
        return {name: on_tensors(func, entry, *(o[name] for o in others)) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_tensors(func, *entries) for entries in zip(value, *others, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.init]
        return type(value)(**{n: on_tensors(func, getattr(value, n), *(getattr(o, n) for o in others)) for n in names})
    return value


def flat(value: Any) -> list[Tensor]:
    """Every tensor of nested containers, in order."""
    found: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    on_tensors(keep, value)
    return found


def like(value: Any, tensors: Iterable[Tensor]) -> Any:
    """`value` with its tensors replaced by others, in the order of `flat`."""
    rest = iter(tensors)
    return on_tensors(lambda _: next(rest), value)
