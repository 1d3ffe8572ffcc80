"""The plant, what a policy's set-points act on, as numbers by name: those of a spec, and those that a device reports.

Names are `mass_kg`, `flight.<field>` of the FlightModel, `<joint>.<quantity>`, and delays as in `DELAYS`.
"""

from dataclasses import fields
from typing import Any

from hardware.spec import FlightModel, RobotSpec

JOINT_UNITS = {  # see Joint; of a hinge, and of a slide
    "home": ("rad", "m"),
    "stiffness": ("N m/rad", "N/m"),
    "damping": ("N m s/rad", "N s/m"),
    "max_effort": ("N m", "N"),
    "max_velocity": ("rad/s", "m/s"),
    "armature": ("kg m^2", "kg"),
    "friction": ("N m", "N"),
}
JOINT_QUANTITIES = tuple(JOINT_UNITS)
GAINS = ("proportional", "integral", "derivative")  # of a RateLoop
PARTS = {0: (), 2: ("first", "second"), 3: ("roll", "pitch", "yaw")}  # of a tuple of so many numbers
FOLLOW = ("hover_thrust_n", "max_tilt_rad", "turn_lag_s")  # of a FlightModel, from mass, full thrust and rate loop
DELAYS = ("actuator_delay_s", "sensor_delay_s", "network_delay_s")


def plant_of(spec: RobotSpec) -> dict[str, float]:
    """Every number that a specification states of the plant; delays are none of them."""
    return {
        "mass_kg": spec.mass_kg,
        **{f"flight.{name}": value for name, value in flight_numbers(spec.flight).items()},
        **{f"{joint.name}.{name}": getattr(joint, name) for joint in spec.joints for name in JOINT_QUANTITIES},
    }


def flight_numbers(flight: FlightModel | None, rate_loop: bool = True) -> dict[str, float]:
    """The numbers of a FlightModel, those of its firmware's loop as `rate_loop.<field>.<axis>`; none for None.

    The gains of that loop are `rate_loop.gain.<field>.<axis>`. Without `rate_loop` it is left out.
    """
    found = {name: value for name, value in _numbers(flight).items() if name not in FOLLOW}
    if flight is not None and rate_loop:
        for name, value in _numbers(flight.rate_loop).items():
            found[f"rate_loop.{'gain.' * (name.partition('.')[0] in GAINS)}{name}"] = value
    return found


def _numbers(data: Any) -> dict[str, float]:
    """The fields of a data class that are numbers, or a few of them in a tuple, by name; none for None."""
    found = {}
    for field in fields(data) if data is not None else ():
        value = getattr(data, field.name)
        if isinstance(value, int | float):
            found[field.name] = float(value)
        elif isinstance(value, tuple) and all(isinstance(each, float) for each in value):
            found |= {f"{field.name}.{part}": each for part, each in zip(PARTS[len(value)], value, strict=True)}
    return found


def control_interface(spec: RobotSpec) -> str:
    """What set-points mean, by the units of the channels."""
    units = {channel.unit for channel in spec.channels}
    if units <= {"rad", "m"}:
        return "joint positions"
    if units == {"N", "rad/s"}:
        return "collective thrust and body rates"
    return ", ".join(sorted(units))
