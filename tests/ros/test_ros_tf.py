"""tf and description of a simulated drone and an arm, as RViz hears them."""

import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
from geometry_msgs.msg import TransformStamped
from ros_rig import SPEC, Rig, standing
from std_msgs.msg import String

from hardware import load_robot
from ros_nodes.messages import qos
from ros_nodes.messages.transforms import TFMessage, Transforms


def pose(transform: TransformStamped) -> list[float]:
    p, q = transform.transform.translation, transform.transform.rotation
    return [p.x, p.y, p.z, q.w, q.x, q.y, q.z]


def test_the_newest_poses_go_together_at_the_rate_and_what_is_fixed_goes_once():
    moving, fixed = [], []
    tf = Transforms(25.0, lambda sent: moving.append([(t.child_frame_id, pose(t)[0]) for t in sent]), fixed.append)
    quat = np.array([1.0, 0.0, 0.0, 0.0])
    for tick in range(101):  # two drones at 100 Hz, for a second
        at_ns = 5_000_000_000 + tick * 10_000_000
        for name in ("cf1", "cf2"):
            tf.update(f"{name}/base_link", np.array([tick, 0.0, 1.0]), quat, at_ns)
        for number in (1, 2):
            tf.update(f"arm_{number}/base_link", np.array([2.0, 0.0, 0.0]), quat, at_ns, fixed=True)
    assert len(moving) == 26
    assert all({name for name, _ in sent} == {"cf1/base_link", "cf2/base_link"} for sent in moving[1:])
    assert moving[1][-1] == ("cf1/base_link", 4.0), "not the newest pose"
    assert [[t.child_frame_id for t in sent] for sent in fixed] == [
        ["arm_1/base_link"],
        ["arm_1/base_link", "arm_2/base_link"],
    ]


@pytest.mark.ros
def test_free_bases_are_on_tf_and_bolted_ones_on_tf_static(tmp_path):
    with Rig(
        tmp_path, mission=standing([[1.0, 2.0, 0.5, 0.0], [3.0, 0.0, 0.2, 0.8]], SPEC, load_robot("panda"))
    ) as rig:
        rig.start("simulated_robots")
        if TFMessage is None:  # PyPI has no tf2_msgs: robots fly without
            assert (
                "no tf: the package tf2_msgs is not installed" in rig.processes.log_of("simulated_robots").read_text()
            )
            assert rig.state("cf1")
            return
        free, fixed = [], []
        rig.node.create_subscription(TFMessage, "/tf", free.append, qos.TF)
        rig.node.create_subscription(TFMessage, "/tf_static", fixed.append, qos.LATCHED)
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            rig.executor.spin_once(timeout_sec=0.1)
        (drone,) = free[-1].transforms
        assert (drone.header.frame_id, drone.child_frame_id) == ("world", "cf1/base_link")
        np.testing.assert_allclose(pose(drone), [1.0, 2.0, 0.5, 1.0, 0.0, 0.0, 0.0], atol=0.05)  # measured
        first_s, last_s = (m.transforms[0].header.stamp for m in (free[0], free[-1]))
        took_s = last_s.sec - first_s.sec + (last_s.nanosec - first_s.nanosec) * 1e-9
        assert 15.0 < (len(free) - 1) / took_s <= 25.5
        (arm,) = fixed[-1].transforms
        assert (arm.header.frame_id, arm.child_frame_id) == ("world", "panda_1/base_link")
        np.testing.assert_allclose(pose(arm), [3.0, 0.0, 0.2, np.cos(0.4), 0.0, 0.0, np.sin(0.4)], atol=1e-6)


@pytest.mark.ros
def test_who_comes_late_hears_what_the_robot_looks_like_and_its_joints_are_those_of_joint_states(tmp_path):
    arm = load_robot("ur5e")
    with Rig(tmp_path, mission=standing([[0.0, 0.0, 0.0, 0.0]], arm)) as rig:
        rig.start("simulated_robots", "ur5e_1/shield", armed=False)
        heard: list[String] = []
        rig.node.create_subscription(String, "/ur5e_1/robot_description", heard.append, qos.LATCHED)
        until = time.monotonic() + patience(5.0)
        while not heard:
            assert time.monotonic() < until
            rig.executor.spin_once(timeout_sec=0.1)
        robot = ET.fromstring(heard[0].data)
        assert robot.find("link").get("name") == "base_link"
        moving = {joint.get("name") for joint in robot.iterfind("joint") if joint.get("type") != "fixed"}
        assert moving == set(arm.joint_names)
