"""What was identified of one robot of a kind: numbers in which it differs from its specification, with intervals.

```yaml
robot: crazyflie
source: flights/monday, cf1         # what they were identified from
numbers:
  thrust: {value: 0.912, low: 0.908, high: 0.916}
```

The file's name is that of a robot, wherever one is asked for: `load_robot("lab/crazyflie@lab.yaml")`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hardware.names import nearest
from hardware.spec import GRAVITY, FlightModel, Joint, RobotSpec

SUFFIX = ".yaml"
OF_JOINTS = {"stiffness": "N m/rad", "damping": "N m s/rad", "armature": "kg m^2", "friction": "N m"}  # see Joint
TOOL_MASS = "tool_mass_kg"
DELAY = "actuator_delay_s"
POSITIVE = ("mass_kg", "thrust", "own_loop.speed")  # of a robot that can move; all others may be 0


@dataclass(frozen=True)
class Quantity:
    """What an overlay may state of a robot: a unit, x for a factor on what the specification says, and its value."""

    nominal: float
    unit: str
    meaning: str


class Number(Struct, frozen=True, forbid_unknown_fields=True):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


class Overlay(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an overlay file; `numbers` by the names of `quantities`."""

    robot: str
    numbers: Mapping[str, Number]
    source: str = ""


def quantities(spec: RobotSpec) -> dict[str, Quantity]:
    """All that an overlay may state of a robot, by name."""
    found = {"mass_kg": Quantity(spec.mass_kg, "kg", "mass of the whole robot, its inertia in proportion")}
    if spec.flight is not None:
        found["thrust"] = Quantity(1.0, "x", "thrust that the rotors give, as a share of what is asked")
        found["drag"] = Quantity(1.0, "x", "drag of the air")
        found["own_loop.lag"] = Quantity(1.0, "x", "lag of the rotors, of a model that flies by its own rate loop")
        found["own_loop.speed"] = Quantity(1.0, "x", "speed of the rate loop that the robot's model has by itself")
        if spec.flight.rate_loop is not None:
            found["rate_loop.lag"] = Quantity(1.0, "x", "lag of the rotors, under the firmware's rate loop")
            found["rate_loop.gain"] = Quantity(1.0, "x", "gains of the firmware's rate loop, all alike")
    for joint in spec.joints:
        for name, unit in OF_JOINTS.items():
            if joint.stiffness or name not in ("stiffness", "damping"):
                found[f"{joint.name}.{name}"] = Quantity(getattr(joint, name), unit, f"{name} of {joint.name}")
    if "tool" in spec.frames:
        found[TOOL_MASS] = Quantity(0.0, "kg", "what hangs at the tool and is not compensated for")
    found[DELAY] = Quantity(0.0, "s", "time from a command to when the drives act on it")
    return found


def load_overlay(path: Path | str) -> Overlay:
    """Read and check an overlay file; ValueError in one line for what is none."""
    from hardware.yaml_file import read_yaml  # every command imports this module, few read a file

    file = Path(path)
    try:
        overlay = msgspec.convert(read_yaml(file), Overlay)
    except msgspec.ValidationError as error:
        raise ValueError(f"{file}: is no overlay of a robot: {error}") from error
    if overlay.robot.endswith(SUFFIX):
        raise ValueError(f"{file}: robot: {overlay.robot}: wanted a kind of robot, not another overlay")
    for name, each in overlay.numbers.items():
        check_value(f"{file}: {name}", name, each.value)
        numbers = (each.low, each.value, each.high)
        if not (all(map(isfinite, numbers)) and 0.0 <= each.low <= each.value <= each.high):
            raise ValueError(f"{file}: {name}: low {each.low:g}, value {each.value:g}, high {each.high:g}: 0 or more")
    return overlay


def check_value(says: str, name: str, value: float) -> None:
    """ValueError that begins with what it `says` for a `value` that the number `name` of no robot has."""
    if not (isfinite(value) and value >= 0.0 and (value > 0.0 or name not in POSITIVE)):
        raise ValueError(f"{says} = {value:g}: {'above 0' if name in POSITIVE else '0 or more'}")


def save_overlay(path: Path, overlay: Overlay) -> None:
    """Write an overlay file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.yaml.encode(overlay))


def overlaid(spec: RobotSpec, values: Mapping[str, float], name: str = "overlay") -> RobotSpec:
    """`spec` with other numbers, by the names of `quantities`; its `overlay` says what its MJCF does not."""
    known = quantities(spec)
    for number in values:
        if number not in known:
            raise ValueError(f"{name}: a {spec.name} has no {number!r}{nearest(number, known)}")
    joints = tuple(_joint(joint, values) for joint in spec.joints)
    mass_kg = values.get("mass_kg", spec.mass_kg)
    flight = None if spec.flight is None else _flight(spec.flight, values, mass_kg)
    return replace(spec, joints=joints, mass_kg=mass_kg, flight=flight, overlay={**spec.overlay, **values})


def _joint(joint: Joint, values: Mapping[str, float]) -> Joint:
    given: dict[str, Any] = {n: values[f"{joint.name}.{n}"] for n in OF_JOINTS if f"{joint.name}.{n}" in values}
    return replace(joint, **given)


def _flight(flight: FlightModel, values: Mapping[str, float], mass_kg: float) -> FlightModel:
    loop = flight.rate_loop
    if loop is not None:
        gain, lag = values.get("rate_loop.gain", 1.0), values.get("rate_loop.lag", 1.0)
        loop = replace(
            loop,
            proportional=_times(loop.proportional, gain),
            integral=_times(loop.integral, gain),
            derivative=_times(loop.derivative, gain),
            lag_s=_times(loop.lag_s, lag),
        )
    return replace(
        flight,
        hover_thrust_n=mass_kg * GRAVITY,
        rotor_time_constant_s=flight.rotor_time_constant_s * values.get("own_loop.lag", 1.0),
        rate_time_constant_s=flight.rate_time_constant_s / values.get("own_loop.speed", 1.0),
        rate_loop=loop,
    )


def _times(numbers: Sequence[float], factor: float) -> tuple:
    return tuple(number * factor for number in numbers)


def load_overlaid(path: str, load: Callable[[str], RobotSpec]) -> RobotSpec:
    """The robot of an overlay file; `load` finds the kind of robot that it names."""
    overlay = load_overlay(path)
    values = {name: number.value for name, number in overlay.numbers.items()}
    return overlaid(load(overlay.robot), values, path)
