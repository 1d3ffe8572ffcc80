"""The links of a UR5e that are slow, lossy, silent or garbled, and a driver that dies; with an emulated one."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import pytest
import ur_arm
from patience import patience
from repeated import repeated
from ur_arm import AWAY, HOME, NOTHING_BROKEN, UR5E, armed, arrive, broken, follow, wait_for

from hardware.drivers import DriverError, load_driver

pytestmark = pytest.mark.real_time
device, arm = ur_arm.device, ur_arm.arm  # fixtures


DRIVES = """
import sys, time, numpy as np
from hardware import load_robot
from hardware.drivers import load_driver
from hardware.types import ActuatorCommand
driver = load_driver("ur", load_robot("ur5e"), host=sys.argv[1])
driver.connect(); driver.arm(); print("armed", flush=True)
while True:
    driver.write(ActuatorCommand(np.array([float(sys.argv[2]), -1.57, 1.57, -1.57, -1.57, 0.0]))); time.sleep(0.02)
"""


@pytest.mark.parametrize(("end", "towards"), [(signal.SIGKILL, "2.0"), (signal.SIGSTOP, "-2.0")])
def test_an_arm_whose_driver_dies_is_stopped_by_its_own_watchdog(device, end, towards):
    device.order(bitten_s=0.0, rest_s=0.0)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVES, device.address, towards], stdout=subprocess.PIPE, text=True
    )
    try:
        assert driver.stdout is not None and driver.stdout.readline() == "armed\n"
        wait_for(lambda: device.order()["moving"] > 0.5)
        os.kill(driver.pid, end)
        wait_for(lambda: not device.order()["running"])
        wait_for(lambda: device.order()["rest_s"])
        said = device.order()
    finally:
        driver.kill()
        driver.wait()
    print(f"{end.name}: program stopped {said['bitten_s']:.3f} s, at rest {said['rest_s']:.3f} s after the last input")
    assert 0.2 < said["bitten_s"] < 0.205 and said["rest_s"] < 0.3 and said["moving"] < 0.05 and abs(said["q"][0]) < 1.9


def test_a_slow_and_lossy_link_moves_the_arm_within_its_limits(arm, device):
    arm.disarm()
    device.order(loss=0.2, delay_s=0.03)
    wait_for(lambda: arm.read().age > 0.02, 1.0)
    armed(arm)
    arrive(arm, HOME + AWAY)
    device.order(loss=0.0, delay_s=0.0)
    assert broken(device) == NOTHING_BROKEN and arm.read_status().armed


def test_after_a_gap_the_arm_begins_again_from_rest(arm, device):
    for away in (1.5, -1.5, 1.5):  # this machine may be too busy for a gap shorter than the watchdog's time
        armed(arm)
        follow(arm, HOME + away * np.eye(6)[0], 0.2)
        before = device.order(frozen=True)["restarts"]
        time.sleep(0.05)
        device.order(frozen=False)
        follow(arm, HOME + away * np.eye(6)[0], 0.1)
        if arm.read_status().armed:
            break
        arm.disarm()
    assert device.order()["restarts"] > before and broken(device) == NOTHING_BROKEN


def test_a_controller_that_falls_silent_and_comes_back_is_not_moved_by_itself(arm, device):
    armed(arm)
    device.order(frozen=True)
    wait_for(lambda: "link lost" in arm.read_status().fault)
    assert not arm.read_status().armed and arm.read().age > 0.2
    wait_for(lambda: not device.order()["running"])
    device.order(frozen=False)
    wait_for(lambda: arm.read().age < 0.05, 4.0)
    assert "link lost" in arm.read_status().fault, "until its shield has heard of it"
    before = device.order()["programs"]
    follow(arm, HOME + 0.3, 0.1)
    assert device.order()["programs"] == before and not device.order()["running"]
    arm.disarm()
    armed(arm)


@pytest.mark.parametrize("spoils", ["short", "nan", "text"])
def test_a_controller_that_sends_no_states_that_can_be_read_has_lost_its_link_until_it_sends_some(arm, device, spoils):
    armed(arm)
    device.order(spoils=spoils)
    wait_for(lambda: "link lost" in arm.read_status().fault)
    assert not arm.read_status().armed
    wait_for(lambda: arm.read().age > 0.2)
    device.order(spoils="")
    wait_for(lambda: arm.read().age < 0.05, 4.0)
    arm.disarm()
    armed(arm)


def test_an_arm_is_not_armed_while_a_joint_is_measured_where_it_cannot_be_or_nothing_new_is_known(arm, device):
    programs = device.order()["programs"]
    device.order(off_rad=3.0)
    wait_for(lambda: arm.read().joint_pos.max() > 4.0)
    arm.arm()
    assert not arm.read_status().armed
    said = arm.read_status().fault
    assert re.fullmatch(r"elbow_joint is measured at [45]\.\d+ rad, outside -3\.142 \.\. 3\.142", said), said
    device.order(off_rad=0.0)
    wait_for(lambda: arm.read().joint_pos.max() < 2.0)
    arm.arm()
    assert arm.read_status().fault.startswith("elbow_joint was measured to jump by 3.00 rad"), arm.read_status()
    device.order(frozen=True)
    try:
        wait_for(lambda: arm.read().age > 0.12)
        arm.arm()
        assert not arm.read_status().armed and arm.read_status().fault
    finally:
        device.order(frozen=False)
    assert device.order()["programs"] == programs, "no program was sent"
    wait_for(lambda: arm.read().age < 0.05, 4.0)
    time.sleep(0.3)  # it has jumped
    armed(arm)


TALK = {  # what a peer says again and again, at a port of the arm, and what is said of it
    "dashboard": (
        [(29999, b"")],
        r"port 29999 of 127\.\d+\.\d+\.\d+ did not answer 'is it the dashboard server' within 3 s",
    ),
    "dashboard dribbles": ([(29999, b".")], r"port 29999 of .* did not answer 'is it the dashboard server' within 3 s"),
    "dashboard floods": ([(29999, b"\0" * 4096)], r"port 29999 of .* is no dashboard server"),
    "states": (
        [(29999, b"UR5\n"), (30004, b"\0\5M\0\0")],
        r"port 30004 of .* did not answer 'does it speak version 2 of RTDE' within 3 s",
    ),
    "silence": (
        [(29999, b"UR5\n"), (30004, b"")],
        r"port 30004 of .* did not answer 'does it speak version 2 of RTDE' within 3 s",
    ),
}


def test_peers_that_talk_and_do_not_answer_are_given_up_in_one_line():
    """All at once: each takes three seconds."""
    addresses = {name: f"127.77.{os.getpid() % 250}.{last}" for last, name in enumerate(TALK, random.randint(1, 240))}

    def given_up(address: str) -> tuple[str, float]:
        began_s = time.monotonic()
        with pytest.raises(DriverError) as raised:
            load_driver("ur", UR5E, host=address).connect()
        return str(raised.value), time.monotonic() - began_s

    with ExitStack() as stack:
        for name, (talk, _) in TALK.items():
            for port, text in talk:
                stack.enter_context(talking(addresses[name], port, text))
        pool = stack.enter_context(ThreadPoolExecutor(len(TALK)))
        for name, (said, took_s) in zip(TALK, pool.map(given_up, addresses.values()), strict=True):
            assert re.match(f"UR5e at {addresses[name]}: {TALK[name][1]}", said) and "\n" not in said, (name, said)
            assert took_s < patience(4.0), name


@contextmanager
def talking(address, port, text):
    """A server that says `text` ten times a second to who connects, and listens to nothing."""
    links = []
    with socket.create_server((address, port)) as listening:
        listening.settimeout(0.1)

        def say() -> None:
            with suppress(OSError):
                links.append(listening.accept()[0])
            for link in links:
                with suppress(OSError):
                    link.sendall(text)

        with repeated(say, 0.1):
            yield
