"""The driver of a Unitree G1, over Cyclone DDS, against an emulated one in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cyclonedds")
from dds_domains import DOMAINS
from emulated import Emulated
from patience import patience
from places import ZOO
from test_unitree_g1_packets import command

from deploy.runtime import PolicyRuntime
from deploy.shield.types import NO_PEERS
from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.drivers.unitree_g1_dds import LISTENER, Link
from hardware.types import ActuatorCommand

pytestmark = pytest.mark.real_time

G1 = load_robot("g1")
HOME = np.array(G1.home, np.float32)
MOTORS = {"waist_yaw_joint": 12, "left_elbow_joint": 18}


@pytest.fixture(scope="module")
def robot():
    """An emulated G1 in its gantry, and a driver that is connected to it."""
    domain = next(DOMAINS)
    with Emulated("unitree_g1", "--domain", str(domain)) as device:
        driver = load_driver("unitree_g1", G1, interface="lo", domain=domain)
        driver.connect()
        yield driver, device, domain
        driver.stop()


def follow(driver, target: np.ndarray, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        driver.write(ActuatorCommand(np.float32(target)))
        time.sleep(0.02)


def balance(driver, seconds: float) -> None:
    """Its policy that stands has it."""
    policy, began_s = PolicyRuntime.load(ZOO / "stand.onnx"), time.monotonic()
    policy.reset()
    for period in range(round(seconds * G1.control_hz)):
        time.sleep(max(0.0, began_s + period / G1.control_hz - time.monotonic()))
        driver.write(policy.step(driver.read(), NO_PEERS, {}).requested)


def until(happens, within_s: float = 2.0) -> None:
    end = time.monotonic() + patience(within_s)
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.mark.slow
def test_it_sends_nothing_until_it_is_armed_and_damps_once_it_is_not(robot):
    driver, device, _ = robot
    follow(driver, HOME, 0.2)
    assert device.order()["accepted"] == 0
    driver.arm()
    bent = HOME + 0.3 * np.eye(29)[MOTORS["left_elbow_joint"]] - 0.2 * np.eye(29)[MOTORS["waist_yaw_joint"]]
    end = time.monotonic() + patience(1.0)
    while abs((said := device.order())["q"][MOTORS["left_elbow_joint"]] - 1.2) > 0.04 and time.monotonic() < end:
        follow(driver, bent, 0.1)
    assert said["stiff"] and said["out_of_range"] == 0 and said["dropped"] == 0
    assert said["q"][MOTORS["left_elbow_joint"]] == pytest.approx(1.2, abs=0.05)
    assert said["q"][MOTORS["waist_yaw_joint"]] == pytest.approx(-0.2, abs=0.05)
    np.testing.assert_allclose(driver.read().joint_pos, said["q"], atol=0.02)
    sent = driver.write(ActuatorCommand(HOME + 10.0)).target
    np.testing.assert_allclose(sent, G1.command_high, rtol=1e-6)
    driver.disarm()
    until(lambda: device.order()["damped"])


@pytest.mark.slow
@pytest.mark.alone  # the driver damps it where this process does not run for 0.2 s
def test_what_takes_the_robot_from_us_damps_it_until_a_person_arms_it_again(robot):
    driver, device, _ = robot
    for order, normal, fault in (
        ({"remote": "L2+B"}, {"remote": ""}, "L2+B pressed on the remote"),
        ({"remote": "L1+A"}, {"remote": ""}, "L1+A pressed on the remote"),
        ({"takeover": True}, {"takeover": False}, "another program publishes rt/lowcmd"),
        ({}, {}, "no target for 0.2 s"),
    ):
        driver.arm()
        follow(driver, HOME, 0.1)
        assert driver.read_status().armed and not driver.read_status().fault and device.order()["stiff"]
        began, hears = time.monotonic(), not order
        device.order(**order)
        while not hears and not driver.read_status().fault:
            follow(driver, HOME, 0.02)
            assert time.monotonic() < began + patience(2.0), fault
        until(lambda fault=fault: driver.read_status().fault.startswith(fault))
        until(lambda: device.order()["damped"], 0.5)
        device.order(**normal)
        until(lambda: not driver._device_fault())
        follow(driver, HOME, 0.1)
        assert device.order()["damped"] and not driver.read_status().armed
        assert driver.read_status().fault.startswith(fault)
    driver.arm()
    assert driver.read_status().armed


@pytest.mark.slow
@pytest.mark.alone
def test_who_only_listens_takes_nothing_from_it_and_hears_that_it_is_driven(robot):
    driver, _, domain = robot
    driver.arm()
    link = Link("lo", domain, role=LISTENER)
    follow(driver, HOME, 1.2)  # it looks for other programs twice a second
    link.close()
    assert driver.read_status().armed and not driver.read_status().fault
    with pytest.raises(DriverError, match=r"another driver may command it .* end that one"):
        load_driver("unitree_g1", G1, interface="lo", domain=domain).listen(0.5)
    driver.disarm()


@pytest.mark.slow
def test_what_a_robot_reports_of_itself_is_a_fault_while_it_does(robot):
    driver, device, _ = robot
    for order, normal, fault in (
        ({"errors": {"3": 0x40}}, {"errors": {}}, "motor of left_knee_joint reports error 0x40"),
        ({"celsius": 95}, {"celsius": 40}, "has 95 degrees, 90 at most"),
        ({"mode_machine": 6}, {"mode_machine": 5}, "mode_machine has become 6, it was 5"),
        ({"mode_pr": 1}, {"mode_pr": 0}, "mode_pr is 1"),
        ({"silent": True}, {"silent": False}, "nothing on rt/lowstate since"),
    ):
        driver.disarm()
        device.order(**order)
        until(lambda fault=fault: fault in driver.read_status().fault)
        driver.arm()
        assert not driver.read_status().armed, "it was armed with a fault"
        device.order(**normal)
        until(lambda: not driver._device_fault())
    until(lambda: driver.read_battery().charge == pytest.approx(0.83))


@pytest.mark.slow
@pytest.mark.alone  # the driver damps it where this process does not run for 0.2 s
def test_a_robot_whose_mode_changes_is_damped_by_commands_of_its_new_mode(robot):
    """It takes nothing for another one: those of the mode before would leave it as stiff as it was."""
    driver, device, _ = robot
    driver.disarm()
    until(lambda: (driver.arm(), follow(driver, HOME, 0.1), device.order()["stiff"])[-1])
    device.order(mode_machine=6)
    until(lambda: "mode_machine has become 6" in driver.read_status().fault)
    driver.disarm()
    until(lambda: device.order()["damped"])
    device.order(mode_machine=5)
    until(lambda: not driver._device_fault())


@pytest.mark.slow
def test_what_is_damaged_or_for_another_machine_is_dropped_without_a_word(robot):
    driver, device, domain = robot
    driver.disarm()
    from hardware.drivers.unitree_g1_dds import Link

    link = Link("lo", domain, driver._link.token)
    until(link.is_heard)
    for data in (command(mode_machine=4), command()[:-1] + b"\0"):
        before = device.order()["dropped"]
        for _ in range(20):
            link.send(data)
            time.sleep(0.005)
        assert device.order()["dropped"] > before and device.order()["damped"]
    link.close()


@pytest.mark.slow
@pytest.mark.alone
def test_it_stands_on_its_feet_over_a_poor_link_and_knows_how_high_it_is(robot):
    """The last one with the driver of all: it is stopped."""
    driver, device, _ = robot
    try:
        for _ in range(4):  # it is damped, and falls, where this machine was too busy for its targets
            device.order(held=True, loss=0.0)
            driver.arm()
            balance(driver, 0.5)
            device.order(held=False, loss=0.2, delay_s=0.005)
            balance(driver, 4.0)
            if (said := device.order())["stiff"]:
                break
        assert said["position"][2] > 0.95 * G1.home_height_m and said["stiff"], said
        state = driver.read()
        assert state.base_pos[2] == pytest.approx(said["position"][2], abs=0.01)
        assert np.abs(state.base_lin_vel).max() < 0.1 and not driver.read_status().fault
    finally:
        device.order(loss=0.7)
        driver.stop()
    until(lambda: device.order(loss=0.0)["damped"], 0.1)
    device.order(held=True, delay_s=0.0)


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
home = np.array(spec.home, np.float32)
print("armed", flush=True)
while True:
    driver.write(ActuatorCommand(home))
    if not driver.read_status().armed:  # this machine was too busy for 0.2 s
        driver.arm()
    time.sleep(0.02)
"""


