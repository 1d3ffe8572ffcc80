"""An arm in ROS 2: its policy looks at a tracked cube, its shield holds it, and it is asked by topics."""

import time

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
from nav_msgs.msg import Odometry
from reach_bundle import CUBE, save_reach_bundle
from ros_rig import Rig, standing
from sensor_msgs.msg import JointState

from hardware import load_robot
from hardware.types import ActuatorCommand, ObjectState
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import OdometryWriter, empty_state, set_stamp
from ros_nodes.messages.joints import JointConverter
from ros_nodes.messages.topics import object_topic
from ros_nodes.operation.monitor import monitoring

pytestmark = pytest.mark.ros
SPEC = load_robot("panda")
HOME = np.array(SPEC.home)
LAST = max(i for i, channel in enumerate(SPEC.channels) if channel.unit == "rad")


class Tracker:
    """Says where a cube lies, at 50 Hz while it is watched."""

    def __init__(self, rig: Rig):
        self._publisher = rig.node.create_publisher(Odometry, object_topic(CUBE), qos.SENSOR)
        self._writer = OdometryWriter(CUBE)
        self.bearing = 0.0

    def say(self, _: float) -> None:
        pos = 0.5 * np.array([np.cos(self.bearing), np.sin(self.bearing), 0.1])
        cube = ObjectState(pos, np.array([1.0, 0, 0, 0]), np.zeros(3), np.zeros(3), np.zeros(()))
        self._publisher.publish(self._writer.object(cube, time.time_ns()))


class Joints:
    """The newest measured joint positions."""

    def __init__(self, rig: Rig):
        self._mailbox = Mailbox(rig.node, JointState, f"/{rig.names[0]}/joint_states", qos.SENSOR, raw=True)
        self._converter, self._state = JointConverter(SPEC.joint_names), empty_state(len(SPEC.joints))

    def now(self) -> np.ndarray:
        until = time.monotonic() + patience(2.0)
        time.sleep(0.05)
        while (taken := self._mailbox.take()) is None:
            assert time.monotonic() < until, "no joint states"
        self._converter.read(taken[0], self._state)
        return self._state.joint_pos.copy()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "reach.onnx"
    save_reach_bundle(path, SPEC)
    return path


@pytest.fixture
def rig(bundle, tmp_path):
    mission = standing([[0.3, -0.2, 0.0, 0.4]], SPEC)
    with Rig(tmp_path, bundle=bundle, mission=mission, commands=["lift"]) as rig:
        rig.start("simulated_robots", "panda_1/shield", "panda_1/policy", armed=False)
        rig.tracker = tracker = Tracker(rig)  # an arm whose policy does not see the cube is not armed
        for what in ("arm", "start"):
            assert (refused := rig.asked("panda_1", what, 10.0, tracker.say)) == "", refused
        yield rig


def settle(rig: Rig, tracker: Tracker, duration_s: float) -> list[ActuatorCommand]:
    return rig.fly("panda_1", duration_s, tracker.say)


def turned(rig: Rig, tracker: Tracker, joints: Joints, joint: int, angle: float) -> None:
    """Wait until `joint` is at `angle` rad and stays there, which takes its time on a busy machine."""
    until, there = time.monotonic() + patience(15.0), 0
    while there < 2:
        settle(rig, tracker, 0.3)
        now = joints.now()[joint]
        there = there + 1 if abs(now - angle) < 0.02 else 0
        assert time.monotonic() < until, f"at {now} rad, not at {angle} rad"


def test_an_arm_is_held_until_it_is_asked_for_something(rig):
    tracker, joints = rig.tracker, Joints(rig)
    tracker.bearing = 0.4
    rig.watch("panda_1", 1.5, tracker.say)
    rig.node.send("panda_1", {"lift": np.array([0.9])})  # refused: that is not asked either
    commands = rig.watch("panda_1", 1.0, tracker.say)
    assert len(commands) > 40 and rig.mode("panda_1") == "HOLD"
    assert rig.node.shields[0].reason == "waiting for operator command on commands/lift"
    np.testing.assert_allclose(joints.now(), HOME, atol=0.01)
    rig.node.send("panda_1", {"lift": np.array([0.0])})
    turned(rig, tracker, joints, 0, 0.4)


def test_what_an_arm_was_asked_for_before_an_emergency_stop_does_not_move_it_after(rig):
    tracker, joints = rig.tracker, Joints(rig)
    rig.watch("panda_1", 0.5, tracker.say)
    assert rig.asked("panda_1", "hold", 10.0) == "" and rig.asked("panda_1", "disarm", 10.0) == ""
    tracker.bearing = 0.4
    rig.node.send("panda_1", {"lift": np.array([0.0])})
    rig.watch("panda_1", 1.0, tracker.say)
    for what in ("estop", "reset", "arm", "start"):
        assert rig.asked("panda_1", what, 10.0, tracker.say) == ""
        rig.watch("panda_1", 1.0, tracker.say)
    np.testing.assert_allclose(joints.now(), HOME, atol=0.01)
    assert rig.authority("panda_1") == "STARTING"
    assert "waiting for operator command on commands/lift" in rig.node.shields[0].reason


