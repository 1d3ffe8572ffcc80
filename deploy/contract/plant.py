"""The plant that a policy was trained on: nominal values, how far each was varied, and what that allows a robot."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert

from hardware.plant import DELAYS, JOINT_QUANTITIES, control_interface, flight_numbers
from hardware.spec import RobotSpec

TOLERANCE = 0.01  # of the nominal value: what rounding in a data sheet or a device may be
HOME_TOLERANCE = 1e-3  # rad or m
DELAY_TOLERANCE_S = 2e-3  # one step of the physics that delays were trained in
LEAST_GAIN = 0.01  # of the nominal one: a loop without any has no time constant

RANDOMISATION = "sim.randomisation."
# Function there and its parameter -> the number of the plant that is varied, and how.
How = Literal["", "factor", "offset"]
_VARIED: dict[tuple[str, str], tuple[str, How]] = {
    ("mass", "scale"): ("mass_kg", "factor"),
    ("base_mass", "add_kg"): ("mass_kg", "offset"),
    ("gains", "stiffness"): ("stiffness", "factor"),
    ("gains", "damping"): ("damping", "factor"),
    ("motor_strength", "scale"): ("max_effort", "factor"),
    ("armature", "scale"): ("armature", "factor"),
    ("joint_friction", "scale"): ("friction", "factor"),
    ("rate_loop", "gain"): ("rate_loop.gain", "factor"),
    ("rate_loop", "lag"): ("rate_loop.lag_s", "factor"),
    **{(delay.removesuffix("_s"), "range_s"): (delay, "offset") for delay in DELAYS},
    **{(delay.replace("_delay_s", "_jitter"), "range_s"): (delay, "offset") for delay in DELAYS},
}


class JointPlant(Struct, frozen=True, forbid_unknown_fields=True):
    """One joint and its drive, nominal. For a slide read m for rad and N for N m."""

    name: str
    home: Annotated[float, Meta(description="rad, in the pose that the robot rests in")]
    stiffness: Annotated[float, Meta(ge=0, description="N m/rad; 0 for a joint that no channel drives")]
    damping: Annotated[float, Meta(ge=0, description="N m s/rad")]
    max_effort: Annotated[float, Meta(ge=0, description="N m, the most that the drive gives")]
    max_velocity: Annotated[float, Meta(ge=0, description="rad/s")]
    armature: Annotated[float, Meta(ge=0, description="kg m^2, the rotor's inertia seen at the joint")]
    friction: Annotated[float, Meta(ge=0, description="N m, dry")]


class TrainedRange(Struct, frozen=True, forbid_unknown_fields=True):
    """What training varied from world to world, or in time: any value from `low` to `high`."""

    event: Annotated[str, Meta(description="function of sim.randomisation, or module.function of another")]
    parameter: Annotated[str, Meta(description="of that function; its unit as its name ends, a scale is a factor")]
    low: float
    high: Annotated[float, Meta(description="equal to low for what is no range: a probability, a standard deviation")]
    varies: Annotated[str, Meta(description="number of the plant, or group of them, that it changes; else empty")] = ""
    how: Annotated[How, Meta(description="of the nominal value, or added to it")] = ""


class Plant(Struct, frozen=True, forbid_unknown_fields=True):
    """What the policy's set-points act on. The robot's mass is in `robot`, the control rate in `control_dt_s`."""

    control_interface: Annotated[str, Meta(min_length=1, description="what set-points mean to the drives")]
    joints: Annotated[tuple[JointPlant, ...], Meta(description="in the order of robot.joint_names")]
    flight: Annotated[Mapping[str, float], Meta(description="of a multirotor, unit as each name ends; else empty")]
    trained_ranges: tuple[TrainedRange, ...]
    # Nominal delays are zero, so these are all that training had.
    actuator_delay_s: Annotated[
        tuple[float, float], Meta(description="least and most time from the policy's step to the drives, s")
    ] = (0.0, 0.0)
    sensor_delay_s: Annotated[
        tuple[float, float], Meta(description="least and most age of the own state when the policy runs, s")
    ] = (0.0, 0.0)
    network_delay_s: Annotated[tuple[float, float], Meta(description="the same of what peers say, s")] = (0.0, 0.0)


def make_plant(spec: RobotSpec, randomisation: Mapping[str, Any], rate_loop: bool = False) -> Plant:
    """The plant of `spec` under a task's `randomisation`, as plain data: name -> {"func": ..., "params": {...}}.

    With `rate_loop` a drone flew by its firmware's loop, as `GroupCfg.rate_loop` says.
    """
    ranges = tuple(_trained_ranges(randomisation.values()))
    delays = {delay: _varied(0.0, delay, ranges) for delay in DELAYS}
    # With jitter too the simulation ends at a control period, and at two of what is measured and heard.
    for name, periods in zip(DELAYS, (1, 2, 2), strict=True):
        least, most = delays[name]
        delays[name] = least, min(most, periods / spec.control_hz)
    return Plant(
        control_interface(spec),
        tuple(convert(joint, JointPlant, from_attributes=True) for joint in spec.joints),
        flight_numbers(spec.flight, rate_loop),
        ranges,
        **delays,
    )


def allowed_values(plant: Plant, mass_kg: float) -> dict[str, tuple[float, float]]:
    """Least and greatest value, by the names of `hardware.plant`, of a robot that is like those of training.

    That is what training varied it over, and TOLERANCE.
    """
    ranges = plant.trained_ranges
    allowed = {"mass_kg": _wider(_varied(mass_kg, "mass_kg", ranges), TOLERANCE * mass_kg)}
    by_firmware = any(name.startswith("rate_loop.") for name in plant.flight)
    for name, value in plant.flight.items():
        bounds = _of_own_loop(value, name, ranges) if by_firmware else _varied(value, name, ranges)
        allowed[f"flight.{name}"] = _wider(bounds, TOLERANCE * abs(value))
    for joint in plant.joints:
        for name in JOINT_QUANTITIES:
            value = getattr(joint, name)
            slack = HOME_TOLERANCE if name == "home" else TOLERANCE * abs(value)
            allowed[f"{joint.name}.{name}"] = _wider(_varied(value, name, ranges), slack)
    delays = {name: getattr(plant, name) for name in DELAYS}
    return allowed | {
        name: (max(0.0, least - DELAY_TOLERANCE_S), most + DELAY_TOLERANCE_S) for name, (least, most) in delays.items()
    }


def _of_own_loop(nominal: float, name: str, ranges: Iterable[TrainedRange]) -> tuple[float, float]:
    """As `_varied`, of who flew by the firmware's loop: the model's own may be as slow and as fast as that was."""
    if name == "rotor_time_constant_s":
        return _varied(nominal, "rate_loop.lag_s", ranges)
    if name == "rate_time_constant_s":
        slow, fast = (max(gain, LEAST_GAIN) for gain in _varied(1.0, "rate_loop.gain", ranges))
        return nominal / fast, nominal / slow
    return _varied(nominal, name, ranges)


def _wider(bounds: tuple[float, float], by: float) -> tuple[float, float]:
    return bounds[0] - by, bounds[1] + by


def _varied(nominal: float, name: str, ranges: Iterable[TrainedRange]) -> tuple[float, float]:
    """What `nominal` becomes at both ends of all that varies it."""
    low = high = nominal
    for how in ("factor", "offset"):
        for each in (r for r in ranges if r.how == how and f"{name}.".startswith(f"{r.varies}.")):
            low, high = (low * each.low, high * each.high) if how == "factor" else (low + each.low, high + each.high)
    return low, high


def _trained_ranges(events: Iterable[Mapping[str, Any]]) -> Iterator[TrainedRange]:
    for event in events:
        function = event["func"].removeprefix(RANDOMISATION)
        for parameter, value in event["params"].items():
            numbers = value if isinstance(value, Mapping) else {"": value}
            for field, number in numbers.items():
                bounds = number if isinstance(number, list | tuple) else (number, number)
                if len(bounds) == 2 and all(isinstance(bound, int | float) for bound in bounds) and any(bounds):
                    varies, how = _VARIED.get((function, parameter), ("", ""))
                    name = f"{parameter}.{field}" if field else parameter
                    yield TrainedRange(function, name, float(bounds[0]), float(bounds[1]), varies, how)
