"""Real robots of a team file: link, plant, measurements, battery, what the device says. None is armed or moved."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from deploy.bundle import load_bundle
from deploy.runtime.compatibility import check_driver, lacks_firmware
from deploy.shield import make_shield_params
from hardware import load_robot
from hardware.drivers import (
    ChecksFirmware,
    Driver,
    HasBattery,
    HasFirmware,
    HasStatus,
    ReportsPlant,
    load_driver,
    needed_hz,
    unmeasured_by,
)
from hardware.spec import RobotSpec
from hardware.types import RobotState
from phalanx.doctor.check import Check, Status
from phalanx.doctor.links import link_hint, rate_hint, shared_domain
from phalanx.doctor.machine import robots_computer_checks
from phalanx.doctor.starved import Starved
from phalanx.doctor.usb import usb_permission
from ros_nodes.lifecycle.claims import taken_names
from ros_nodes.lifecycle.domain import given_domain
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.messages.battery import LEAST_CHARGE
from ros_nodes.messages.device import TAKEN
from ros_nodes.plans.kept_stops import kept_stop
from ros_nodes.plans.team import Robot, Team

LOOK_S = 3.0  # how long a robot is looked at
STEADY = 0.9  # share of a rate that counts as all of it
DRIFTS_M = 0.1  # of a robot at rest in that time
OF_JOINTS = ("joint_pos", "joint_vel")
# Faults of a device that a busy computer may make: of rates, ages and silence
OF_TIME = re.compile(r"\d m?s\b|\b(Hz|late|old|slow|silent|nothing|lost|did not run)\b")


@dataclass
class Seen:
    """What came from one robot while it was looked at."""

    ages_s: list[float] = field(default_factory=list)  # of new measurements, as they were when they were first read
    seconds: float = 0.0
    unknown: set[str] = field(default_factory=set)  # fields that were not finite
    places: list[np.ndarray] = field(default_factory=list)  # m, of new measurements
    busy: str = ""  # what kept this computer from looking, see `Starved`

    @property
    def hz(self) -> float:
        """New measurements a second."""
        return len(self.ages_s) / self.seconds


def robot_checks(team: Team, names: Sequence[str], on_robot: Callable[[str], None]) -> list[Check]:
    """Connect to each of the robots that has a driver and look at it; ValueError for an unknown name."""
    wanted = team.pick(names)
    if not (real := [robot for robot in team.robots if robot.name in wanted and robot.driver]):
        raise ValueError(f"{', '.join(wanted)}: no driver, so simulated; there is no device to look at")
    nodes = [f"/{robot.name}/{node}" for robot in real for node in ("shield", "driver")]
    if taken := taken_names(given_domain(), nodes):
        raise ValueError(
            f"{taken[0].split('/')[1]} is deployed on this computer, and a device obeys one driver: end that first"
        )
    found, load = [], MachineLoad()
    for robot in real:
        on_robot(robot.name)
        found += [Check(robot.name, *check) for check in _examine(robot, team)]
    return [*robots_computer_checks(load), *found]


def _examine(robot: Robot, team: Team) -> Iterator[tuple[str, Status, str, str]]:
    yield from _stop(robot)
    yield from _permissions(robot)
    if shared := shared_domain(robot.driver, robot.options):
        yield "ROS domain", "warn", *shared
    spec = load_robot(robot.type)
    try:
        driver = load_driver(robot.driver, spec, **robot.options)
    except ValueError as error:
        yield "options", "fail", str(error), "its page in docs/hardware lists its options"
        return
    starved = Starved()
    try:
        begun_s = time.monotonic()
        try:
            driver.connect()
            yield "link", "ok", f"{robot.driver}, connected after {time.monotonic() - begun_s:.1f} s", ""
            if isinstance(driver, HasFirmware):
                yield _firmware(driver)
            yield _plant(driver, robot, team)
            seen = look(driver, spec)
            asked_hz = needed_hz(driver) or float(robot.options.get("state_hz", spec.sensor_hz))
            control_hz = 1 / load_bundle(robot.bundle, team.trusted_keys).contract.control_dt_s
            enough_hz = STEADY * asked_hz if needed_hz(driver) else min(STEADY * asked_hz, 2 * control_hz)
            hint = rate_hint(robot.driver, robot.options)
            yield from _measurements(seen, spec, asked_hz, enough_hz, control_hz, hint)
            yield from _said(driver, team.charges(robot).get("least_charge", LEAST_CHARGE), seen.busy)
        finally:
            driver.stop()
    except (ValueError, OSError) as error:
        busy = f"; {said}" if (said := starved.says()) else ""
        yield "link", "fail", str(error), link_hint(robot.driver, robot.options) + busy


def _stop(robot: Robot) -> Iterator[tuple[str, Status, str, str]]:
    """A person's stop outlives every process."""
    try:
        kept = kept_stop(robot, given_domain())
    except OSError as error:
        yield "stop", "fail", str(error), "its shield keeps a person's stop there: make the folder one to be written"
        return
    if kept:
        yield "stop", "warn", f"stopped still: {kept}", f"phalanx operate reset {robot.name}, when it is deployed"


def _permissions(robot: Robot) -> Iterator[tuple[str, Status, str, str]]:
    """Of devices that the options name, such as /dev/ttyACM0, or radio://0."""
    if robot.driver == "crazyflie" and (found := usb_permission(str(robot.options.get("uri", "")))) is not None:
        yield ("permissions", *found)
    for value in robot.options.values():
        device = str(value).partition(":")[0]
        if device.startswith("/dev/") and Path(device).exists():
            allowed = os.access(device, os.R_OK | os.W_OK)
            hint = "" if allowed else f"sudo usermod -aG {Path(device).group()} $USER, and log in again"
            yield "permissions", "ok" if allowed else "fail", f"{device} {'' if allowed else 'not '}allowed", hint


