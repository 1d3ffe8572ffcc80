"""Sentences and figures out of code: docstrings, parameters, ranges."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

LONGEST = 6  # numbers of a list that are written out


def first_sentence(thing: Callable[..., Any] | None) -> str:
    """The first sentence of what `thing` says of itself, on one line."""
    text = " ".join((getattr(thing, "__doc__", None) or "").split())
    return re.split(r"(?<=[^.]\.)\s", text, maxsplit=1)[0]


def name_of(function: Callable[..., Any]) -> str:
    """Module and name of a function, from the package on: sim/terms/rewards.py is `rewards`."""
    module = getattr(function, "__module__", "").rpartition(".")[2]
    return f"{module}.{getattr(function, '__name__', type(function).__name__)}"


def params_in_words(params: Mapping[str, Any]) -> str:
    """Parameters as a person writes them: `scale 0.95 to 1.05, distance_m 0.1`."""
    return ", ".join(f"{name} {value_in_words(value)}" for name, value in params.items())


def value_in_words(value: Any) -> str:
    """A parameter's value; two rising numbers are a range."""
    if is_dataclass(value) and not isinstance(value, type):
        return params_in_words({f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name)})
    if callable(value):
        return name_of(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return params_in_words(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) == 2 and all(isinstance(v, int | float) for v in value) and value[0] <= value[1]:
            return f"{value[0]:g} to {value[1]:g}"
        if len(value) > LONGEST:
            return f"({', '.join(map(value_in_words, value[:2]))}, ... {len(value)} in all)"
        return f"({', '.join(map(value_in_words, value))})"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:g}"


def plain(value: Any) -> Any:
    """`value` as JSON has it: functions by name, dataclasses and arrays as what they hold."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {f.name: plain(getattr(value, f.name)) for f in fields(value)}
        return {name: item for name, item in found.items() if item not in (None, 0.0)}  # what is not there says nothing
    if callable(value):
        return name_of(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def when(every_s: tuple[float, float] | None) -> str:
    """How often something is drawn anew."""
    if every_s is None:
        return "each episode"
    low, high = every_s
    if high == 0:
        return "each step"
    return f"every {low:g} s" if low == high else f"every {low:g} to {high:g} s"
