"""The driver of a Franka Research 3 against franky-sim, over the Franka Control Interface."""

import time

import numpy as np
import pytest

pytest.importorskip("franky")
from franka_sim import needs_franky_sim, simulated

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.types import ActuatorCommand

FR3 = load_robot("fr3")
HOME = np.array(FR3.home)


@pytest.fixture
def arm():
    with simulated() as device:
        driver = load_driver("franka", FR3, host=device.address, realtime=False)
        driver.connect()
        yield driver, device
        driver.stop()


def follow(driver, target, seconds: float) -> None:
    for _ in range(round(50 * seconds)):
        driver.write(ActuatorCommand(target))
        time.sleep(0.02)


@needs_franky_sim
def test_an_arm_goes_where_it_is_sent_and_says_where_it_is(arm):
    driver, device = arm
    driver.arm()
    target = HOME + np.array([0.2, 0.1, -0.2, 0.15, -0.1, 0.2, 0.3, -0.02])
    follow(driver, target, 4.0)
    said = device.order()
    np.testing.assert_allclose(said["q"], target[:7], atol=0.01)
    assert said["width"] == pytest.approx(0.04, abs=0.002)
    np.testing.assert_allclose(driver.read().joint_pos, target, atol=0.01)
    assert driver.read().age < 0.1 and not driver.read_status().fault
    assert said["violations"] == 0 and 0.1 < said["fastest"] < 2.62


@needs_franky_sim
def test_an_arm_that_is_not_armed_or_hears_nothing_stays_where_it_is(arm):
    driver, device = arm
    follow(driver, HOME + 0.3, 0.3)
    np.testing.assert_allclose(device.order()["q"], HOME[:7], atol=1e-3)
    driver.arm()
    follow(driver, HOME + np.eye(8)[0], 0.2)
    time.sleep(1.0)  # the target is not reached, and is not repeated
    one = device.order()
    time.sleep(0.3)
    assert 0.01 < one["q"][0] < 0.8 and np.abs(device.order()["q"][0] - one["q"][0]) < 0.005


@needs_franky_sim
def test_a_user_stop_is_a_fault_until_a_person_arms_it_again(arm):
    driver, device = arm
    driver.arm()
    assert driver.read_status().armed
    device.order(user_stop=True)
    time.sleep(0.5)
    assert not driver.read_status().armed and "the user stop is pressed" in driver.read_status().fault
    device.order(user_stop=False)
    before = device.order()["q"]
    follow(driver, HOME + 0.3, 0.5)
    np.testing.assert_allclose(device.order()["q"], before, atol=5e-3)
    assert driver.read_status().fault
    driver.disarm()
    assert not driver.read_status().fault, "its shield has heard of it, and a person may arm it"
    driver.arm()
    assert driver.read_status().armed and not driver.read_status().fault


@needs_franky_sim
def test_an_arm_that_is_switched_off_is_a_fault(arm):
    driver, device = arm
    driver.arm()
    device.kill()
    time.sleep(2.0)
    assert driver.read_status().fault and driver.read().age > 0.5


def test_what_cannot_be_is_refused_in_one_line():
    with pytest.raises(DriverError, match="of the type fr3, not 'panda'"):
        load_driver("franka", load_robot("panda"), host="127.0.0.1")
    with pytest.raises(DriverError, match=r"^Franka at 127.0.0.254: .*") as refused:
        load_driver("franka", FR3, host="127.0.0.254", realtime=False).connect()
    assert "\n" not in str(refused.value)
