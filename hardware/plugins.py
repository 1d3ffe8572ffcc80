"""Tasks, robots and drivers from outside the package: `module:NAME`, or a name that an installed package registers."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hardware.names import nearest, one_line

LONGEST, SHOWN = 300, 60  # characters of a name, and of one that is wrong


class PluginError(ValueError):
    """What was named cannot be loaded; one line says what and why."""


@cache
def registered(kind: str) -> dict[str, EntryPoint]:
    """Entry points of the group `phalanx.<kind>s` of all installed packages, by name."""
    return {point.name: point for point in entry_points(group=f"phalanx.{kind}s")}


def load_plugin(kind: str, name: str, built_in: Iterable[str] = ()) -> Any:
    """The object at "package.module:NAME", or the one registered as `name`; `kind` is "task", "robot" or "driver".

    A module is looked for where Python looks, then in the working directory. Raises PluginError; where there is nothing
    of that name it lists the `built_in` and the registered ones, and the nearest.
    """
    if len(name) > LONGEST:
        raise PluginError(f"{kind} {name[:SHOWN]!r}...: a name has {LONGEST} characters at most, not {len(name)}")
    reference = registered(kind)[name].value if ":" not in name and name in registered(kind) else name
    module, _, attribute = reference.partition(":")
    if not (module and attribute):
        known = sorted({*built_in, *registered(kind)})
        listed = ", ".join(known)
        raise PluginError(f"unknown {kind} {name!r}; known {kind}s: {listed}, or module:NAME{nearest(name, known)}")
    if module.endswith(".py"):
        dotted = module.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise PluginError(f"{kind} {name!r}: a module is named without .py and with dots: {dotted}:{attribute}")
    found = _imported(kind, name, module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise PluginError(f"{kind} {name!r}: {module!r} has no {part!r}{nearest(part, dir(found))}")
        found = getattr(found, part)
    return found


def _imported(kind: str, name: str, module: str) -> Any:
    here = os.getcwd()
    sys.path.append(here)  # last: a folder of the user's called like one of our packages must not hide it
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            where = "go to the folder that it is in, or install it"
            raise PluginError(
                f"{kind} {name!r}: there is no module {error.name!r} here or installed; {where}"
            ) from error
        last = traceback.extract_tb(error.__traceback__)[-1]
        place, said = f"{last.filename}:{last.lineno}", str(error)
        if isinstance(error, SyntaxError):  # then the last frame is one of Python's own
            place, said = f"{error.filename}:{error.lineno}", error.msg
        raise PluginError(f"{kind} {name!r}: {place}: {one_line(error, said)}") from error
    finally:
        sys.path.remove(here)
