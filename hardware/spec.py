"""RobotSpec: everything that the rest of the stack may assume about a robot, with the source of every number."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias

GRAVITY = 9.81  # m/s^2
SLIDE_LEVER_M = 0.02  # a slide is measured at its motor, which moves it by a drum or pinion of about this radius

Kind: TypeAlias = str  # class of robot: "drone", "manipulator", "humanoid", or another that somebody adds
Fallback: TypeAlias = str  # "hover-land", "hold", "damp", or "module:CLASS" of another; see `deploy.shield.fallback`
Unit = Literal["N", "rad/s", "rad", "m", "N m"]


@dataclass(frozen=True, slots=True)
class Channel:
    """One actuator channel: `low` and `high` bound the set-point in `unit`."""

    name: str  # of a joint when the unit is rad or m: the set-point is that joint's position
    unit: Unit
    low: float
    high: float
    meaning: str


def thrust_and_rates(thrust_n: tuple[float, float], rate_rad_s: float, yaw_rate_rad_s: float) -> tuple[Channel, ...]:
    """Channels of a multirotor: collective thrust from `thrust_n[0]` to `[1]` N, body rates up to +- the given ones."""
    rates = {"roll": ("x", rate_rad_s), "pitch": ("y", rate_rad_s), "yaw": ("z", yaw_rate_rad_s)}
    return (
        Channel("thrust", "N", *thrust_n, "collective thrust along body z"),
        *(
            Channel(f"{n}_rate", "rad/s", -r, r, f"angular velocity about body {axis}")
            for n, (axis, r) in rates.items()
        ),
    )


Axes: TypeAlias = tuple[float, float, float]  # roll, pitch, yaw
Span: TypeAlias = tuple[float, float]  # least and most


@dataclass(frozen=True, slots=True)
class RateLoop:
    """The body-rate controller of a multirotor's firmware, its mixer and its rotors, as they are published.

    A rotor's signal is 0 to 1. The derivative is that of the measured rate, so that a new set-point does not kick.
    """

    rate_hz: float
    proportional: Axes  # signal per rad/s
    integral: Axes  # signal per rad
    derivative: Axes  # signal per rad/s^2
    integral_limit: Axes  # of the summed error of the rate, rad
    output_limit: float  # of each axis, signal
    gyro_cutoff_hz: float  # two-pole low-pass of what the gyroscope measures
    derivative_cutoff_hz: float  # another one, of its derivative; 0 for none
    shares: Axes  # of each axis' output in the signal of a rotor
    yaw_yields: bool  # the mixer gives up yaw, then roll and pitch, before a rotor's signal leaves 0 to 1; without it
    # all rotors slow down alike until the fastest one is in range, and thrust is what pays
    idle: float  # least signal of a rotor
    curve: Span  # (a, e): share of full thrust = (a + (1 - a) signal)^e
    torque_ratio_m: float  # yaw torque of a rotor, N m per N of its thrust
    lag_s: Span  # time constant of a rotor's thrust, rising and falling, s
    variation: Mapping[str, Span]  # randomisation term's parameter -> range that hardware shows


@dataclass(frozen=True, slots=True)
class FlightModel:
    """What a multirotor's shield and back-up controller need to know of its dynamics."""

    hover_thrust_n: float  # collective thrust that carries the nominal mass, N
    rotor_time_constant_s: float  # first-order lag of rotor thrust, s
    rate_time_constant_s: float  # each of the two equal poles of the closed body-rate loop of the robot's model, s
    turn_lag_s: float  # by how much a turn lags behind its commanded rates under the firmware's loop, s
    max_tilt_rad: float  # largest tilt that leaves thrust to hold height, rad
    rotors_xy_m: tuple[
        tuple[float, float], ...
    ] = ()  # of each rotor's axis, m, body; without them it blows no air down
    propeller_radius_m: float = 0.0
    rate_loop: RateLoop | None = None  # of the firmware; None where none is published


