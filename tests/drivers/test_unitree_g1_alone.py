"""A Unitree G1's driver beside another robot, another driver or the motion service; after it stood still; bad states.

Against emulated ones in processes of their own, over Cyclone DDS.
"""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("cyclonedds")
from dds_domains import DOMAINS
from emulated import Emulated
from patience import patience
from repeated import repeated
from test_unitree_g1_driver import G1, HOME, follow, until

from hardware.drivers import DriverError, load_driver
from hardware.types import ActuatorCommand

pytestmark = [pytest.mark.real_time, pytest.mark.slow, pytest.mark.alone]


@pytest.fixture
def domain():
    return next(DOMAINS)


@pytest.fixture
def robot(domain):
    with Emulated("unitree_g1", "--domain", str(domain)) as device:
        yield device


@pytest.fixture
def driver(robot, domain):
    driver = made(domain)
    driver.connect()
    yield driver
    driver.stop()


def made(domain: int):
    return load_driver("unitree_g1", G1, interface="lo", domain=domain)


def hold(driver, device) -> None:
    """Armed and stiff; again where this machine was too busy for its targets."""
    until(lambda: (driver.arm(), follow(driver, HOME, 0.2), device.order()["stiff"])[-1])


def following(driver):
    """Targets go on in a thread, whatever else is waited for."""
    return repeated(lambda: driver.write(ActuatorCommand(HOME)), 0.01)


def test_a_second_robot_in_the_network_is_refused_before_anything_is_sent(robot, domain):
    with Emulated("unitree_g1", "--domain", str(domain)) as second:
        second.order(mode_machine=5)
        with pytest.raises(DriverError, match=r"another robot publishes rt/lowstate .*part them") as refused:
            made(domain).connect()
        assert "\n" not in str(refused.value)
        with pytest.raises(DriverError, match="another robot publishes rt/lowstate"):
            made(domain).listen(0.5)
        assert robot.order()["accepted"] == second.order()["accepted"] == 0


def test_a_second_robot_that_comes_into_the_network_has_both_damped_and_never_mixes_into_the_state(
    driver, robot, domain
):
    hold(driver, robot)
    with following(driver), Emulated("unitree_g1", "--domain", str(domain)) as second:
        second.order(zeros={"18": 1.5})  # its elbow says something else
        until(lambda: "another robot publishes rt/lowstate" in driver.read_status().fault)
        until(lambda: robot.order()["damped"] and second.order()["damped"])
        elbow = G1.joint_names.index("left_elbow_joint")
        for _ in range(100):
            assert driver.read().joint_pos[elbow] < HOME[elbow] + 0.5
            time.sleep(0.005)
        driver.arm()
        assert not driver.read_status().armed
    until(lambda: not driver._device_fault())
    assert not driver.read_status().armed
    hold(driver, robot)


def test_a_second_driver_is_refused_and_the_first_goes_on(driver, robot, domain):
    hold(driver, robot)
    process = subprocess.Popen([sys.executable, "-c", CONNECTS, str(domain)], stdout=subprocess.PIPE, text=True)
    while process.poll() is None:
        follow(driver, HOME, 0.02)
    said = process.stdout.read()
    assert "another driver may command it" in said and "one driver for one robot" in said, said
    assert driver.read_status().armed and not driver.read_status().fault and robot.order()["stiff"]


def test_two_drivers_that_found_each_other_too_late_damp_the_robot(driver, robot, domain):
    """As from two computers whose network let neither hear of the other at first."""
    second = made(domain)
    second._join = _without_a_look(second)
    second.connect()
    try:
        for each in driver, second:
            each._others._drivers = []
            each.arm()
        end = time.monotonic() + patience(2.0)
        while any(each.read_status().armed for each in (driver, second)) and time.monotonic() < end:
            follow(driver, HOME, 0.01)
            follow(second, HOME, 0.01)
        assert "another driver" in driver.read_status().fault and "another driver" in second.read_status().fault
        until(lambda: robot.order()["damped"])
    finally:
        second.stop()


def _without_a_look(driver):
    join, driver._check_alone = driver._join, lambda: None
    return join


