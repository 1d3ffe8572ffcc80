"""A task for one robot that was identified: its nominal numbers, and randomisation as narrow as its intervals."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hardware import load_robot
from hardware.overlay import DELAY, Number, load_overlay
from hardware.spec import RobotSpec

if TYPE_CHECKING:
    from sim.task import GroupCfg, TaskCfg

Range = tuple[float, float]
# Function of sim.randomisation and its parameter -> number of an overlay, or of each joint in one.
_OF_ROBOT = {
    ("mass", "scale"): "mass_kg",
    ("thrust", "scale"): "thrust",
    ("rate_loop", "gain"): "rate_loop.gain",
    ("rate_loop", "lag"): "rate_loop.lag",
}
_OF_JOINTS = {
    ("gains", "stiffness"): "stiffness",
    ("gains", "damping"): "damping",
    ("joint_friction", "scale"): "friction",
    ("armature", "scale"): "armature",
}


def narrowed(task: "TaskCfg", path: str) -> "TaskCfg":
    """`task` with the robot of the overlay file at `path` in the place of those of its kind.

    A range becomes the number's 95 % interval where that is narrower, around its value. ValueError for a file that is
    none, and for a task without such a robot.
    """
    overlay = load_overlay(path)
    spec, groups = load_robot(overlay.robot), dict(task.groups)
    for name, cfg in task.groups.items():
        if load_robot(cfg.robot).name == spec.name:
            groups[name] = replace(_group(cfg, spec, overlay.numbers), robot=str(Path(path).resolve()))
    if groups == task.groups:
        kinds = ", ".join(dict.fromkeys(cfg.robot for cfg in task.groups.values()))
        raise ValueError(f"{path}: is a {spec.name}; {task.name!r} is a task for {kinds}")
    return replace(task, groups=groups)


def _group(cfg: "GroupCfg", spec: RobotSpec, numbers: Mapping[str, Number]) -> "GroupCfg":
    events = {}
    for event, term in cfg.randomisation.items():
        params = dict(term.params)
        for parameter, old in term.params.items():
            new = _range(term.func.__name__, parameter, spec, numbers)
            if new is not None and new[1] - new[0] < old[1] - old[0]:
                params[parameter] = new
        if term.func.__name__ == "rate_loop" and "rate_loop.gain" in numbers:
            params["own"] = 0.0  # it flies by its firmware's
        events[event] = replace(term, params=params)
    return replace(cfg, randomisation=events)


def _range(event: str, parameter: str, spec: RobotSpec, numbers: Mapping[str, Number]) -> Range | None:
    """What a parameter may be as its number's interval says: factors on the number's value, delays in s."""
    if (event, parameter) == ("actuator_delay", "range_s") and DELAY in numbers:
        most = 1.0 / spec.control_hz  # what the simulator delays commands by
        return min(numbers[DELAY].low, most), min(numbers[DELAY].high, most)
    if (name := _OF_ROBOT.get((event, parameter), "")) in numbers:
        found = [numbers[name]]
    elif (quantity := _OF_JOINTS.get((event, parameter))) is not None:
        found = [numbers[n] for j in spec.joints if (n := f"{j.name}.{quantity}") in numbers]
        if len(found) < sum(channel.unit == "rad" for channel in spec.channels):
            return None
    else:
        return None
    if any(number.value <= 0.0 for number in found):
        return None
    return min(n.low / n.value for n in found), max(n.high / n.value for n in found)