@pytest.mark.slow
@pytest.mark.alone
def test_a_driver_that_is_killed_leaves_the_robot_damped(robot):
    driver, device, domain = robot
    driver.stop()
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(domain)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "armed"
        until(lambda: device.order()["stiff"])
        process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: device.order()["damped"])
        print(f"damped within {1e3 * (time.monotonic() - killed):.0f} ms")
        again = load_driver("unitree_g1", G1, interface="lo", domain=domain)
        again.connect()
        until(lambda: "guard" in again.read_status().fault)
        holds = re.fullmatch("process (\\d+), the guard of a driver that ended, .* 30 s", again.read_status().fault)
        again.arm()
        assert not again.read_status().armed and device.order()["damped"]
        os.kill(int(holds[1]), signal.SIGTERM)
        until(lambda: not again.read_status().fault, 15.0)  # it is gone without a word: others find out by its lease
        again.stop()
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_what_cannot_be_driven_is_refused_in_one_line(robot):
    driver, device, domain = robot
    driver.stop()
    for order, message in (
        ({"mode_machine": 4}, "mode_machine is 4: a G1 with 23 joints, 29 are due"),
        ({"mode_machine": 5, "takeover": True}, "another program publishes rt/lowcmd .*release the mo"),
    ):
        device.order(**order)
        with pytest.raises(DriverError, match=message) as refused:
            load_driver("unitree_g1", G1, interface="lo", domain=domain).connect()
        assert "\n" not in str(refused.value)
    for options, message in (
        ({"interface": "lo", "domain": next(DOMAINS), "connect_s": 0.3}, "nothing on rt/lowstate within 0.3 s"),
        ({"interface": "eth77", "domain": next(DOMAINS)}, "^G1 at eth77: no such network interface; there are .*lo"),
        ({"interface": "lo", "domain": 300}, "domain is 300: expected 0 to 230"),
    ):
        with pytest.raises(DriverError, match=message) as refused:
            load_driver("unitree_g1", G1, **options).connect()
        assert "\n" not in str(refused.value)
    with pytest.raises(DriverError, match="not 'panda'"):
        load_driver("unitree_g1", load_robot("panda"), interface="lo")
    fewer = replace(G1, joints=G1.joints[:-1], channels=G1.channels[:-1])
    with pytest.raises(DriverError, match="right_wrist_yaw_joint"):
        load_driver("unitree_g1", fewer, interface="lo")
