"""A UR5e that is emulated, its driver, and what tests of it do again and again."""

import time
from contextlib import contextmanager

import numpy as np
import pytest
from emulated import Emulated
from patience import patience

from hardware import load_robot
from hardware.drivers import load_driver
from hardware.types import ActuatorCommand

UR5E = load_robot("ur5e")
HOME = np.array(UR5E.home)
AWAY = np.array([2.0, -0.1, 0.2, -0.3, 0.25, 0.5])  # the first so far that its joint reaches its limit of speed
LOAD = {"payload_kg": 1.2, "payload_m": (0.0, 0.01, 0.05)}
NOTHING_BROKEN = {"speed": 0, "acceleration": 0, "range": 0, "jump": 0}


@pytest.fixture(scope="module")
def device():
    with Emulated("ur") as device:
        yield device


@pytest.fixture
def arm(device):
    with connected(device) as driver:
        yield driver


@contextmanager
def connected(device):
    """The driver, linked to the emulated `device`."""
    driver = load_driver("ur", UR5E, host=device.address, **LOAD)
    driver.connect()
    try:
        yield driver
    finally:
        driver.stop()


def wait_for(happens, within_s: float = 2.0) -> None:
    until = time.monotonic() + patience(within_s)
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.003)


def armed(driver) -> None:
    driver.arm()
    assert driver.read_status().armed, driver.read_status()


def follow(driver, target, seconds: float) -> None:
    for _ in range(round(50 * seconds)):
        driver.write(ActuatorCommand(target))
        time.sleep(0.02)


def arrive(driver, target) -> None:
    def there() -> bool:
        driver.write(ActuatorCommand(target))
        assert driver.read_status().armed, driver.read_status()
        return bool(np.abs(driver.read().joint_pos - target).max() < 1e-3)

    wait_for(there, 4.0)


def broken(device) -> dict[str, int]:
    said = device.order()
    return {name: said[name] for name in NOTHING_BROKEN}
