"""`phalanx calibrate`: the thrust of an emulated Crazyflie, which hides it, from its hover."""

import re
import subprocess
import sys

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
pytest.importorskip("cflib")
from emulated import Emulated
from test_ros_crazyflie import HOVER, rig

pytestmark = pytest.mark.ros
GAIN, HOVERS = 0.9, (0.0, 0.0, 1.0)  # m


def test_the_thrust_of_an_airframe_is_found_in_its_hover_and_written(tmp_path):
    with Emulated("crazyflie") as device, rig(tmp_path, device.port) as team:
        device.order(thrust_gain=GAIN)
        file = tmp_path / "team.yaml"
        uri = f'uri: "udp://127.0.0.1:{device.port}"'
        file.write_text(f"robots:\n  - {{name: cf1, bundle: {HOVER}, driver: crazyflie, options: {{{uri}}}}}\n")
        domain = str(team.node.context.get_domain_id())

        def calibrate(*options: str) -> tuple[int, str]:
            command = [sys.executable, "-m", "phalanx", "calibrate", str(file), "cf1", "--domain", domain, *options]
            done = subprocess.run(command, capture_output=True, text=True, timeout=patience(40.0))
            return done.returncode, done.stdout + done.stderr

        team.start("cf1/driver", "cf1/policy", "cf1/shield", armed=False)
        code, said = calibrate("--seconds", "2")
        assert code == 2 and "cf1: nothing is heard of it: is it deployed, and flown" in said
        team.ask("cf1", "arm")
        team.ask("cf1", "start")
        for _ in range(3):  # it may be landed meanwhile
            team.node.send("cf1", {"goal_pos": np.array(HOVERS)})
            team.arrive("cf1", lambda: np.abs(np.subtract(device.order()["position"], HOVERS)).max() < 0.05)
            code, said = calibrate("--write")
            if code == 0:
                break
        assert code == 0, said
    assert "4.08 V" in said
    scale = float(re.search(r"thrust_scale: ?([\d.]+)", file.read_text().replace('"', ""))[1])
    assert scale == pytest.approx(1.0 / GAIN, rel=0.02), said
