"""MAVSDK, which knows nothing of ours, on either side: a client of the emulated X500, and the vehicle that we fly."""

import json
import subprocess
import sys

import numpy as np
import pytest
from places import TESTS

pytest.importorskip("pymavlink")
pytest.importorskip("mavsdk")
from drones import SPECS, arm, connected, fly, wait_until
from emulated import Emulated
from patience import patience

pytestmark = pytest.mark.real_time

CLIENT = TESTS.joinpath("mavsdk_client.py")
CLIMB = 0.78  # thrust, a little more than it hovers at


@pytest.mark.slow
def test_mavsdk_arms_flies_and_lands_it_and_reads_its_telemetry():
    with Emulated("px4") as device:
        device.order(heartbeat_hz=10.0, parameters={"COM_DISARM_LAND": 0.5})  # one waits less
        command = [sys.executable, str(CLIENT), str(device.port), str(CLIMB)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience(90.0))
        said = device.order()
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout.splitlines()[-1])
    assert not saw["before"] and saw["armed"] and not saw["after"]
    assert saw["charge"] == pytest.approx(90.0) and saw["volts"] == pytest.approx(16.52, abs=0.01)
    assert saw["down_m"] == pytest.approx(-0.2289, abs=0.002)
    assert saw["mode"] == "OFFBOARD" and saw["at_last"] == "LAND"
    w, x, y, z = saw["quat"]  # it began heading east, 90 degrees, and turned right
    assert w * w < z * z and w * z > 0.0 and abs(x) + abs(y) < 0.05
    assert said["masks"] == [128], "MAVSDK flies by the same set-points as our driver"
    assert said["position"][2] < 0.24 and not said["armed"]


@pytest.mark.slow
def test_our_driver_arms_flies_and_lands_a_vehicle_whose_mavlink_is_mavsdks():
    goal = np.array([0.3, -0.2, 0.8])
    with Emulated("px4_mavsdk") as device:
        driver = connected("px4", device.port)
        wait_until(lambda: driver.read_battery().charge >= 0.0, driver.read_battery)  # it says so once a second
        assert driver.read_battery().charge == pytest.approx(0.9, abs=0.011)  # MAVSDK cuts it to a whole percent
        assert driver.read_battery().voltage_v == pytest.approx(16.52, abs=0.01)
        arm(driver)
        assert device.order()["mode"] == "OFFBOARD"
        fly(driver, SPECS["px4"], goal, patience(5.0), lambda: np.abs(device.order()["position"] - goal).max() < 0.04)
        np.testing.assert_allclose(device.order()["position"], goal, atol=0.05)
        np.testing.assert_allclose(driver.read().base_pos, goal, atol=0.1)
        fly(driver, SPECS["px4"], goal, 0.7, yaw_rate=0.8)
        w, _, _, z = driver.read().base_quat
        assert 0.2 < 2.0 * np.arctan2(z, w) < 0.8, "it turns to its left"
        driver.stop()
        said = device.order()
    assert said["masks"] == [128] and said["mode"] == "AUTO.LAND"
    assert said["landed"] and not said["armed"] and said["position"][2] < 0.24
