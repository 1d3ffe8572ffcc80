"""The plant, what a policy's set-points act on, as numbers by name: those of a spec, and those that a device reports.

Names are `mass_kg`, `flight.<field>` of the FlightModel, `<joint>.<quantity>`, and delays as in `DELAYS`.
"""

from dataclasses import asdict
from typing import Any

from hardware.spec import RobotSpec

JOINT_QUANTITIES = ("home", "stiffness", "damping", "max_effort", "max_velocity", "armature", "friction")  # see Joint
DELAYS = ("actuator_delay_s", "sensor_delay_s", "network_delay_s")


def plant_of(spec: RobotSpec) -> dict[str, float]:
    """Every number that a specification states of the plant; delays are none of them."""
    return {
        "mass_kg": spec.mass_kg,
        **{f"flight.{name}": value for name, value in flight_numbers(spec.flight).items()},
        **{f"{joint.name}.{name}": getattr(joint, name) for joint in spec.joints for name in JOINT_QUANTITIES},
    }


def flight_numbers(flight: Any) -> dict[str, float]:
    """The fields of a FlightModel that are single numbers; none for None."""
    fields = asdict(flight) if flight is not None else {}
    return {name: float(value) for name, value in fields.items() if isinstance(value, int | float)}


def control_interface(spec: RobotSpec) -> str:
    """What set-points mean, by the units of the channels."""
    units = {channel.unit for channel in spec.channels}
    if units <= {"rad", "m"}:
        return "joint positions"
    if units == {"N", "rad/s"}:
        return "collective thrust and body rates"
    return ", ".join(sorted(units))