def test_a_motion_service_that_sends_nothing_may_be_there_and_one_that_sends_may_not(robot, domain):
    robot.order(service=True)
    driver = made(domain)
    driver.connect()
    try:
        hold(driver, robot)
        follow(driver, HOME, 1.0)
        assert driver.read_status().armed and not driver.read_status().fault
        began = time.monotonic()
        robot.order(takeover=True)
        while not driver.read_status().fault:
            follow(driver, HOME, 0.002)
            assert time.monotonic() < began + patience(1.0)
        until(lambda: robot.order()["damped"])
        print(f"damped within {1e3 * (time.monotonic() - began):.0f} ms of the service's first command")
        assert "another program publishes rt/lowcmd (process" in driver.read_status().fault
    finally:
        driver.stop()
    with pytest.raises(DriverError, match=r"another program publishes rt/lowcmd .*release the motion service"):
        made(domain).connect()


CONNECTS = """
import sys
from hardware import load_robot
from hardware.drivers import DriverError, load_driver
try:
    load_driver("unitree_g1", load_robot("g1"), interface="lo", domain=int(sys.argv[1])).connect()
except DriverError as error:
    print(error)
"""
HOLDS = """
import sys, time
import numpy as np
from hardware import load_robot
from hardware.drivers import load_driver
from hardware.types import ActuatorCommand
spec = load_robot("g1")
driver = load_driver("unitree_g1", spec, interface="lo", domain=int(sys.argv[1]))
driver.connect()
driver.arm()
home, said = np.array(spec.home, np.float32), ""
print("armed", flush=True)
while True:
    driver.write(ActuatorCommand(home))
    if (fault := driver.read_status().fault) != said:
        print(said := fault, flush=True)
    time.sleep(0.001)
"""


def test_a_driver_that_stood_still_damps_the_robot_until_a_person_arms_it(robot, domain):
    """Its targets come again at once: that heals nothing. Meanwhile its guard damps the robot."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(domain)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "armed"
        until(lambda: robot.order()["stiff"])
        process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: robot.order()["damped"])
        print(f"damped {time.monotonic() - stopped:.2f} s after the driver was stopped")
        time.sleep(max(0.0, stopped + 1.5 - time.monotonic()))
        process.send_signal(signal.SIGCONT)
        said = [process.stdout.readline()]
        while "did not run its driver" not in said[-1] and process.poll() is None and len(said) < 5:
            said.append(process.stdout.readline())
        assert "this computer did not run its driver for 1." in said[-1], said
        for _ in range(50):
            assert robot.order()["damped"]
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()


def test_damaged_repeated_and_overtaken_states_are_no_news_and_a_restart_takes_the_robot_from_us(driver, robot):
    hold(driver, robot)
    robot.order(swaps=True)  # each second state overtakes the one before
    ticks = []
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        driver.write(ActuatorCommand(HOME))
        ticks.append(int(driver._states.newest["tick"]))
        time.sleep(0.002)
    assert (np.diff(ticks) >= 0).all() and driver.read_status().armed and not driver.read_status().fault
    robot.order(swaps=False)
    for order, fault in (
        ("corrupt", "all that comes on rt/lowstate has a wrong checksum, or is not finite since"),
        ("repeats", "all that comes on rt/lowstate says the same again and again since"),
    ):
        driver.disarm()
        robot.order(**{order: True})
        until(lambda fault=fault: fault in driver.read_status().fault)
        assert driver.read().age > 0.05
        first = driver.read_status().fault
        time.sleep(0.3)
        assert driver.read_status().fault == first, "it changes all the time: a line of the log each time"
        robot.order(**{order: False})
        until(lambda: not driver.read_status().fault)
    driver.disarm()
    robot.order(tick=1_000_000)
    until(lambda: int(driver._states.newest["tick"]) > 1_000_000)
    hold(driver, robot)
    robot.order(tick=0)
    while not driver.read_status().fault:
        follow(driver, HOME, 0.02)
    assert "the robot has started again" in driver.read_status().fault
    until(lambda: robot.order()["damped"])
    driver.disarm()
    hold(driver, robot)