@dataclass(frozen=True, slots=True)
class TorqueSpeed:
    """What a motor gives behind its gear: its peak up to a corner speed, linearly less above, nothing at no load.

    It brakes with more than it drives with, since friction of motor and gear helps it there. ValueError for other
    numbers.
    """

    corner_speed: float  # rad/s
    no_load_speed: float  # rad/s
    driving_effort: float  # N m, peak of a torque that turns the joint the way it moves
    braking_effort: float  # N m, peak against its motion

    def __post_init__(self) -> None:
        in_order = 0.0 < self.corner_speed < self.no_load_speed < inf
        if not (in_order and 0.0 < self.driving_effort <= self.braking_effort < inf):
            found = ", ".join(f"{number:g}" for number in astuple(self))
            raise ValueError(
                f"torque-speed curve ({found}): corner speed, no-load speed, driving and braking effort; all above 0 "
                "and finite, the first less than the second, the third no more than the fourth"
            )


@dataclass(frozen=True, slots=True)
class Joint:
    """One joint and the PD loop of its drive. For a slide read m for rad and N for N m."""

    name: str
    low: float  # rad
    high: float  # rad
    home: float  # rad, in the pose that the robot rests in
    max_velocity: float  # rad/s
    max_acceleration: float  # rad/s^2, with which the drive can brake in any pose
    max_effort: float  # N m
    stiffness: float  # N m/rad, 0 for a joint that no channel drives
    damping: float  # N m s/rad
    armature: float  # kg m^2, the rotor's inertia seen at the joint
    friction: float  # N m, dry
    torque_speed: TorqueSpeed | None = None  # of its motor; None where none is published


def joint_positions(joints: Sequence[Joint], meaning: str = "") -> tuple[Channel, ...]:
    """A channel for each hinge, over its whole range; without a `meaning`, as the joints of an arm are counted."""
    return tuple(
        Channel(joint.name, "rad", joint.low, joint.high, meaning or f"position of joint {number}, base first")
        for number, joint in enumerate(joints, 1)
    )


@dataclass(frozen=True, slots=True)
class RobotSpec:
    """One robot. Channel order is the order of every actuator command; joint order that of every joint array."""

    name: str
    kind: Kind
    mjcf: Path
    base_body: str
    joints: tuple[Joint, ...]
    channels: tuple[Channel, ...]
    mass_kg: float
    radius_m: float  # of one robot, not of a pair: no part of it is farther from its base, m
    control_hz: float
    sensor_hz: float
    fallback: Fallback
    fixed_base: bool = False  # bolted to the world, else free
    home_height_m: float = 0.0  # of the base above the floor when the robot stands in its home pose, m
    payload_kg: float = 0.0  # at the frame "tool" of an arm at most, as its shield counts on; 0: not stated
    frames: Mapping[str, str] = field(default_factory=dict)  # name, such as "tool" or "left_foot" -> site of the MJCF
    endurance_s: float | None = None  # s at work on a full battery; None on the mains, or where it is not published
    flight: FlightModel | None = None
    fallback_policy: Path | None = None  # policy file that brings a robot on legs to a stand when its own one is lost
    sources: Mapping[str, str] = field(default_factory=dict)
    overlay: Mapping[str, float] = field(default_factory=dict)  # in what this one robot differs from its MJCF, see
    # `hardware.overlay`; empty for none

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names, in the order of joint arrays."""
        return tuple(joint.name for joint in self.joints)

    @property
    def home(self) -> tuple[float, ...]:
        """Joint positions, rad, in the pose that it rests in, in the order of joint arrays."""
        return tuple(joint.home for joint in self.joints)

    @property
    def joint_of_channel(self) -> tuple[int, ...]:
        """For each channel the joint that it positions, -1 where it positions none."""
        index = {joint.name: i for i, joint in enumerate(self.joints)}
        return tuple(index[c.name] if c.unit in ("rad", "m") else -1 for c in self.channels)

    @property
    def home_target(self) -> tuple[float, ...]:
        """What holds a robot with joints in that pose: the set-point of each channel, rad."""
        return tuple(self.joints[index].home for index in self.joint_of_channel)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Actuator channel names, in command order."""
        return tuple(channel.name for channel in self.channels)

    @property
    def command_low(self) -> tuple[float, ...]:
        """Lower bound of each channel, in its unit."""
        return tuple(channel.low for channel in self.channels)

    @property
    def command_high(self) -> tuple[float, ...]:
        """Upper bound of each channel, in its unit."""
        return tuple(channel.high for channel in self.channels)
