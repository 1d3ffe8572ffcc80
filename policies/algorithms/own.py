"""Algorithms of the user's own: what is missing in one is said before it learns, and what fails in it with its line."""

import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from hardware.names import one_line
from hardware.plugins import PluginError
from policies.networks.trunk import NetworkCfg

METHODS = ("record", "pending_update", "update", "networks", "state_dict", "load_state_dict", "start_from")
ATTRIBUTES = ("policies", "horizon", "lag", "replay")
RESERVED = ("network", "task", "collection")  # options of training that are no algorithm's
COLUMNS = ("agent_steps", "wall_s", "steps_per_s")  # of the log, which are no algorithm's
PACKAGES = ("sim", "policies", "deploy", "ros_nodes", "hardware", "phalanx")


def check_class(name: str, found: Any, known: Mapping[str, Any]) -> None:
    """PluginError unless what was `found` at `name` can be an `Algorithm`, beside those `known` by their names."""
    if wrong := _wrong_with(found, known):
        raise PluginError(f"algorithm {name!r}: is no `Algorithm`: {wrong}")


def _wrong_with(found: Any, known: Mapping[str, Any]) -> str:
    if not isinstance(found, type):
        return f"it is a {type(found).__name__}, wanted a class"
    for part in ("Cfg", "Policy", *METHODS):
        if not hasattr(found, part):
            return f"it has no {part}"
    cfg: Any = found.Cfg  # type: ignore[attr-defined]
    if not (isinstance(cfg, type) and is_dataclass(cfg) and cfg.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        return "its Cfg is no frozen dataclass"
    label = getattr(cfg, "NAME", None)
    if any(field.name == "NAME" for field in fields(cfg)):
        return "Cfg.NAME is a field, wanted NAME: ClassVar[str]"
    if not (isinstance(label, str) and re.fullmatch(r"[a-z][a-z0-9_]*", label)):
        return f"Cfg.NAME is {label!r}, wanted a word in small letters: options begin with it"
    if label in RESERVED or (label in known and not issubclass(cfg, known[label].Cfg)):
        return f"Cfg.NAME is {label!r}, which is taken"
    sizes = {field.name for field in fields(NetworkCfg)}
    for field in fields(cfg):
        if field.default is MISSING and field.default_factory is MISSING:
            return f"Cfg.{field.name} has no default"
        if field.name in sizes:
            return f"Cfg.{field.name}: the network has an option of that name"
    return ""


def check_made(name: str, algorithm: Any, groups: Iterable[str]) -> None:
    """ValueError where an algorithm lacks what training asks it for, or has other policies than its class states."""
    for part in ATTRIBUTES:
        if not hasattr(algorithm, part):
            raise ValueError(f"algorithm {name!r}: is no `Algorithm`: it has no {part}")
    if not isinstance(algorithm.policies, Mapping) or algorithm.policies.keys() != {*groups}:
        raise ValueError(f"algorithm {name!r}: policies: wanted one for each of {', '.join(groups)}")
    for group, policy in algorithm.policies.items():
        if type(policy) is not algorithm.Policy:
            stated, made = algorithm.Policy.__name__, type(policy).__name__
            raise ValueError(f"algorithm {name!r}: Policy is {stated}, and the policy of {group!r} is a {made}")


def as_numbers(name: str, said: Any) -> dict[str, float]:
    """What `Algorithm.update` returned, as numbers for the log; ValueError names what is none."""
    if not isinstance(said, Mapping):
        raise ValueError(f"algorithm {name!r}: update returned {said!r}, wanted a dict of numbers")
    found = {}
    for key, value in said.items():
        if not isinstance(key, str) or key in COLUMNS:
            raise ValueError(f"algorithm {name!r}: update returned {key!r}: that is no name for a number of its own")
        try:
            found[key] = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"algorithm {name!r}: update returned {key} = {value!r}, wanted a number") from None
    return found


@contextmanager
def named(name: str, kind: type) -> Iterator[None]:
    """What fails in an algorithm of the user's own, of the class `kind`, is one line with the place in its module."""
    try:
        yield
    except Exception as error:
        if kind.__module__.split(".")[0] in PACKAGES:
            raise
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
            module = str(frame.f_globals.get("__name__", ""))
            if module.split(".")[0] in PACKAGES:
                raise  # what ours refuses says what is wrong
            if module == kind.__module__:
                where = f"{frame.f_code.co_filename}:{line}"
                raise ValueError(f"algorithm {name!r}: {where}: {one_line(error)}") from error
        raise
