"""The links of a UR5e that are slow, lossy, silent or garbled, and a driver that dies; with an emulated one."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import ur_arm
from ur_arm import AWAY, HOME, NOTHING_BROKEN, armed, arrive, broken, follow, wait_for

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
