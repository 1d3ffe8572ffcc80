"""A task as plain data, so that a checkpoint knows what it was trained for."""

import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import msgspec
import numpy as np

from hardware import load_robot
from hardware.names import nearest


def task_record(task: Any) -> dict[str, Any]:
    """The task as JSON data: values, functions by name with a digest of their source, robots and the whole's hash."""
    data = describe(task)
    robots = {group.robot: robot_record(group.robot) for group in task.groups.values()}
    sources = dict(sorted(set(_sources(task))))
    whole = {"config": data, "robots": robots, "sources": sources}
    return {**whole, "hash": digest(whole)}


def robot_record(name: str) -> dict[str, Any]:
    """The robot's specification as JSON data; its files by digests: elsewhere the same ones have other paths."""
    spec = load_robot(name)
    data = {k: v for k, v in describe(spec).items() if k != "overlay" or v}
    if spec.fallback_policy:
        data["fallback_policy"] = digest(spec.fallback_policy.read_bytes())
    return data | {"mjcf": digest(spec.mjcf.read_text())}


def describe(value: Any) -> Any:
    """A configuration as plain JSON data; a function is named by its module and name."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return _name(value) if callable(value) else str(value)


def first_sentence(thing: Any) -> str:
    """The first sentence of the docstring of `thing`, on one line; "" where it has none."""
    text = " ".join((getattr(thing, "__doc__", None) or "").split())
    return re.split(r"(?<=[^.]\.)\s", text, maxsplit=1)[0]


def numbers(task: Any) -> dict[str, Any]:
    """Every number, switch and range of a task by its path, such as "rewards.at_goal.weight".

    A range is a tuple, of what is randomised; where goals are drawn is the start's. Those of its only group stand as if
    they were the task's own; training has options of its own.
    """
    return dict(_numbers(_one_group(task) | _own(task)))


def changed(task: Any, changes: Mapping[str, Any]) -> Any:
    """The task with other numbers; ValueError for a path that `numbers` does not know, or a range of another length."""
    known = numbers(task)
    for path, value in changes.items():
        if path not in known:
            raise ValueError(f"task {task.name!r} has no number {path!r}{nearest(path, known)}")
        value = tuple(value) if isinstance(value, list) else value  # as a record on disk has it
        if _length(value) != _length(known[path]):
            raise ValueError(f"{path} of task {task.name!r} is {known[path]}: {value} is of another length")
        parts = path.split(".")
        if parts[0] not in _own(task):
            parts = ["groups", next(iter(task.groups)), *parts]
        task = _put(task, parts, value)
    return task


def _length(value: Any) -> int:
    return len(value) if isinstance(value, tuple) else 0


def _own(task: Any) -> dict[str, Any]:
    return {field.name: getattr(task, field.name) for field in fields(task)}


def _one_group(task: Any) -> dict[str, Any]:
    groups = task.groups
    return _own(next(iter(groups.values()))) if len(groups) == 1 else {}


def _numbers(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if is_dataclass(value) and not isinstance(value, type):
        value = _own(value)
    if isinstance(value, bool | int | float) or _is_range(value, place):
        yield place, value
    elif isinstance(value, Mapping):
        single = len(value.get("groups", ())) == 1 if not place else False
        for name, item in value.items():
            if name not in ("training", "shield") and not (single and name == "groups") and "." not in str(name):
                yield from _numbers(item, f"{place}.{name}" if place else str(name))


def _is_range(value: Any, place: str) -> bool:
    """Numbers, not places in a list, of what is randomised."""
    randomised = isinstance(value, tuple) and "randomisation." in place
    return randomised and bool(value) and all(type(each) is float for each in value)


def _put(value: Any, parts: list[str], new: Any) -> Any:
    if not parts:
        return new
    name, *rest = parts
    if isinstance(value, Mapping):
        return {**value, name: _put(value[name], rest, new)}
    return replace(value, **{name: _put(getattr(value, name), rest, new)})


def differences(saved: Any, now: Any, place: str = "") -> list[str]:
    """Where two pieces of data differ, as "a.b.c (1, now 2)"."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        names = dict.fromkeys([*saved, *now])
        return [d for n in names for d in differences(saved.get(n), now.get(n), f"{place}.{n}" if place else str(n))]
    if saved == now:
        return []
    values = "" if isinstance(saved, Mapping | list) or isinstance(now, Mapping | list) else f" ({saved}, now {now})"
    return [place + values]


def digest(value: Any) -> str:
    """Hash of JSON data, text or bytes."""
    if not isinstance(value, bytes):
        value = (value if isinstance(value, str) else json.dumps(value, sort_keys=True)).encode()
    return hashlib.sha256(value).hexdigest()[:16]


def _sources(value: Any) -> Iterator[tuple[str, str]]:
    """Name and digest of the source of every function that a configuration names."""
    if is_dataclass(value) and not isinstance(value, type):
        value = _own(value)
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
