"""An X500 with PX4 in ROS 2, from policy file to rotors: policy, shield and driver over DDS, MAVLink over UDP."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from places import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("pymavlink")
from diagnostic_msgs.msg import DiagnosticArray
from emulated import Emulated
from patience import patience
from ros_rig import Rig, standing

from deploy.shield import make_shield_params
from hardware import load_robot
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import course, qos
from ros_nodes.mission.deploy import operator
from ros_nodes.operation.arming import ArmError, arm

pytestmark = pytest.mark.ros
X500 = load_robot("x500")
HOVER = ROOT / "zoo" / "hover-x500.onnx"
ROBOT = "x500_1"
GOAL = (0.6, -0.4, 2.0)  # m east, north, up
COURSE = [[1.2, 0.8, 1.4], [1.0, -1.2, 2.0], [-1.2, -0.6, 1.6], [0.4, 0.9, 2.2]]


def rig(folder: Path, port: int) -> Rig:
    options = json.dumps({"link": f"udpout:127.0.0.1:{port}"})
    return Rig(
        folder,
        bundle=HOVER,
        mission=standing([[0.0, 0.0, X500.home_height_m, 0.0]], X500),
        parameters={"/**/driver": {"driver": "px4", "options": options}},
    )


def flown(team: Rig, device: Emulated) -> None:
    """Armed by a person, and at its goal by its policy."""
    team.node.send(ROBOT, {"goal_pos": np.array(GOAL)})
    team.start(f"{ROBOT}/driver", f"{ROBOT}/policy", f"{ROBOT}/shield")
    team.arrive(ROBOT, lambda: np.abs(np.subtract(device.order()["position"], GOAL)).max() < 0.2)


def test_an_x500_flies_its_policy_behind_the_shield_and_lands(tmp_path):
    with Emulated("px4") as device, rig(tmp_path, device.port) as team:
        flown(team, device)
        measure(team, device)
        team.ask(ROBOT, "land")
        team.watch_until(ROBOT, lambda: team.authority(ROBOT) == "DISARMED", 20.0)
        team.watch_until(ROBOT, lambda: not device.order()["armed"], 3.0)
        said = device.order()
    assert said["position"][2] < 0.24 and said["masks"] == [128]
    assert said["longest_gap_s"] < 1.0, "PX4's failsafe would have landed it"


def measure(team: Rig, device: Emulated) -> None:
    """Print rates and times of a hovering X500: what the device heard, and the way from its sensor."""
    before, begin = device.order()["setpoints"], time.monotonic()
    ages_ms = team.sent_ages_ms(ROBOT, 2.5)
    print("sensor to what was sent, ms, median and p99:", *np.percentile(ages_ms, [50, 99]).round(1))
    said = device.order()
    rate_hz = (said["setpoints"] - before) / (time.monotonic() - begin)
    print(f"set-points at the device {rate_hz:.1f} Hz; driver to device {said['transit_ms']} ms median, p99")
    assert said["setpoints"] - before > 100


def test_who_takes_it_over_by_hand_keeps_it_until_a_person_acts(tmp_path):
    with Emulated("px4") as device, rig(tmp_path, device.port) as team:
        flown(team, device)
        device.order(mode="POSCTL")
        team.watch_until(ROBOT, lambda: team.authority(ROBOT) != "POLICY", 5.0)
        team.node.update()
        assert "device: flown in mode POSCTL" in team.node.shields[0].reason
        team.watch(ROBOT, 1.0)
        said = device.order()
        assert said["armed"] and said["mode"] == "POSCTL" and said["position"][2] > 1.5
        device.order(mode="OFFBOARD")  # PX4 refuses: nothing is sent to who has it, and the policy is not asked
        team.watch(ROBOT, 1.0)
        assert team.authority(ROBOT) in ("LANDING", "FAULT")
        said = device.order()
        assert said["armed"] and said["mode"] != "OFFBOARD" and said["position"][2] > 1.0
        device.order(mode="AUTO.LAND")
        team.watch_until(ROBOT, lambda: device.order()["landed"], 20.0)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_deployment_whose_drone_is_flown_by_hand_promises_nothing_of_it_and_says_who_has_it(tmp_path, is_stopped):
    """It was said to land, or to fall; and an emergency stop to have stopped it."""
    ros = ros_environment(free_domain_id())
    environment = os.environ | ros | {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    phalanx = [sys.executable, "-m", "phalanx"]
    with Emulated("px4") as device:
        options = {"link": f"udpout:127.0.0.1:{device.port}"}
        robot = {"name": ROBOT, "bundle": str(HOVER), "driver": "px4", "options": options, "goals": [GOAL]}
        (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot], "recorder": False}))
        deploy = subprocess.Popen(
            [*phalanx, "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            with operator([ROBOT], int(ros["ROS_DOMAIN_ID"]), ros, ()) as (node, executor):
                until_s = time.monotonic() + patience(60.0)
                while device.order()["position"][2] < 0.8:
                    assert deploy.poll() is None and time.monotonic() < until_s, (node.shields, device.order())
                    with suppress(ArmError):
                        arm(node, executor, lambda: None)
                device.order(mode="POSCTL")
                while node.shields[0].state != "FAULT":
                    assert time.monotonic() < until_s, node.shields
                    executor.spin_once(timeout_sec=0.05)
                    node.update()
            if is_stopped:
                done = subprocess.run([*phalanx, "operate", "estop", ROBOT], env=environment, capture_output=True)
                assert done.returncode == 0 and b"its motors go on" in done.stdout and b"kill switch" in done.stdout
            time.sleep(1.5)
        finally:
            deploy.send_signal(signal.SIGINT)
            _, said = deploy.communicate(timeout=patience(60.0))
        assert device.order()["armed"], "who took it over keeps it"
    lines = said.splitlines()
    stopping = next(line for line in lines if line.startswith("stopping"))
    assert f"{ROBOT} is flown in mode POSCTL" in stopping and "nothing here stops its motors" in stopping
    assert not any(wrong in stopping for wrong in ("lands", "falls", "Ctrl-C again")), stopping
    assert f"{ROBOT} was left as it is: flown in mode POSCTL" in lines[-1] and "remote control" in lines[-1], said
    stops = [line for line in lines if line.startswith(f"{ROBOT}: STOPPED: ")]
    assert len(stops) == is_stopped and all("its motors go on" in line for line in stops), said


def test_an_estimate_that_stays_on_the_ground_with_fresh_stamps_is_no_way_up(tmp_path):
    with Emulated("px4") as device, rig(tmp_path, device.port) as team:
        team.node.send(ROBOT, {"goal_pos": np.array(GOAL)})
        team.start(f"{ROBOT}/driver", f"{ROBOT}/policy", f"{ROBOT}/shield", armed=False)
        device.order(frozen=True)
        team.watch(ROBOT, 0.5)
        team.ask(ROBOT, "arm")
        team.ask(ROBOT, "start")
        team.watch_until(ROBOT, lambda: team.authority(ROBOT) == "FAULT", 20.0)
        team.node.update()
        assert "not measured to rise" in team.node.shields[0].reason
        team.watch_until(ROBOT, lambda: device.order()["landed"], 10.0)
        said = device.order()
    print(f"it rose to {said['high'][2]:.2f} m")
    assert said["high"][2] < 1.5


def test_an_emergency_stop_disarms_it_in_the_air(tmp_path):
    with Emulated("px4") as device, rig(tmp_path, device.port) as team:
        device.order(parameters={"COM_DISARM_LAND": 0.0})  # not by itself, once it lies on the ground
        flown(team, device)
        team.ask(ROBOT, "estop")
        team.watch_until(ROBOT, lambda: not device.order()["armed"], 3.0)
        assert device.order()["forced"] > 0 and team.authority(ROBOT) == "STOPPED"


def test_a_driver_that_nothing_reaches_lands_its_x500(tmp_path):
    """Its shield is killed: the driver has PX4 land it."""
    with Emulated("px4") as device, rig(tmp_path, device.port) as team:
        flown(team, device)
        team.processes.kill(f"{ROBOT}_shield")
        team.watch_until(ROBOT, lambda: not device.order()["armed"], 15.0)
        said = device.order()
    assert said["position"][2] < 0.24 and said["mode"] == "AUTO.LAND"


def test_the_goals_of_its_team_file_are_passed_in_order_and_no_limit_of_the_device_is(tmp_path):
    with Emulated("px4") as device:
        link = {"link": f"udpout:127.0.0.1:{device.port}"}
        robot = {"name": ROBOT, "bundle": str(HOVER), "driver": "px4", "options": link, "goals": COURSE}
        (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot], "recorder": False}))
        domain = free_domain_id()
        ros = ros_environment(domain)
        command = [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out"]
        deploy = subprocess.Popen([*command, str(tmp_path / "out")], env=os.environ | ros, stdout=subprocess.DEVNULL)
        try:
            fly_course(device, deploy, domain, ros)
        finally:
            deploy.send_signal(signal.SIGINT)
            deploy.wait(patience(60.0))
        said = device.order()
    came = json.loads((tmp_path / "out" / "result.json").read_text())["courses"][ROBOT]
    assert came["goals"] == len(COURSE) and came["passed_s"] == sorted(came["passed_s"])
    assert np.all(np.diff([0.0, *came["passed_s"]]) > 0.5), "two goals were passed at once"
    fence = make_shield_params(X500)
    assert said["beyond"] == 0 and said["setpoints"] > 100 and said["masks"] == [128]
    assert np.all(np.greater(said["low"][:2], fence.geofence_low[:2]))
    assert np.all(np.less(said["high"], fence.geofence_high))
    print(f"passed at {came['passed_s']} s; position {said['low']} to {said['high']} m; {said['setpoints']} set-points")


def fly_course(device: Emulated, deploy: subprocess.Popen, domain: int, ros: dict[str, str]) -> None:
    """Armed and started by a person until the last goal is passed, again where this machine was too busy; it stays."""
    with operator([ROBOT], domain, ros, ()) as (node, executor):
        heard = Mailbox(node, DiagnosticArray, f"/{ROBOT}/{course.TOPIC}", qos.LATCHED)
        passed, until = 0, time.monotonic() + patience(90.0)
        while passed < len(COURSE):
            assert deploy.poll() is None and time.monotonic() < until, (passed, node.shields, device.order())
            executor.spin_once(timeout_sec=0.05)
            node.update()
            while (taken := heard.take()) is not None:
                passed = len(course.read(taken[0])["passed_s"])
            if node.shields[0].state not in ("?", "POLICY"):
                with suppress(ArmError):
                    arm(node, executor, lambda: None)
        time.sleep(1.0)
        node.update()
        if node.shields[0].state == "POLICY":
            assert np.linalg.norm(np.subtract(device.order()["position"], COURSE[-1])) < 0.3
