"""Algorithms by name: one file each, and one line here. The algorithm "td3" is `TD3` in td3.py."""

from importlib import import_module
from typing import Any

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
