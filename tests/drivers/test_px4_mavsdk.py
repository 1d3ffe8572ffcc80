"""The emulated X500 under another client: MAVSDK, which knows nothing of ours, finds a PX4 as it expects one."""

import json
import subprocess
import sys

import pytest
from places import TESTS

pytest.importorskip("pymavlink")
pytest.importorskip("mavsdk")
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
