"""What drivers say of emulated devices that fail, and how soon: loss, delay, reboot, refusal, takeover.

The devices are those of `tests/devices`, in real time, one for each fault; drones stand on the ground, armed. Once the
fault is said the driver disarms, as its shield has it, and the device says how it is then.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.turns import Progress
from hardware import load_robot
from hardware.drivers import Driver, HasStatus, load_driver
from hardware.types import ActuatorCommand

TESTS = Path(__file__).parents[1] / "tests"
SETTLE_S = 1.2  # what is disarmed sooner may not have been armed yet
PERIOD_S, WITHIN_S, ARM_S, THEN_S = 0.02, 5.0, 5.0, 3.0
REST_RAD_S = 0.02
NONE = "nothing within 5 s"


class Case(NamedTuple):
    """A driver, its robot, its emulated device, and by kind the orders that make that fail."""

    robot: str
    device: tuple[str, ...]
    options: Callable[[str], dict[str, Any]]  # of the driver, from the address of the device
    faults: dict[str, dict[str, Any]]
    then: Callable[[dict[str, Any]], str]  # how it is afterwards, from what it says


def _rests(speed: float) -> str:
    return "at rest" if speed < REST_RAD_S else "moves"


DDS_DOMAIN, ROS_DOMAIN = 171, 173
KILL, FREEZE = {"kill": True}, {"freeze": True}  # of the whole device: no orders
CASES = {
    "crazyflie": Case(
        "crazyflie",
        ("crazyflie",),
        lambda port: {"uri": f"udp://127.0.0.1:{port}"},
        {
            "loss": {"loss": 1.0},
            "delay": {"delay_s": 0.2},
            "reboot": {"reset": True},
            "refusal": {"refuses_arming": True},
            "takeover": {"is_armed": False},
        },
        lambda said: "armed" if said["info"] & 0b10 else "disarmed",
    ),
    "px4": Case(
        "x500",
        ("px4",),
        lambda port: {"link": f"udpout:127.0.0.1:{port}"},
        {
            "loss": {"loss": 1.0},
            "delay": {"delay_s": 0.2},
            "reboot": {"reboot": True},
            "refusal": {"refuses_arming": "Resolve system health failures first"},
            "takeover": {"mode": "POSCTL"},
        },
        lambda said: f"{'armed' if said['armed'] else 'disarmed'}, {said['mode']}",
    ),
    "ur": Case(
        "ur5e",
        ("ur",),
        lambda host: {"host": host},
        {
            "loss": {"loss": 1.0},
            "delay": {"delay_s": 0.5},
            "reboot": {"robot_mode": 3},
            "refusal": {"remote": False},
            "takeover": {"teach": True},
        },
        lambda said: "its program runs" if said["running"] else "its program has ended",
    ),
    "unitree_g1": Case(
        "g1",
        ("unitree_g1", "--domain", str(DDS_DOMAIN)),
        lambda _: {"interface": "lo", "domain": DDS_DOMAIN},
        {
            "loss": {"silent": True},
            "delay": {"delay_s": 0.3},
            "reboot": {"mode_machine": 6},
            "refusal": {"errors": {"3": 0x40}},
            "takeover": {"remote": "L2+B"},
        },
        lambda said: "damped" if said["damped"] else "stiff" if said["stiff"] else "limp",
    ),
    "ros2_control": Case(
        "ur5e",
        ("ros2_control", "--domain", str(ROS_DOMAIN)),
        lambda _: {"controller": "arm_controller", "connect_s": 20.0},
        {
            "loss": {"loss": 1.0},
            "delay": {"delay_s": 0.3},
            "reboot": KILL,
            "takeover": {"takeover": True},
        },
        lambda said: _rests(said["fastest"]),
    ),
    "franka": Case(
        "fr3",
        ("franka",),
        lambda host: {"host": host, "realtime": False},
        {
            "loss": FREEZE,
            "reboot": KILL,
            "refusal": {"user_stop": True},
            "takeover": {"user_stop": True},
        },
        lambda said: _rests(max(map(abs, said["dq"]))),
    ),
}


def bench_devices(drivers: tuple[str, ...] = (), repeats: int = 5, *, on_progress: Progress) -> dict[str, Any]:
    """What drivers report of emulated devices that fail, after how many ms, and how the device is then.

    NaN for what it does not see. The Franka is left out where franky-sim is not installed, and a line says so.
    ValueError for one of `drivers` that has no emulated device here.

    Args:
        drivers: See `phalanx robots`; all that have an emulated device when not given.
        repeats: Of each fault; the median counts.
    """
    if unknown := [name for name in drivers if name not in CASES]:
        raise ValueError(f"driver {unknown[0]!r}: choose from {', '.join(CASES)}")
    _know_tests()
    found, chosen = {}, {name: CASES[name] for name in drivers or CASES}
    franka_sim = import_module("franka_sim")
    if "franka" in chosen and not franka_sim.PYTHON.is_file():
        print(f"benchmarks: no franky-sim at {franka_sim.PYTHON}: {franka_sim.HOW}", file=sys.stderr)
        del chosen["franka"]
    for name, case in chosen.items():
        for fault in case.faults:
            seen = [fail(name, case, fault) for _ in range(repeats)]
            on_progress(sum(len(each.faults) for each in chosen.values()))
            ms, (_, says, then) = median(ms for ms, *_ in seen), seen[-1]
            found[f"{name} {fault}"] = {"ms": round(ms, 1), "says": says, "then": then}
    return found


def fail(name: str, case: Case, fault: str) -> tuple[float, str, str]:
    """How many ms after its orders the driver reports the fault, its words, and how the device is 3 s after that."""
    orders, target = case.faults[fault], np.array(_rest(case.robot), np.float32)
    with connected(name, case) as (device, driver):
        assert isinstance(driver, HasStatus)
        if fault == "refusal":
            _obey(device, orders)
        until_s = time.monotonic() + ARM_S
        begun_s = time.monotonic()
        driver.arm()
        while fault != "refusal" and not driver.read_status().armed:
            if time.monotonic() > until_s:
                raise ValueError(f"{name}: cannot be armed: {driver.read_status().fault}")
            _drive(driver, target, 0.1)
        if fault != "refusal":
            _drive(driver, target, SETTLE_S)
            begun_s = time.monotonic()
            _obey(device, orders)
        while not (said := driver.read_status().fault):
            if time.monotonic() > begun_s + WITHIN_S:
                return float("nan"), NONE, ""
            _drive(driver, target, 0.5 * PERIOD_S)
        ms = 1e3 * (time.monotonic() - begun_s)
        driver.disarm()
        if orders in (KILL, FREEZE):
            return ms, said, "not to be asked"
        _drive(driver, target, THEN_S)
        return ms, said, case.then(device.order())


def _obey(device: Any, orders: dict[str, Any]) -> None:
    if orders == KILL:
        device.kill()
    elif orders == FREEZE:
        device.freeze()
    else:
        device.order(**orders)


def _know_tests() -> None:
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))


@contextmanager
def connected(name: str, case: Case) -> Iterator[tuple[Any, Driver]]:
    """The emulated device, and the driver on it; the device goes first: nothing has to be brought to rest."""
    _know_tests()
    if name == "ros2_control":
        from ros_nodes.lifecycle.processes import ros_environment

        os.environ.update(ros_environment(ROS_DOMAIN))
    emulated = import_module("emulated").Emulated
    with import_module("franka_sim").simulated() if name == "franka" else emulated(*case.device) as device:
        driver = load_driver(name, load_robot(case.robot), **case.options(device.address))
        driver.connect()
        yield device, driver
    driver.stop()


def _rest(robot: str) -> list[float]:
    """Home, or the least that a drone's rotors give."""
    spec = load_robot(robot)
    return [joint.home for joint in spec.joints] or [spec.command_low[0], 0.0, 0.0, 0.0]


def _drive(driver: Driver, target: np.ndarray, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while True:
        driver.read()
        driver.write(ActuatorCommand(target))
        if time.monotonic() > until_s:
            return
        time.sleep(min(PERIOD_S, seconds))