def test_an_arm_follows_a_tracked_cube_and_holds_when_it_is_not_tracked(rig):
    tracker, joints = rig.tracker, Joints(rig)
    rig.node.send("panda_1", {"lift": np.array([0.0])})
    for tracker.bearing in (0.4, -0.3):
        turned(rig, tracker, joints, 0, tracker.bearing)
    rig.watch("panda_1", 1.5)  # the tracker is silent
    assert rig.mode("panda_1") == "HOLD"
    reason = rig.node.shields[0].reason
    assert reason.startswith("request ") and reason.endswith("limit 100 ms: no current message of objects: cube")
    before = joints.now()
    rig.watch("panda_1", 0.5)
    np.testing.assert_allclose(joints.now(), before, atol=0.01)
    assert "no current message of objects: cube" in rig.processes.last_line("panda_1_policy")


def test_an_arm_is_asked_by_a_topic_and_refuses_what_it_was_not_trained_for(rig):
    tracker, joints = rig.tracker, Joints(rig)
    rig.node.send("panda_1", {"lift": np.array([0.25])})
    turned(rig, tracker, joints, LAST, HOME[LAST] + 0.25)
    for nonsense in (np.array([0.9]), np.array([0.1, 0.1]), np.array([np.nan])):
        rig.node.send("panda_1", {"lift": nonsense})
        settle(rig, tracker, 0.5)
    assert joints.now()[LAST] == pytest.approx(HOME[LAST] + 0.25, abs=0.02)
    assert "commands/lift refused" in rig.processes.last_line("panda_1_policy")
    domain_id = rig.node.context.get_domain_id()
    with monitoring(["panda_1"], domain_id) as watched:
        for nonsense, says in ((np.array([0.1]), ""), (np.array([0.9]), "commands/lift refused: ")):
            rig.node.send("panda_1", {"lift": nonsense})
            until = time.monotonic() + patience(10.0)
            refused = None
            while refused is None or bool(refused) is not bool(says):
                assert time.monotonic() < until, refused
                settle(rig, tracker, 0.1)
                watched.poll()
                refused = next((robot["refused"] for robot in watched.snapshot()["robots"]), None)
            assert says in refused


def test_a_dead_policy_is_a_held_arm_and_so_is_a_dead_shield(rig):
    tracker, joints = rig.tracker, Joints(rig)
    rig.node.send("panda_1", {"lift": np.array([0.0])})
    settle(rig, tracker, 1.5)
    tracker.bearing = 1.2
    until = time.monotonic() + patience(5.0)
    while joints.now()[0] < 0.1:
        assert time.monotonic() < until, "it does not turn"
        rig.watch("panda_1", 0.05, tracker.say)
    rig.processes.kill("panda_1_policy")  # while it turns
    commands = rig.watch("panda_1", 1.0)
    assert rig.mode("panda_1") == "HOLD"
    assert len(commands) > 40
    held = joints.now()
    assert 0.05 < held[0] < 1.1
    rig.watch("panda_1", 0.3)
    np.testing.assert_allclose(joints.now(), held, atol=0.01)
    rig.processes.kill("panda_1_shield")
    rig.watch("panda_1", 1.0)
    np.testing.assert_allclose(joints.now(), held, atol=0.01)


def test_a_shield_that_is_told_nonsense_about_its_joints_moves_nothing(rig):
    tracker, joints = rig.tracker, Joints(rig)
    rig.node.send("panda_1", {"lift": np.array([0.0])})
    settle(rig, tracker, 1.0)
    before = joints.now()
    liar = rig.node.create_publisher(JointState, "/panda_1/joint_states", qos.SENSOR)
    lies = [
        JointState(name=list(SPEC.joint_names), position=[np.nan] * 8, velocity=[0.0] * 8),
        JointState(name=list(SPEC.joint_names), position=[9.0] * 8, velocity=[0.0] * 8),
        JointState(name=["left_knee"], position=[1.0], velocity=[0.0]),
        JointState(name=list(SPEC.joint_names), position=[0.0] * 3, velocity=[0.0] * 8),
    ]

    def lie(t: float) -> None:
        tracker.say(t)
        for message in lies:
            set_stamp(message.header.stamp, time.time_ns())
            liar.publish(message)

    commands = rig.watch("panda_1", 1.0, lie)
    low, high = np.array(SPEC.command_low, np.float32), np.array(SPEC.command_high, np.float32)
    assert all((low <= c.target).all() and (c.target <= high).all() for c in commands)
    assert np.abs(joints.now() - before).max() < 0.1
