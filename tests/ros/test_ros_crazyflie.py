"""A Crazyflie in ROS 2, from its policy file to its rotors: policy, shield and driver over DDS, cflib over UDP."""

import json
from pathlib import Path

import numpy as np
import pytest
from places import ZOO

pytest.importorskip("rclpy")
pytest.importorskip("cflib")
from emulated import Emulated
from ros_rig import Rig

from ros_nodes.lifecycle.bring_up import CONFIGURE, BringUpError

pytestmark = pytest.mark.ros
HOVER = ZOO / "hover.onnx"
GOAL = (0.3, -0.2, 1.2)


def rig(folder: Path, port: int) -> Rig:
    parameters = {"/**/driver": {"driver": "crazyflie", "options": json.dumps({"uri": f"udp://127.0.0.1:{port}"})}}
    return Rig(folder, starts=[[0.0, 0.0, 0.02, 0.0]], bundle=HOVER, parameters=parameters)


def flown(team: Rig, device: Emulated) -> None:
    """Armed by a person, and at its goal by its policy."""
    team.node.send("cf1", {"goal_pos": np.array(GOAL)})
    team.start("cf1/driver", "cf1/policy", "cf1/shield")
    team.arrive("cf1", lambda: np.abs(np.subtract(device.order()["position"], GOAL)).max() < 0.1)


def test_a_crazyflie_flies_its_policy_behind_the_shield_and_lands(tmp_path):
    with Emulated("crazyflie") as device, rig(tmp_path, device.port) as team:
        flown(team, device)
        team.ask("cf1", "land")
        team.watch_until("cf1", lambda: team.authority("cf1") == "DISARMED", 12.0)
        team.watch_until("cf1", lambda: not device.order()["info"] & 0b10, 3.0)
        team.ask("cf1", "estop")
        for _ in range(10):
            team.watch("cf1", 0.1)
            assert not device.order()["info"] & 0b10, "a stop armed it"
        said = device.order()
    assert said["position"][2] < 0.03
    assert said["longest_gap_s"] < 0.5, "the firmware's watchdog would have levelled it"


def test_a_device_that_disarms_itself_in_flight_is_a_fault_until_a_person_acts(tmp_path):
    with Emulated("crazyflie") as device, rig(tmp_path, device.port) as team:
        flown(team, device)
        device.order(is_armed=False)
        team.watch_until("cf1", lambda: team.authority("cf1") == "FAULT", 12.0)
        team.node.update()
        assert "device: disarmed by itself" in team.node.shields[0].reason
        assert "FAULT" in team.asked("cf1", "arm")
        device.order(is_crashed=True)
        team.watch("cf1", 0.5)
        assert team.asked("cf1", "reset").startswith("reset: device: crashed") and team.authority("cf1") == "FAULT"
        device.order(is_crashed=False)
        team.ask("cf1", "reset")
        device.order(is_crashed=True)
        team.watch("cf1", 0.5)
        assert "device: crashed" in team.asked("cf1", "arm")


def test_a_driver_that_nothing_reaches_lands_its_crazyflie(tmp_path):
    """Its shield is killed: the driver hands it to the firmware, which lands it."""
    with Emulated("crazyflie") as device, rig(tmp_path, device.port) as team:
        flown(team, device)
        began = device.order()["position"]
        team.processes.kill("cf1_shield")
        team.watch_until("cf1", lambda: not device.order()["info"] & 0b10, 10.0)
        said = device.order()
    drift_m = np.linalg.norm(np.subtract(said["position"], began)[:2])
    print(f"landed {drift_m:.2f} m beside where its shield was killed")
    assert drift_m < 1.0
    (log,) = tmp_path.rglob("cf1_driver*.log")
    assert "no command for 0.5 s: the robot was stopped" in log.read_text()
    assert "Traceback" not in log.read_text() and 'File "' not in log.read_text()
    assert said["position"][2] < 0.03 and said["longest_gap_s"] < 0.5


def test_a_crazyflie_that_is_switched_off_is_refused_in_one_line(tmp_path):
    with Emulated("crazyflie") as device:
        port = device.port
    with rig(tmp_path, port) as team:
        team.processes.start("cf1_driver", "driver_node", namespace="cf1")
        with pytest.raises(BringUpError, match="/cf1/driver refused to configure"):
            team.transition(CONFIGURE, "cf1/driver")
        assert f"Crazyflie at udp://127.0.0.1:{port}: link lost" in team.processes.last_line("cf1_driver")
