"""Robots and tasks at a higher control rate, by name: `benchmarks.raised:g1_200`, `benchmarks.raised:stand_200`."""

from dataclasses import replace
from typing import Any

from hardware import load_robot, robot_names


def __getattr__(name: str) -> Any:
    """The robot or task called `<its name>_<rate in Hz>`.

    Commands of a raised task are not late: a delay would be longer than what physics remembers of such short periods.
    """
    what, _, hz = name.rpartition("_")
    if not (what and hz.isdigit()):
        raise AttributeError(name)
    if what in robot_names():
        return replace(load_robot(what), control_hz=float(hz))
    from sim.tasks import load_task  # here, for a robot's nodes know nothing of tasks

    task = load_task(what)
    prompt = {key: term for key, term in task.group.randomisation.items() if "delay" not in key}
    return task.changed(name=f"{what}-{hz}", robot=f"{__name__}:{task.group.robot}_{hz}", randomisation=prompt)
