"""A task in a mirror: what is left becomes right.

The mirror is the plane of x and z of a robot's own body. A vector (x, y, z) becomes (x, -y, z), an angular velocity
(-x, y, -z), and a joint on the left is the one on the right. Terms say beside their definition how they mirror.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import mujoco
import numpy as np

from hardware import load_robot
from hardware.spec import RobotSpec
from sim.terms import Term

Func = TypeVar("Func", bound=Callable[..., Any])
RATES = {"roll_rate": -1.0, "pitch_rate": 1.0, "yaw_rate": -1.0}  # channels of a multirotor, beside its thrust
NEAR = 2e-3  # m or of a unit vector: no two sides of a robot are the same to the last digit


@dataclass(frozen=True)
class Flip:
    """Numbers (..., n) in the mirror: at place i stands `sign[i]` times what was at `index[i]`."""

    index: tuple[int, ...]
    sign: tuple[float, ...]

    def picked(self, places: Sequence[int] | None) -> "Flip":
        """Of the numbers at `places` alone; ValueError where one lacks its counterpart."""
        if places is None:
            return self
        at = {place: i for i, place in enumerate(places)}
        if alone := [place for place in places if self.index[place] not in at]:
            raise ValueError(f"number {alone[0]} is seen without number {self.index[alone[0]]}, its counterpart")
        return Flip(tuple(at[self.index[place]] for place in places), tuple(self.sign[place] for place in places))


def joined(flips: Sequence[Flip]) -> Flip:
    """Of numbers that stand one after the other."""
    starts = np.cumsum([0, *(len(flip.index) for flip in flips)]).tolist()
    index = tuple(start + i for start, flip in zip(starts, flips, strict=False) for i in flip.index)
    return Flip(index, tuple(sign for flip in flips for sign in flip.sign))


def signs(*sign: float) -> Flip:
    """Of numbers that stay where they are."""
    return Flip(tuple(range(len(sign))), sign)


SCALAR, VECTOR, TURN = signs(1.0), signs(1.0, -1.0, 1.0), signs(-1.0, 1.0, -1.0)
Rule = Callable[[Any, Term], Flip]  # (group, its term) -> how what the term returns mirrors
_RULES: dict[Callable[..., Any], Rule] = {}


def mirrored(rule: Flip | Rule) -> Callable[[Func], Func]:
    """Says of a term how what it returns mirrors, or what it remembers."""

    def note(func: Func) -> Func:
        _RULES[func] = (lambda group, term: rule) if isinstance(rule, Flip) else rule
        return func

    return note


def of_joints(group: Any, term: Term) -> Flip:
    """Of numbers of the `joints` of a term, or of all."""
    return of_robot(group.robot)[0].picked(term.params.get("joints"))


def of_action(group: Any, term: Term) -> Flip:
    """Of an action's `channels` of a term, or of all."""
    return of_robot(group.robot)[1].picked(term.params.get("channels"))


def of_memory(group: Any, term: Term) -> Flip:
    """Of the memory that a term shows."""
    memory = group.observation.memory[term.params["name"]]
    return _RULES[memory.func](group, memory)


def of_group(group: Any) -> dict[str, Flip]:
    """How a `GroupCfg`'s observations (the parts of `Observation`) and actions mirror; ValueError where they do not."""
    seen = group.observation
    parts = {"policy": seen.own, "neighbours": seen.peer, "privileged": seen.privileged}
    named = {name: getattr(group.action, name) for name in ("transform", "bias", "limit")}
    turned = {name: term for name, term in named.items() if term is not None}
    shown = [turned, *parts.values()]
    if unknown := [name for terms in shown for name, term in terms.items() if not _is_known(group, term)]:
        raise ValueError(f"network.symmetric: it is not stated how {', '.join(unknown)} of {group.robot!r} mirror")
    try:
        action = of_robot(group.robot)[1]
        found = {part: joined([_RULES[t.func](group, t) for t in terms.values()]) for part, terms in parts.items()}
    except ValueError as error:
        raise ValueError(f"network.symmetric: {error}") from None
    centre, scale, index = np.array(group.action.centre), np.array(group.action.scale), list(action.index)
    alike = np.isclose(action.sign * centre[index], centre) & np.isclose(scale[index], scale)
    for channel, same in zip(load_robot(group.robot).channels, alike, strict=True):
        if not same:
            raise ValueError(f"network.symmetric: actions reach elsewhere at {channel.name} than at its counterpart")
    return {**found, "action": action}


def _is_known(group: Any, term: Term) -> bool:
    rule = _RULES.get(term.func)
    if rule is of_memory:
        return group.observation.memory[term.params["name"]].func in _RULES
    return rule is not None


@cache
def of_robot(name: str) -> tuple[Flip, Flip]:
    """How joints and channels of a robot, by name, mirror; ValueError where its two sides are not alike."""
    robot = load_robot(name)
    joints = _of_joints(robot)
    places = {name: i for i, name in enumerate(robot.joint_names)}
    channels = [channel.name for channel in robot.channels]
    if channels == ["thrust", *RATES]:
        return joints, signs(1.0, *RATES.values())
    if all(channel in places for channel in channels):
        return joints, joints.picked([places[channel] for channel in channels])
    raise ValueError(f"robot {name!r} has channels of which it is not stated how they mirror")


def _of_joints(robot: RobotSpec) -> Flip:
    """By the names of joints, left and right, and by their axes in the robot's own model."""
    model = mujoco.MjModel.from_xml_path(str(robot.mjcf))
    names, home = robot.joint_names, robot.home
    index, sign = [], []
    for place, name in enumerate(names):
        other = re.sub("left|right", lambda side: {"left": "right", "right": "left"}[side[0]], name)
        here, there = _joint(model, name), _joint(model, other) if other in names else {}
        if not there or not all(np.allclose(here[part] * _SIDES[part], there[part], atol=NEAR) for part in _SIDES):
            raise ValueError(f"robot {robot.name!r}: joint {name!r} has no counterpart in the mirror")
        turned = here["axis"] * (VECTOR if here["slides"] else TURN).sign
        index.append(names.index(other))
        sign.append(float(np.sign(turned @ there["axis"])))
        if abs(abs(turned @ there["axis"]) - 1.0) > NEAR or abs(home[place] - sign[-1] * home[index[-1]]) > NEAR:
            raise ValueError(f"robot {robot.name!r}: joint {name!r} turns, or is at home, unlike its counterpart")
    return Flip(tuple(index), tuple(sign))


_SIDES = {"pos": VECTOR.sign, "quat": (1.0, *TURN.sign)}  # of a body in the one that carries it


def _joint(model: Any, name: str) -> dict[str, Any]:
    """A joint's axis, and where its body is."""
    place = model.joint(name).id
    body, slides = model.jnt_bodyid[place], model.jnt_type[place] == mujoco.mjtJoint.mjJNT_SLIDE
    return {
        "axis": model.jnt_axis[place],
        "slides": slides,
        "pos": model.body_pos[body],
        "quat": model.body_quat[body],
    }
