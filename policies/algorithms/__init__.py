"""Algorithms by name: one file each, and one line here. The algorithm "td3" is `TD3` in td3.py."""

from importlib import import_module
from typing import Any

from hardware.names import nearest
from hardware.plugins import load_plugin, registered
from policies.algorithms.configurations import CONFIGURATIONS, configuration
from policies.algorithms.own import check_class

_NAMES = (
    "dsact",
    "happo",
    "hasac",
    "impala",
    "ppo",
    "sac",
    "td3",
    "vdn",
)
ALGORITHMS: dict[str, Any] = {name: getattr(import_module(f"{__name__}.{name}"), name.upper()) for name in _NAMES}


def load_algorithm(name: str) -> Any:
    """The `Algorithm` class called `name`, or at module:NAME; ValueError names what exists and the nearest match."""
    if line := configuration(name):
        raise ValueError(f"{name} is no algorithm of its own here, but a setting of one: {line}")
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    known = [*ALGORITHMS, *registered("algorithm")]
    if ":" not in name and name not in known:
        near = nearest(name.lower(), [*known, *CONFIGURATIONS])
        raise ValueError(f"unknown algorithm {name!r}; known: {', '.join(known)}, or module:NAME{near}")
    found = load_plugin("algorithm", name, known)
    check_class(name, found, ALGORITHMS)
    return found
