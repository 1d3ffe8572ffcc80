"""Drivers: the last few lines before a real robot. One file a vendor; its SDK is imported in `connect` alone."""

import os
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from math import isfinite
from typing import Any, Protocol, runtime_checkable

from hardware.names import nearest
from hardware.plugins import SHOWN, PluginError, load_plugin
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Battery, DeviceStatus, RobotState

DRIVERS = {
    "crazyflie": "hardware.drivers.crazyflie:CrazyflieDriver",
    "franka": "hardware.drivers.franka:FrankaDriver",
    "px4": "hardware.drivers.px4:Px4Driver",
    "ros2_control": "ros_nodes.drivers.ros2_control:Ros2ControlDriver",
    "unitree_g1": "hardware.drivers.unitree_g1:UnitreeG1Driver",
    "ur": "hardware.drivers.ur:UrDriver",
}
ALLOWED = "PHALANX_DRIVERS"  # environment variable: "module:NAME" of drivers of the user's own, with commas between
LONGEST_CONNECT_S = 600.0  # the most that a driver may be given to reach its device
KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class DriverError(ValueError):
    """A robot that cannot be reached or a driver that cannot be loaded; one line says which and why."""


class Driver(Protocol):
    """One robot. A driver class is made with `(spec, **options)`; calls come from one thread."""

    def connect(self) -> None:
        """Open the link and arm the device's own watchdog; DriverError when that cannot be."""

    def arm(self) -> None:
        """A person has armed the robot: make its motors obey, as far as the device asks for that."""

    def disarm(self) -> None:
        """The robot is at rest and no commands come: motors off, or brakes on. May be called again.

        A fault that is over has led to that, and is forgotten: a person may arm the robot again. Called at an emergency
        stop too where the driver's attribute `stops_disarmed` is true, as that of a robot which its device damps.
        """

    def read(self) -> RobotState:
        """The newest measurement (no batch); `age` says how old it is, s. Never waits for a newer one."""

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        """Send set-points (U,) and return what was really sent, after the device's own limits."""

    def stop(self) -> None:
        """Bring the robot to rest as its hardware can, and close the link. May be called again, and in any state."""


@runtime_checkable
class HasBattery(Protocol):
    """What a driver of a robot with a battery has too; asked once a second, from the same thread."""

    def read_battery(self) -> Battery:
        """The newest that is known. Never waits for news."""


@runtime_checkable
class HasStatus(Protocol):
    """What a driver has too whose device may refuse to be armed, or take itself back."""

    def read_status(self) -> DeviceStatus:
        """The newest that is known. Never waits for news; called as often as `read`."""


@runtime_checkable
class CutsMotors(Protocol):
    """What a driver of a drone has too whose `disarm` leaves one alone of which its device says that it flies."""

    def cut(self) -> None:
        """A person's emergency stop: motors off at once, also in the air, until `arm`. May be called again."""


@runtime_checkable
class HasFirmware(Protocol):
    """What a driver has too whose device says which program it runs."""

    def read_firmware(self) -> str:
        """Its name and version, such as "PX4 1.15.0", known once it is connected."""


@runtime_checkable
class ChecksFirmware(Protocol):
    """What a driver has too that knows for which firmware it was written."""

    def unlike_firmware(self) -> str:
        """How the device's differs from that, in one line; empty where it does not. Known once it is connected."""


@runtime_checkable
class ReportsPlant(Protocol):
    """What a driver has too whose device knows its own gains, limits, mass or delays; asked once, after `connect`."""

    def read_plant(self) -> Mapping[str, float]:
        """What is known of it, by the names of `hardware.plant`, such as "left_knee_joint.stiffness", in SI units."""


@runtime_checkable
class Listens(Protocol):
    """What a driver of a humanoid has too, in place of `connect`: it hears the robot and can send nothing."""

    def listen(
        self, seconds: float, on_time: Callable[[float], object] = lambda now_s: None
    ) -> list[tuple[float, RobotState]]:
        """What came within `seconds`, and when (monotonic, s); `on_time` gets the time that has passed, s."""


def usual_robot(driver: Any) -> str:
    """The robot that a driver, or a class of them, drives where its team file names none; "": that of the policy.

    One whose device is any of several, and does not say which, has an attribute `usual_robot`: else a policy for
    another robot would be armed on it.
    """
    return str(getattr(driver, "usual_robot", ""))