def _firmware(driver: HasFirmware) -> tuple[str, Status, str, str]:
    firmware = driver.read_firmware()
    if not firmware:
        return "firmware", "warn", "the device does not say which it runs", ""
    unlike = driver.unlike_firmware() if isinstance(driver, ChecksFirmware) else ""
    hint = "first without propellers: what it means by a set-point or a bit may have changed" if unlike else ""
    return "firmware", "warn" if unlike else "ok", f"{firmware}{', ' if unlike else ''}{unlike}", hint


def _plant(driver: Driver, robot: Robot, team: Team) -> tuple[str, Status, str, str]:
    reported = dict(driver.read_plant()) if isinstance(driver, ReportsPlant) else {}
    try:
        check_driver(robot.bundle, reported, team.trusted_keys, unmeasured_by(driver))
    except ValueError as error:
        return "plant", "fail", str(error), "train for this robot, or set the device as the policy was trained"
    if unlike := lacks_firmware(load_bundle(robot.bundle, team.trusted_keys).contract):
        return "plant", "warn", f"{Path(robot.bundle).name} {unlike}", "take one that was, such as hover.onnx"
    return "plant", "ok", f"{len(reported)} values as trained" if reported else "the device reports none", ""


def look(driver: Driver, spec: RobotSpec, seconds: float = LOOK_S) -> Seen:
    """Read at twice the sensor rate; what is not newer than the last one by half a period is the same."""
    seen, period_s, starved = Seen(), 1 / spec.sensor_hz, Starved()
    all_fields = OF_JOINTS if spec.fixed_base else tuple(each.name for each in fields(RobotState))
    needed = set(all_fields) - set(unmeasured_by(driver))
    begun_s, last_s = time.monotonic(), -np.inf
    while (now_s := time.monotonic()) < begun_s + seconds:
        state = driver.read()
        seen.unknown |= {name for name in needed if not np.isfinite(getattr(state, name)).all()}
        if now_s - float(state.age) > last_s + 0.5 * period_s:
            last_s = now_s - float(state.age)
            seen.ages_s.append(float(state.age))
            if "base_pos" in needed:
                seen.places.append(np.array(state.base_pos))
        starved.sleep(0.5 * period_s)
    seen.seconds, seen.busy = time.monotonic() - begun_s, starved.says()
    return seen


def _measurements(
    seen: Seen, spec: RobotSpec, asked_hz: float, enough_hz: float, control_hz: float, hint_hz: str
) -> Iterator[tuple[str, Status, str, str]]:
    """Of `asked_hz` at least `enough_hz` are needed; `hint_hz`: why they may not come over this link."""
    if seen.unknown:
        unknown = ", ".join(sorted(seen.unknown))
        hint = "the device does not know them yet: position source, calibration?"
        yield "measurements", "fail", f"{unknown} not finite", hint
    status: Status = "ok" if seen.hz >= enough_hz else "warn" if seen.hz >= STEADY * control_hz else "fail"
    hint = "" if status == "ok" else seen.busy or hint_hz
    yield "rate", status, f"{seen.hz:.1f} Hz of {asked_hz:g}, {enough_hz:g} needed", hint
    params, age_s = make_shield_params(spec), float(np.quantile(seen.ages_s, 0.99)) if seen.ages_s else np.inf
    warn_s = params.warn_periods * params.control_dt_s
    status = "ok" if age_s <= warn_s else "warn" if age_s <= params.act_s else "fail"
    limits = f"late from {1e3 * warn_s:.0f} ms on, and given up at {1e3 * params.act_s:.0f} ms"
    hint = "" if status == "ok" else "; ".join(filter(None, (limits, seen.busy)))
    yield "age", status, f"p99 {1e3 * age_s:.1f} ms", hint
    if len(seen.places) > 1 and "base_pos" not in seen.unknown:
        drift_m = float(np.linalg.norm(seen.places[-1] - seen.places[0]))
        hint = "" if drift_m < DRIFTS_M else "at rest an estimate stands still: position source, lighting, calibration?"
        yield "estimate", "warn" if hint else "ok", f"moved by {100 * drift_m:.1f} cm in {seen.seconds:.0f} s", hint


def _said(driver: Driver, least_charge: float, busy: str) -> Iterator[tuple[str, Status, str, str]]:
    if isinstance(driver, HasBattery):
        battery = driver.read_battery()
        known, low = np.isfinite(battery.charge), battery.charge < least_charge
        volts = f", {battery.voltage_v:.2f} V" if np.isfinite(battery.voltage_v) else ""
        found = f"{100 * battery.charge:.0f} %{volts}" if known else "not known yet"
        hint = f"charge it: none is armed below {100 * least_charge:.0f} %" if low else ""
        yield "battery", "fail" if low else "ok" if known else "warn", found, hint
    if isinstance(driver, HasStatus):
        status = driver.read_status()
        hint = "" if not (status.fault or status.armed) else "put that right first; a device with a fault is not armed"
        if busy and OF_TIME.search(status.fault) and TAKEN not in status.fault:
            hint = f"{busy}; else {hint}"
        if status.armed and not status.fault:
            hint = "somebody else has it: end that first"
        found = status.fault or ("armed" if status.armed else "disarmed, no fault")
        yield "device", "fail" if status.fault else "warn" if status.armed else "ok", found, hint
