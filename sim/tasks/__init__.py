"""Tasks by name: one file each, and one line here. The task `swarm-swap` is `SWARM_SWAP` in swarm_swap.py."""

from importlib import import_module
from typing import TYPE_CHECKING

from hardware.overlay import SUFFIX
from hardware.plugins import load_plugin, registered

if TYPE_CHECKING:
    from sim.task import TaskCfg

_NAMES = (
    "bimanual-lift",
    "co-carry",
    "hover",
    "hover-x500",
    "payload-lift",
    "perch",
    "pick-place",
    "push",
    "push-camera",
    "reach",
    "reach-fr3",
    "reach-ur5e",
    "stand",
    "stand-h1",
    "swarm-swap",
    "swarm-swap-firmware",
    "swarm-track",
    "velocity",
    "velocity-rough",
    "waypoints-x500",
)


def task_names() -> list[str]:
    """Names of all tasks, those that other packages have registered too, sorted."""
    return sorted({*_NAMES, *registered("task")})


def without_overlay(name: str) -> str:
    """What a task is called for any robot of its kind: a policy file carries no path to an overlay."""
    task_name, _, overlay = name.partition("@")
    return task_name if overlay.endswith(SUFFIX) else name


def load_task(name: str) -> "TaskCfg":
    """The task called `name`, or at module:NAME; ValueError names what exists and the nearest match.

    "hover@crazyflie@lab.yaml" is the task for the robot of that overlay file, see `sim.narrowing`.
    """
    task_name, _, overlay = name.partition("@")
    if overlay.endswith(SUFFIX):
        from sim.narrowing import narrowed

        return narrowed(load_task(task_name), overlay)
    if name in _NAMES:
        own = name.replace("-", "_")
        task = getattr(import_module(f"sim.tasks.{own}"), own.upper())
    else:
        task = load_plugin("task", name, _NAMES)
    from sim.task import TaskCfg  # which takes seconds to import: a wrong name is answered before

    if not isinstance(task, TaskCfg):
        raise ValueError(f"task {name!r} is a {type(task).__name__}, wanted a TaskCfg")
    return task
