"""Robots by name. A robot is one folder here, with a `SPEC` in its `__init__`."""

import importlib
import pkgutil
from difflib import get_close_matches
from functools import cache

from hardware.spec import RobotSpec


def robot_names() -> list[str]:
    """Names of all robots, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


@cache  # terms ask for it in every control step
def load_robot(name: str) -> RobotSpec:
    """The spec of the robot called `name`; ValueError names what exists and the nearest match."""
    if name not in robot_names():
        near = get_close_matches(name, robot_names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown robot {name!r}; known robots: {', '.join(robot_names())}{hint}")
    spec: RobotSpec = importlib.import_module(f"hardware.robots.{name}").SPEC
    return spec
