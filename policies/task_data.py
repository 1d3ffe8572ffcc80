"""A task as plain data, so that a checkpoint knows what it was trained for."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from hardware import load_robot

LEARNED = ("commands", "observation", "action", "robot")  # of a group: what a policy sees and does


def task_record(task: Any) -> dict[str, Any]:
    """The task as JSON data: values, functions by name with a digest of their source, robots and the whole's hash."""
    data = describe(task)
    robots = {group.robot: robot_record(group.robot) for group in task.groups.values()}
    sources = dict(sorted(set(_sources(task))))
    whole = {"config": data, "robots": robots, "sources": sources}
    return {**whole, "hash": digest(whole)}


def robot_record(name: str) -> dict[str, Any]:
    """The robot's specification as JSON data; its model by a digest of the file."""
    spec = load_robot(name)
    return {k: v for k, v in describe(spec).items() if k != "mjcf"} | {"mjcf": digest(spec.mjcf.read_text())}


def describe(value: Any) -> Any:
    """A configuration as plain JSON data; a function is named by its module and name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: describe(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): describe(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if callable(value):
        return _name(value)
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def differences(saved: Any, now: Any, place: str = "") -> list[str]:
    """Where two pieces of data differ, as "a.b.c (1, now 2)"."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        names = dict.fromkeys([*saved, *now])
        return [d for n in names for d in differences(saved.get(n), now.get(n), f"{place}.{n}" if place else str(n))]
    if saved == now:
        return []
    told = "" if isinstance(saved, Mapping | list) or isinstance(now, Mapping | list) else f" ({saved}, now {now})"
    return [place + told]


def digest(value: Any) -> str:
    """Hash of JSON data or text."""
    import json

    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _sources(value: Any) -> Iterator[tuple[str, str]]:
    """Name and digest of the source of every function that a configuration names."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _sources(item)
    elif callable(value):
        try:
            yield _name(value), digest(inspect.getsource(value))
        except (OSError, TypeError):  # written where there is no file
            yield _name(value), "unknown"


def _name(function: Any) -> str:
    function = getattr(function, "func", function)  # of a partial
    return f"{function.__module__}.{function.__qualname__}"
