"""A Unitree G1 in ROS 2, from its policy file to its motors: the nodes speak Fast DDS, its driver Cyclone DDS."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from patience import patience
from places import ZOO

pytest.importorskip("rclpy")
pytest.importorskip("cyclonedds")
from emulated import Emulated
from ros_rig import Rig, standing

from hardware import load_robot
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages.local_orders import ask_here

pytestmark = [pytest.mark.ros, pytest.mark.alone]
G1 = load_robot("g1")
STAND, WALK = (ZOO / f"{name}.onnx" for name in ("stand", "velocity"))


def rig(folder: Path, domain: int, bundle: Path = STAND) -> Rig:
    options = json.dumps({"interface": "lo", "domain": domain})
    parameters = {"/**/driver": {"driver": "unitree_g1", "options": options, "bundle": str(bundle)}}
    mission = standing([[0.0, 0.0, G1.home_height_m, 0.0]], G1)
    return Rig(folder, bundle=bundle, parameters=parameters, mission=mission, commands=["velocity"])


def stands(team: Rig, device: Emulated, seconds: float, act=lambda t: None) -> None:
    """By its policy, let go by the gantry; again where this machine was too busy and it was damped."""
    for _ in range(4):
        team.watch_until("g1_1", lambda: team.authority("g1_1") in ("POLICY", "FAULT"), 20.0, act)
        if team.authority("g1_1") == "POLICY":
            device.order(held=False)
            team.watch("g1_1", seconds, act)
            if team.authority("g1_1") == "POLICY":
                return
        device.order(held=True)
        team.restart("g1_1", act)
    raise AssertionError(team.node.shields)


def test_a_g1_stands_by_its_policy_behind_the_shield_until_the_remote_damps_it(tmp_path):
    domain = free_domain_id()
    with Emulated("unitree_g1", "--domain", str(domain)) as device, rig(tmp_path, domain) as team:
        team.start("g1_1/driver", "g1_1/policy", "g1_1/shield")
        stands(team, device, 4.0)
        said = device.order()
        assert said["position"][2] > 0.93 * G1.home_height_m and said["tilt"] < 0.15, said
        assert said["stiff"] and said["out_of_range"] == 0 and said["dropped"] == 0
        state, _ = team.state("g1_1")
        assert state.base_pos[2] == pytest.approx(said["position"][2], abs=0.02)
        device.order(held=True)  # with straight legs: who sits in the gantry is not armed
        device.order(remote="L2+B")
        team.watch_until("g1_1", lambda: team.authority("g1_1") == "FAULT", 3.0)
        team.watch_until("g1_1", lambda: device.order()["damped"], 1.0)
        assert "L2+B pressed on the remote" in team.node.shields[0].reason
        assert team.node.shields[0].mode == "DAMP", "it counts as standing"
        assert "FAULT" in team.asked("g1_1", "arm")
        device.order(remote="")
        assert team.asked("g1_1", "reset", 5.0) == "" and team.asked("g1_1", "arm", 5.0) == ""
        team.watch_until("g1_1", lambda: device.order()["stiff"], 3.0)
        team.processes.kill("g1_1_driver")
        team.watch("g1_1", 0.3)
        assert device.order()["damped"] and device.order()["silent_s"] < 0.2, "its guard goes on"


def test_a_g1_whose_policy_dies_is_kept_on_its_feet_in_fault_until_a_person_disarms_it(tmp_path):
    domain = free_domain_id()
    with Emulated("unitree_g1", "--domain", str(domain)) as device, rig(tmp_path, domain) as team:
        team.start("g1_1/driver", "g1_1/policy", "g1_1/shield")
        stands(team, device, 1.0)
        team.processes.kill("g1_1_policy")
        team.watch_until("g1_1", lambda: team.authority("g1_1") == "FAULT", 8.0)
        team.watch("g1_1", 1.5)
        said = device.order()
        assert said["stiff"] and said["position"][2] > 0.9 * G1.home_height_m, said
        device.order(held=True)
        assert team.asked("g1_1", "disarm", 5.0) == ""
        team.watch_until("g1_1", lambda: device.order()["damped"], 3.0)


def test_an_emergency_stop_damps_a_g1_until_a_person_arms_it_again(tmp_path):
    domain = free_domain_id()
    with Emulated("unitree_g1", "--domain", str(domain)) as device, rig(tmp_path, domain) as team:
        team.start("g1_1/driver", "g1_1/shield")  # armed, and held by its shield
        team.watch_until("g1_1", lambda: device.order()["stiff"], 5.0)
        team.ask("g1_1", "estop")
        team.watch_until("g1_1", lambda: device.order()["damped"], 3.0)
        team.watch("g1_1", 0.5)
        assert team.authority("g1_1") == "STOPPED" and device.order()["damped"], "targets of its shield made it stiff"
        assert team.asked("g1_1", "reset", 5.0) == "" and team.asked("g1_1", "arm", 5.0) == ""
        team.watch_until("g1_1", lambda: device.order()["stiff"], 3.0)


def test_a_g1_walks_as_it_is_commanded_and_knows_how_far(tmp_path):
    """Its place comes from its legs."""
    domain = free_domain_id()
    with Emulated("unitree_g1", "--domain", str(domain)) as device, rig(tmp_path, domain, WALK) as team:
        team.start("g1_1/driver", "g1_1/policy", "g1_1/shield")

        def walk(m_s: float):
            return lambda _: team.node.send("g1_1", {"velocity": np.array([m_s, 0.0, 0.0])})

        for _ in range(3):
            stands(team, device, 1.0, walk(0.0))
            began, (state, _) = device.order()["position"][0], team.state("g1_1")
            from_m = float(state.base_pos[0])
            team.watch("g1_1", 3.5, walk(0.5))
            if team.authority("g1_1") == "POLICY":
                break
            device.order(held=True)
            team.restart("g1_1", walk(0.0))
        said, (state, _) = device.order(), team.state("g1_1")
        walked = said["position"][0] - began
        print(f"walked {walked:.3f} m, by its legs {state.base_pos[0] - from_m:.3f} m")
        assert 1.0 < walked < 2.0 and said["tilt"] < 0.2 and said["out_of_range"] == 0, said
        assert state.base_pos[0] - from_m == pytest.approx(walked, abs=0.1)


def test_a_g1_that_is_switched_off_is_not_said_to_stand_nor_to_fall_and_the_doctor_is_named(tmp_path):
    options = {"interface": "lo", "domain": free_domain_id(), "connect_s": 2}
    robot = {"name": "g1", "bundle": str(STAND), "driver": "unitree_g1", "options": options}
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot], "recorder": False}))
    done = subprocess.run(
        [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")],
        env=os.environ | ros_environment(free_domain_id()) | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=patience(60.0),
    )
    said = {line.partition(":")[0]: line for line in done.stderr.splitlines()}
    assert done.returncode == 1
    assert said["failed"].endswith(f"; what is wrong: phalanx doctor {tmp_path / 'team.yaml'}"), said
    assert said["stopping"].endswith(" processes; g1 is not armed"), said


@pytest.mark.parametrize("trouble", ["gone", "damped"])
def test_a_deployment_whose_g1_is_gone_or_in_fault_ends_after_ctrl_c_and_says_what_is_left_to_do(tmp_path, trouble):
    """It waited for ever, and its log grew by ten lines a second."""
    dds, ros = free_domain_id(), free_domain_id()
    robot = {"name": "g1", "bundle": str(STAND), "driver": "unitree_g1", "options": {"interface": "lo", "domain": dds}}
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot], "recorder": False}))
    command = [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")]
    environment = os.environ | ros_environment(ros) | {"XDG_STATE_HOME": str(tmp_path)}
    with (
        Emulated("unitree_g1", "--domain", str(dds)) as device,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as team,
    ):
        try:
            first = team.stdout.readline()
            assert "at Ctrl-C g1 stands until it is disarmed" in first and "land" not in first, first
            assert "can be armed" in team.stdout.readline()
            until = time.monotonic() + patience(10.0)
            while not device.order()["stiff"]:
                ask_here("arm", ["g1"], ros, patience(2.0))
                assert time.monotonic() < until
            device.kill() if trouble == "gone" else device.order(remote="L2+B")
            began = time.monotonic()
            time.sleep(1.0)
            team.send_signal(signal.SIGINT)
            _, said = team.communicate(timeout=patience(30.0))
        finally:
            if team.poll() is None:
                team.kill()
    print(f"ended {time.monotonic() - began:.1f} s after the robot was gone")
    assert team.returncode == 1
    assert f"in ROS domain {ros}" in first
    stopping = next(line for line in said.splitlines() if line.startswith("stopping"))
    given_up = "stopped and given up, where it is not heard for 10 s" in stopping
    assert given_up == (trouble == "gone") and "30 s" not in stopping, stopping
    assert stopping.endswith("; g1 is damped") == (trouble == "damped"), "it does not stand, and has no way to fall"
    last = said.splitlines()[-1]
    assert "g1 was left as it is" in last and "battery switch" in last and "L2+B" in last, said
    assert ("nothing on rt/lowstate" if trouble == "gone" else "FAULT: device: L2+B pressed") in last, said
    log = "".join(file.read_text() for file in (tmp_path / "out" / "logs").glob("*shield*"))
    assert log.count("g1: nothing on rt/lowstate") <= 3, log
