"""The driver of a Franka Research 3 against franky-sim, over the Franka Control Interface."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("franky")
from franka_sim import needs_franky_sim, simulated
from patience import patience

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.types import ActuatorCommand

pytestmark = pytest.mark.real_time
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


def follow_for(driver, device, target, device_s: float) -> None:
    """For so long by the arm's own clock, of steps of 1 ms: on a busy machine it is slow."""
    until = device.order()["steps"] + round(1e3 * device_s)
    while device.order()["steps"] < until:
        follow(driver, target, 0.02)


def wait_for(happens: Callable[[], bool]) -> None:
    give_up = time.monotonic() + patience(5.0)
    while not happens():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@needs_franky_sim
def test_an_arm_goes_where_it_is_sent_and_says_where_it_is(arm):
    driver, device = arm
    driver.arm()
    target = HOME + np.array([0.2, 0.1, -0.2, 0.15, -0.1, 0.2, 0.3, -0.02])
    follow_for(driver, device, target, 4.0)
    said = device.order()
    np.testing.assert_allclose(said["q"], target[:7], atol=0.01)
    assert said["width"] == pytest.approx(0.04, abs=0.002)
    np.testing.assert_allclose(driver.read().joint_pos, target, atol=0.01)
    assert driver.read().age < 0.1 and not driver.read_status().fault
    assert driver.read_firmware().startswith("hand: server version ")
    assert said["violations"] == 0 and 0.1 < said["fastest"] < 2.62


@needs_franky_sim
def test_an_arm_that_is_sent_to_and_fro_is_never_as_fast_as_a_reflex(arm):
    """Its joints reach the speed that they are allowed, and the arm overshoots its reference."""
    driver, device = arm
    driver.arm()
    swing = np.array([0.35, 0.2, -0.28, 0.2, -0.28, 0.28, 0.4, 0.0])
    for side in (-1.0, 1.0, -1.0, 1.0):
        follow_for(driver, device, HOME + side * swing, 0.8)
    said = device.order()
    print("fastest joint, rad/s:", said["fastest"], "steepest torque, N m/s:", said["steepest"])
    assert said["fastest"] > 2.0 and said["violations"] == said["reflexes"] == 0, said


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
    wait_for(lambda: "the user stop is pressed" in driver.read_status().fault)
    assert not driver.read_status().armed
    device.order(user_stop=False)
    before = device.order()["q"]
    follow(driver, HOME + 0.3, 0.5)
    np.testing.assert_allclose(device.order()["q"], before, atol=5e-3)
    assert driver.read_status().fault
    driver.disarm()
    assert not driver.read_status().fault, "its shield has heard of it, and a person may arm it"
    driver.arm()
    assert driver.read_status().armed and not driver.read_status().fault


MOVES = """
import sys
import numpy as np
from test_franka_driver import FR3, HOME, follow
from hardware.drivers import load_driver
driver = load_driver("franka", FR3, host=sys.argv[1], realtime=False)
driver.connect()
driver.arm()
print("moves", flush=True)
follow(driver, HOME + 1.0 * np.eye(8)[0], 60.0)
"""


@needs_franky_sim
def test_an_arm_stops_when_its_driver_dies():
    """Nothing holds it there but its own controller."""
    with simulated() as device:
        path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
        command, environment = [sys.executable, "-c", MOVES, device.address], os.environ | {"PYTHONPATH": path}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout.readline().strip() == "moves"
        until = time.monotonic() + patience(10.0)
        while (said := device.order())["dq"][0] < 0.3:
            assert time.monotonic() < until, said
        process.kill()
        process.wait()
        begun = device.order()["steps"]
        while np.abs((said := device.order())["dq"]).max() > 0.005:
            assert time.monotonic() < until, said
        stopped_ms, there = said["steps"] - begun, said["q"]
        time.sleep(0.3)
        np.testing.assert_allclose(device.order()["q"], there, atol=0.005)
    print(f"at rest {stopped_ms} ms after the driver was killed, by the arm's clock")
    assert stopped_ms < 500 and there[0] < HOME[0] + 0.9


@needs_franky_sim
def test_an_arm_that_is_switched_off_is_a_fault(arm):
    driver, device = arm
    driver.arm()
    device.kill()
    wait_for(lambda: driver.read_status().fault and driver.read().age > 0.5)


def test_what_cannot_be_is_refused_in_one_line():
    with pytest.raises(DriverError, match="of the type fr3, not 'panda'"):
        load_driver("franka", load_robot("panda"), host="127.0.0.1")
    with pytest.raises(DriverError, match=r"^Franka at 127.0.0.254: .*") as refused:
        load_driver("franka", FR3, host="127.0.0.254", realtime=False).connect()
    assert "\n" not in str(refused.value)
