"""A Franka Research 3 in ROS 2: policy, shield and driver over DDS, franky over UDP to franky-sim."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("franky")
from franka_sim import needs_franky_sim, simulated
from ros_rig import Rig, drawn_poses, standing

from hardware import load_robot
from hardware.kinematics import load_chain
from sim.tasks.reach_fr3 import REACH_FR3

pytestmark = [pytest.mark.ros, needs_franky_sim]
FR3 = load_robot("fr3")
BUNDLE = Path(__file__).parents[1] / "zoo" / "reach-fr3.onnx"
ARM = "fr3_1"
EPISODE_STEPS = 3000  # of 1 ms, on the arm's clock: the simulation is slower than time where the processor is busy
POSES = int(os.environ.get("FRANKA_POSES", "4"))


def rig(folder: Path, host: str) -> Rig:
    options = json.dumps({"host": host, "realtime": False})
    parameters = {"/**/driver": {"driver": "franka", "options": options}}
    mission = standing([[0.0, 0.0, 0.0, 0.0]], FR3)
    return Rig(folder, bundle=BUNDLE, parameters=parameters, mission=mission, commands=["goal_pos", "goal_quat"])


def off(device, pos: np.ndarray) -> float:
    """How far the tool is from `pos`, m, as the device's side has it."""
    joints = np.array([*device.order()["q"], 0.04])
    return float(np.linalg.norm(load_chain(FR3, "tool").forward(joints)[0] - pos))


def test_an_fr3_reaches_its_poses_behind_the_shield(tmp_path):
    with simulated() as device, rig(tmp_path, device.address) as team:
        goals = drawn_poses(REACH_FR3, POSES)
        team.node.send(ARM, goals[0])
        team.start(f"{ARM}/driver", f"{ARM}/policy", f"{ARM}/shield")
        team.watch_until(ARM, lambda: team.authority(ARM) == "POLICY", 15.0)
        missed_m = []
        for goal in goals:
            team.node.send(ARM, goal)
            until = device.order()["steps"] + EPISODE_STEPS
            team.watch_until(ARM, lambda until=until: device.order()["steps"] >= until, 30.0)
            missed_m.append(off(device, goal["goal_pos"]))
            assert team.authority(ARM) == "POLICY", team.node.shields
        print("missed by, mm:", *(f"{1e3 * each:.1f}" for each in sorted(missed_m)))
        assert np.mean(np.array(missed_m) < 0.01) >= 0.95, missed_m
        said = device.order()
        device.order(user_stop=True)
        team.watch_until(ARM, lambda: team.authority(ARM) == "FAULT", 5.0)
        team.node.update()
        assert "the user stop is pressed" in team.node.shields[0].reason
    print("steps beyond the arm's limits:", said["violations"], "fastest, rad/s:", said["fastest"])
    assert said["violations"] == 0 and said["fastest"] > 0.2
