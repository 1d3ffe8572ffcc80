"""An X500 with PX4 in ROS 2, from policy file to rotors: policy, shield and driver over DDS, MAVLink over UDP."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("pymavlink")
from emulated import Emulated
from geometry_msgs.msg import PoseStamped
from patience import patience
from ros_rig import Rig, standing
from sensor_msgs.msg import JointState

from hardware import load_robot
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos

pytestmark = pytest.mark.ros
X500 = load_robot("x500")
HOVER = Path(__file__).parents[1] / "zoo" / "hover-x500.onnx"
ROBOT = "x500_1"
GOAL = (0.6, -0.4, 2.0)  # m east, north, up


def rig(folder: Path, port: int) -> Rig:
    options = json.dumps({"link": f"udpout:127.0.0.1:{port}"})
    return Rig(
        folder,
        bundle=HOVER,
        mission=standing([[0.0, 0.0, X500.home_height_m, 0.0]], X500),
        parameters={"/**/driver": {"driver": "px4", "options": options}},
    )


def flown(team: Rig, device: Emulated) -> None:
    """Armed by a person, and at its goal by its policy; again where this machine was too busy and it was landed."""
    goal = PoseStamped()
    goal.header.frame_id = "world"
    goal.pose.position.x, goal.pose.position.y, goal.pose.position.z = GOAL
    goal.pose.orientation.w = 1.0
    publisher = team.node.create_publisher(PoseStamped, f"/{ROBOT}/goal", qos.LATCHED)
    publisher.publish(goal)
    team.start(f"{ROBOT}/driver", f"{ROBOT}/policy", f"{ROBOT}/shield")
    give_up = time.monotonic() + patience(60.0)
    while time.monotonic() < give_up:
        team.watch_until(ROBOT, lambda: team.authority(ROBOT) in ("POLICY", "FAULT"), 30.0)
        end = time.monotonic() + patience(8.0)
        while team.authority(ROBOT) == "POLICY" and time.monotonic() < end:
            team.watch(ROBOT, 0.5)
            if np.abs(np.subtract(device.order()["position"], GOAL)).max() < 0.2:
                return
        print(team.node.shields)
        team.watch_until(ROBOT, lambda: team.authority(ROBOT) != "LANDING", 20.0)
        team.restart(ROBOT)
    raise AssertionError(f"{device.order()}: {team.node.shields}")


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
    sent = Mailbox(team.node, JointState, f"/{ROBOT}/sent", qos.SENSOR)
    before, begin, ages_ms = device.order()["setpoints"], time.monotonic(), []

    while time.monotonic() < begin + 4.0:
        if (taken := sent.take()) is not None:
            stamp = taken[0].header.stamp
            ages_ms.append((team.node.get_clock().now().nanoseconds - stamp.sec * 10**9 - stamp.nanosec) * 1e-6)
        time.sleep(0.001)
    said = device.order()
    took_s = time.monotonic() - begin
    median, worst = np.percentile(ages_ms, [50, 99])
    rate_hz = (said["setpoints"] - before) / took_s
    print(f"set-points at the device {rate_hz:.1f} Hz; driver to device {said['transit_ms']} ms median, p99")
    print(f"sensor to what was sent {median:.1f} ms median, {worst:.1f} ms p99")
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
        device.order(mode="OFFBOARD")  # it is given back, and lands: the policy is not asked
        team.watch(ROBOT, 1.0)
        assert team.authority(ROBOT) in ("LANDING", "FAULT")
        team.watch_until(ROBOT, lambda: device.order()["landed"], 20.0)


def test_a_driver_that_nothing_reaches_lands_its_x500(tmp_path):
    """Its shield is killed: the driver has PX4 land it."""
    with Emulated("px4") as device, rig(tmp_path, device.port) as team:
        flown(team, device)
        team.processes.kill(f"{ROBOT}_shield")
        team.watch_until(ROBOT, lambda: not device.order()["armed"], 15.0)
        said = device.order()
    assert said["position"][2] < 0.24 and said["mode"] == "AUTO.LAND"
