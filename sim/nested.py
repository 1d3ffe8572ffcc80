"""Tensors in nested containers."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def on_tensors(func: Callable[[Tensor], Tensor], value: Any) -> Any:
    """`value` with `func` of every tensor in it; dataclasses, mappings, lists and tuples are entered and made anew."""
    if isinstance(value, Tensor):
        return func(value)
    if isinstance(value, Mapping):
        return {name: on_tensors(func, entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_tensors(func, entry) for entry in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: on_tensors(func, getattr(value, f.name)) for f in fields(value) if f.init})
    return value
