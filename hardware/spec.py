"""RobotSpec: everything that the rest of the stack may assume about a robot, with the source of every number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

GRAVITY = 9.81  # m/s^2

Kind = Literal["drone", "manipulator", "humanoid"]
Fallback = Literal["hover-land", "hold", "damp"]


@dataclass(frozen=True, slots=True)
class Channel:
    """One actuator channel: `low` and `high` bound the set-point in `unit`."""

    name: str
    unit: Literal["N", "rad/s", "rad", "N m"]
    low: float
    high: float
    meaning: str


@dataclass(frozen=True, slots=True)
class FlightModel:
    """What a multirotor's shield and back-up controller need to know of its dynamics."""

    hover_thrust_n: float  # collective thrust that carries the nominal mass, N
    rotor_time_constant_s: float  # first-order lag of rotor thrust, s
    rate_time_constant_s: float  # each of the two equal poles of the closed body-rate loop, s
    max_tilt_rad: float  # largest tilt that leaves thrust to hold height, rad


@dataclass(frozen=True, slots=True)
class RobotSpec:
    """One robot. Channel order is the order of every actuator command; joint order that of every joint array."""

    name: str
    kind: Kind
    mjcf: Path
    base_body: str
    joint_names: tuple[str, ...]
    channels: tuple[Channel, ...]
    mass_kg: float
    radius_m: float  # sphere around the base that no part of the robot leaves, m
    control_hz: float
    sensor_hz: float
    fallback: Fallback
    flight: FlightModel | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

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
