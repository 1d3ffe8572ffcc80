"""A Franka Research 3 in ROS 2: policy, shield and driver over DDS, franky over UDP to franky-sim."""

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("franky")
import franka_sim
from franka_sim import needs_franky_sim, simulated

from benchmarks.franka import ARM, bench_franka, reached, rig

pytestmark = pytest.mark.ros
POSES = 4


@needs_franky_sim
def test_an_fr3_reaches_its_poses_behind_the_shield(tmp_path):
    with simulated() as device, rig(tmp_path, device) as team:
        missed_m = []
        for missed in reached(team, device, POSES):
            missed_m.append(missed)
            assert team.authority(ARM) == "POLICY", team.node.shields
        assert np.mean(np.array(missed_m) < 0.01) >= 0.95, missed_m
        said = device.order()
        device.order(user_stop=True)
        team.watch_until(ARM, lambda: team.authority(ARM) == "FAULT", 5.0)
        team.node.update()
        assert "the user stop is pressed" in team.node.shields[0].reason
    assert said["violations"] == said["reflexes"] == 0 and said["fastest"] > 0.2


def test_without_franky_sim_the_measurement_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(franka_sim, "PYTHON", tmp_path / "python")
    assert "make franky-sim" in bench_franka(2, on_progress=print)["skipped"]
