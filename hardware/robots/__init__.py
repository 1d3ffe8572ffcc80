"""Robots by name. A robot is one folder here, with a `SPEC` in its `__init__`, or one from outside: see `plugins`.

The file of an overlay names one robot of a kind, see `overlay`.
"""

import importlib
import pkgutil
from functools import cache

from hardware.overlay import SUFFIX, load_overlaid
from hardware.plugins import PluginError, load_plugin, registered
from hardware.spec import RobotSpec

_BUILT_IN = frozenset(module.name for module in pkgutil.iter_modules(__path__))


def robot_names() -> list[str]:
    """Names of all robots, those that installed packages register included, sorted."""
    return sorted({*_BUILT_IN, *registered("robot")})


@cache  # terms ask for it in every control step
def load_robot(name: str) -> RobotSpec:
    """The spec of the robot called `name`, or at "module:NAME"; PluginError names what exists and the nearest.

    For the path of an overlay file it is that of the robot so changed; ValueError for a file that is none.
    """
    if name.endswith(SUFFIX):
        return load_overlaid(name, load_robot)
    if name in _BUILT_IN:
        spec = importlib.import_module(f"hardware.robots.{name}").SPEC
    else:
        spec = load_plugin("robot", name, _BUILT_IN)
    if not isinstance(spec, RobotSpec):
        raise PluginError(f"robot {name!r}: is of type {type(spec).__name__}, not RobotSpec")
    return spec
