"""What tests of drones' drivers share: a plain controller, and a device that is emulated once for several tests."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from emulated import Emulated
from patience import patience

from hardware import load_robot
from hardware.drivers import Driver, load_driver
from hardware.rotation import rotate, rotate_inverse
from hardware.spec import GRAVITY, RobotSpec
from hardware.types import ActuatorCommand, DeviceStatus

ABOVE = (0.0, 0.0, 0.8)  # m, where an X500 climbs to
SPECS = {"crazyflie": load_robot("crazyflie"), "px4": load_robot("x500")}  # of each driver
ADDRESSES = {"crazyflie": ("uri", "udp://127.0.0.1:{}"), "px4": ("link", "udpout:127.0.0.1:{}")}

FLIES = """
import sys
from drones import SPECS, arm, connected, fly
name = sys.argv[1]
driver = connected(name, int(sys.argv[2]))
input()
arm(driver)
fly(driver, SPECS[name], (0.0, 0.0, 0.8), 60.0, lambda: driver.read().base_pos[2] > 0.6)
print("flies", flush=True)
said = []
def say():
    if (fault := driver.read_status().fault) and fault not in said:
        print(fault, flush=True)
        said.append(fault)
fly(driver, SPECS[name], (0.0, 0.0, 0.8), 60.0, say)
"""


def flier(name: str, port: int) -> subprocess.Popen[str]:
    """A process with a driver of the device at `port`, which flies as soon as it has a line to read, and says so.

    Then it says each new fault.
    """
    return subprocess.Popen(
        [sys.executable, "-c", FLIES, name, str(port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def connected(name: str, port: int, **options) -> Driver:
    """The driver `name`, connected to the device at `port` of this computer."""
    option, address = ADDRESSES[name]
    driver = load_driver(name, SPECS[name], **{option: address.format(port)}, **options)
    driver.connect()
    return driver


@contextmanager
def bench(name: str) -> Iterator[tuple[Emulated, Driver]]:
    """An emulated device on the ground, and the driver `name` connected to it, for several tests: see `rest`."""
    with Emulated(name) as device:
        driver = connected(name, device.port)
        try:
            yield device, driver
        finally:
            device.order(reset=True)  # it need not land
            driver.stop()


def rest(device: Emulated, driver: Driver) -> None:
    """Both as they began: the device at its start, disarmed, without a fault."""
    driver.disarm()
    device.order(reset=True)
    wait_until(lambda: driver.read_status() == DeviceStatus(False, ""), driver.read_status, 12.0)


def wait_until(happens: Callable[[], object], failure: str | Callable[[], object], within_s: float = 3.0) -> None:
    """AssertionError with `failure` where it does not happen within a quiet machine's `within_s`."""
    end = time.monotonic() + patience(within_s)
    while not happens():
        assert time.monotonic() < end, failure if isinstance(failure, str) else failure()
        time.sleep(0.01)


def arm(driver: Driver) -> None:
    """Until it is armed; again where a busy machine was too late for its device."""
    for again in (True, True, False):
        driver.arm()
        try:
            wait_until(lambda: driver.read_status() == DeviceStatus(True, ""), driver.read_status)
            return
        except AssertionError:
            if not again:
                raise
            driver.disarm()


def fly(driver: Driver, spec: RobotSpec, goal, seconds=5.0, until=lambda: False, yaw_rate=0.0) -> list[float]:
    """Fly to `goal` m by a plain controller, for so long at most; ages of the states on the way, s."""
    ages, end = [], time.monotonic() + seconds
    while time.monotonic() < end and not until():
        state = driver.read()
        ages.append(float(state.age))
        velocity = rotate(state.base_quat, state.base_lin_vel)
        accel = np.clip(4.0 * (np.array(goal) - state.base_pos) - 3.5 * velocity, -2.0, 2.0)
        accel[2] += GRAVITY
        up = rotate(state.base_quat, np.float32([0.0, 0.0, 1.0]))
        turn = rotate_inverse(state.base_quat, np.float32(np.cross(up, accel / np.linalg.norm(accel))))
        rates = np.float32([4.0 * turn[0], 4.0 * turn[1], yaw_rate])
        driver.write(ActuatorCommand(np.concatenate([[spec.mass_kg * float(accel @ up)], rates])))
        time.sleep(0.02)
    return ages


def climb_px4(device: Emulated, driver: Driver) -> None:
    """Arm the X500 and fly it off the ground, towards `ABOVE`."""
    arm(driver)
    fly(driver, SPECS["px4"], ABOVE, patience(3.0), lambda: device.order()["position"][2] > 0.6)
    assert device.order()["position"][2] > 0.6