def unmeasured_by(driver: Any) -> tuple[str, ...]:
    """Fields of RobotState that the device of a driver, or of a class of them, does not measure: they may drift.

    It says so by its attribute `unmeasured`; one that has none measures all.
    """
    return tuple(getattr(driver, "unmeasured", ()))


def last_resort_of(name: str) -> str:
    """What a person can do at a robot that its driver does not reach any more; empty where that is not known.

    A driver class says so by its attribute `last_resort`.
    """
    return str(getattr(driver_class(name), "last_resort", ""))


def needed_hz(driver: Any) -> float:
    """Measurements a second without which a driver, or a class of them, does not do its work; 0: no more than asked.

    One whose set-points follow its device's measurements, or whose device sends fewer than the specification's sensor
    does, says so by its attribute `needed_hz`.
    """
    return float(getattr(driver, "needed_hz", 0.0))


def shared_link(name: str, options: Mapping[str, Any]) -> str:
    """What one process alone can open, and several robots may be reached by, such as a radio; empty for no such link.

    A driver class says so by its static method `shared_link(options)`.
    """
    say = getattr(driver_class(name), "shared_link", None)
    return f"{say(options)}" if say else ""


def device_of(name: str, options: Mapping[str, Any]) -> str:
    """Which device the driver `name` reaches with `options`, such as "udp port 14540, system 1".

    A driver class says so by its static method `device(**options)`, which gets the defaults of those left out too, and
    has one spelling for each device. Empty where it has no such method.
    """
    made = driver_class(name)
    defaults = {key: option.default for key, option in signature(made).parameters.items()}
    say = getattr(made, "device", None)
    return f"{say(**{**defaults, **options})}" if say else ""


def driver_class(name: str) -> Any:
    """The driver class "module:NAME", or the one that ships or is registered as `name`; DriverError without one.

    A file from elsewhere may name any module of this computer: it is imported only if the user has it in `ALLOWED`.
    """
    if ":" in name and name not in (*DRIVERS.values(), *os.environ.get(ALLOWED, "").split(",")):
        raise DriverError(f"driver {name[:SHOWN]!r}: is run only where you name it: export {ALLOWED}=module:NAME")
    try:
        return load_plugin("driver", DRIVERS.get(name, name), DRIVERS)
    except PluginError as error:
        raise DriverError(str(error)) from error


def load_driver(name: str, spec: RobotSpec, **options: Any) -> Driver:
    """An unconnected driver, see `driver_class`; DriverError for options that it does not take."""
    make = driver_class(name)
    check_options(name, options)
    driver: Driver = make(spec, **options)
    return driver


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """DriverError, with option, value and what is allowed, for options that the driver `name` does not take."""
    taken = dict(list(signature(driver_class(name)).parameters.items())[1:])
    if any(option.kind is Parameter.VAR_KEYWORD for option in taken.values()):
        return
    allowed = ", ".join(f"{key} ({KINDS[o.annotation]})" if o.annotation in KINDS else key for key, o in taken.items())
    for key, value in options.items():
        if key not in taken:
            known = f"choose from {allowed}" if taken else "it takes none"
            raise DriverError(f"driver {name!r}: unknown option {key} = {value!r}; {known}{nearest(key, taken)}")
        kind = taken[key].annotation
        fits = isinstance(value, (int, float) if kind is float else kind) if kind in KINDS else True
        if not fits or (isinstance(value, bool) and kind in (int, float)):
            raise DriverError(f"driver {name!r}: option {key} = {value!r}: expected {KINDS[kind]}")
        if isinstance(value, float) and not isfinite(value):
            raise DriverError(f"driver {name!r}: option {key} = {value!r}: expected a finite number")
        if key == "connect_s" and not 0.0 < value <= LONGEST_CONNECT_S:
            allowed = f"above 0 s, and {LONGEST_CONNECT_S:g} s at most"
            raise DriverError(f"driver {name!r}: option connect_s = {value!r}: expected {allowed}")
    for key, option in taken.items():
        if option.default is Parameter.empty and key not in options:
            raise DriverError(f"driver {name!r}: option {key} is missing; it takes {allowed}")
