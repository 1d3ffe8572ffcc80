"""What an operator says on topics becomes the commands of a contract, or is refused."""

import time
from contextlib import contextmanager

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("rclpy")
import rclpy
from geometry_msgs.msg import PoseStamped, TwistStamped
from reach_bundle import LIFT
from ros_rig import IdleNode
from scipy.spatial.transform import Rotation

from deploy.contract import CommandSpec
from hardware import load_robot
from hardware.kinematics import load_chain
from hardware.types import ObjectState
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.messages.commands import CommandInbox
from ros_nodes.messages.conversion import empty_state
from ros_nodes.messages.reach import range_beyond_reach, reach_m
from ros_nodes.operation.operate import goal_command
from ros_nodes.operation.operator import MissionNode

pytestmark = pytest.mark.ros
PANDA, CRAZYFLIE = load_robot("panda"), load_robot("crazyflie")
GOAL_POS = CommandSpec("goal_pos", ("batch", 3), "m", "world", "where", (-3.0, -3.0, 0.2), (3.0, 3.0, 3.0))
GOAL_QUAT = CommandSpec("goal_quat", ("batch", 4), "1", "world", "how turned", (-1.0,) * 4, (1.0,) * 4)
VELOCITY = CommandSpec("velocity", ("batch", 3), "m/s, m/s, rad/s", "body", "how fast", (-1.0, -0.5, -1.0), (1.0,) * 3)
LIFT_COMMAND = CommandSpec(LIFT.name, LIFT.shape, LIFT.unit, LIFT.frame, LIFT.meaning, (-0.3,), (0.3,))


def in_range(commands):
    """What a policy accepts, as `PolicyRuntime.check_command` says it."""
    specs = {spec.name: spec for spec in commands}

    def check(asked):
        for name, spec in specs.items():
            value = asked[name]
            if value.shape != (len(spec.low),) or not ((value >= spec.low) & (value <= spec.high)).all():
                raise ValueError(f"{name}: {value}")

    return check


@contextmanager
def operated(spec, commands, monkeypatch, timeout_s=0.3, base_pose=(0.0, 0.0, 0.0, 0.0)):
    """An inbox of robot `r1`, and the node that gives its commands."""
    domain = free_domain_id()
    for name, value in ros_environment(domain).items():
        monkeypatch.setenv(name, value)
    rclpy.init(args=["--ros-args", "-r", "__ns:=/r1"], domain_id=domain)
    try:
        robot = IdleNode("policy")
        inbox = CommandInbox(robot, commands, in_range(commands), spec, "r1", timeout_s, base_pose)
        operator = MissionNode(["r1"], [command.name for command in commands])
        yield inbox, operator, robot
        robot.stop()
        operator.destroy_node()
        robot.destroy_node()
    finally:
        rclpy.shutdown()


def receive(inbox, until, say=lambda: None, patience_s=3.0):
    """The command when `until(command)` holds; `say` is called again and again before."""
    end = time.monotonic() + patience_s
    while not until(command := inbox.update(time.time_ns())):
        assert time.monotonic() < end, command
        say()
        time.sleep(0.02)
    return command


def state_of(spec, base_pos=(0.5, -0.2, 1.0), yaw=0.6):
    state = empty_state(len(spec.joints))
    state.joint_pos[:] = spec.home
    x, y, z, w = Rotation.from_euler("Z", yaw).as_quat()
    state.base_pos[:], state.base_quat[:] = base_pos, (w, x, y, z)
    return state


def test_before_a_goal_a_drone_stays_where_it_is_and_an_arm_keeps_its_tool_there(monkeypatch):
    drone, arm = state_of(CRAZYFLIE, (9.0, 0.1, 1.0)), state_of(PANDA)
    with operated(CRAZYFLIE, (GOAL_POS,), monkeypatch) as (inbox, _, _):
        np.testing.assert_allclose(inbox.start(drone)["goal_pos"], [3.0, 0.1, 1.0])  # within the policy's range
    with operated(PANDA, (GOAL_POS, GOAL_QUAT, LIFT_COMMAND), monkeypatch) as (inbox, _, _):
        safe = inbox.start(arm)
    pos, quat = load_chain(PANDA, "tool").forward(arm.joint_pos)
    base = Rotation.from_euler("Z", 0.6)
    np.testing.assert_allclose(safe["goal_pos"], np.array([0.5, -0.2, 1.0]) + base.apply(pos), atol=1e-6)
    expected = (base * Rotation.from_quat(np.roll(quat, -1))).as_matrix()
    np.testing.assert_allclose(Rotation.from_quat(np.roll(safe["goal_quat"], -1)).as_matrix(), expected, atol=1e-6)
    np.testing.assert_array_equal(safe["lift"], [0.0])


def thing_at(x: float) -> ObjectState:
    return ObjectState(
        np.array([x, 0.1, 0.9], "f"), np.array([0, 0, 0, 1], "f"), np.zeros(3), np.zeros(3), np.zeros(())
    )


def test_before_a_goal_things_stay_where_they_are(monkeypatch):
    height = CommandSpec("height", ("batch", 1), "m", "world", "how high", (0.2,), (1.5,))
    with operated(PANDA, (GOAL_POS, height), monkeypatch) as (inbox, _, _):
        safe = inbox.start(state_of(PANDA), {"cube": thing_at(0.4)})
        np.testing.assert_allclose(safe["goal_pos"], [0.4, 0.1, 0.9])
        np.testing.assert_allclose(safe["height"], [0.9])
    load_goal = replace(GOAL_POS, name="load_goal")
    with operated(CRAZYFLIE, (GOAL_POS, load_goal), monkeypatch) as (inbox, _, _):
        safe = inbox.start(state_of(CRAZYFLIE), {"load": thing_at(0.7)})
        np.testing.assert_allclose(safe["load_goal"], [0.7, 0.1, 0.9])
        np.testing.assert_allclose(safe["goal_pos"], [0.5, -0.2, 1.0])  # a drone's goal is its own


def test_an_arm_waits_for_every_topic_and_no_other_robot_does(monkeypatch):
    for spec, waits in ((PANDA, True), (CRAZYFLIE, False)):
        with operated(spec, (GOAL_POS, LIFT_COMMAND), monkeypatch) as (inbox, operator, _):
            inbox.start(state_of(spec))
            assert len(inbox.awaited) == (2 if waits else 0)
            operator.send("r1", {"goal_pos": np.array([0.4, 0.1, 0.5])})
            receive(inbox, lambda command: command["goal_pos"][0] == np.float32(0.4))
            assert [topic.rpartition("/")[2] for topic in inbox.awaited] == ["lift"] * waits
            operator.send("r1", {"lift": np.array([0.1])})
            receive(inbox, lambda command: command["lift"][0] == np.float32(0.1))
            assert not inbox.awaited
            inbox.start(state_of(spec))
            assert not inbox.awaited, "what was asked before the start is done after it"
            inbox.forget()
            inbox.start(state_of(spec))
            assert len(inbox.awaited) == (2 if waits else 0)


def test_an_arm_refuses_a_goal_that_it_does_not_reach_from_where_it_stands(monkeypatch):
    with operated(PANDA, (GOAL_POS,), monkeypatch, base_pose=(2.0, 0.0, 0.0, 0.0)) as (inbox, operator, _):
        inbox.start(state_of(PANDA))
        operator.send("r1", {"goal_pos": np.array([1.0, 0.1, 0.5])})
        receive(inbox, lambda command: command["goal_pos"][0] == np.float32(1.0))
        operator.send("r1", {"goal_pos": np.array([0.4, 0.0, 0.5])})
        receive(inbox, lambda command: inbox.refused)
        assert (
            "goal_pos [0.4, 0.0, 0.5] is 1.68 m from its base at [2.0, 0.0, 0.0], and its tool reaches 1.29"
            in inbox.refused
        )
        assert inbox.update(time.time_ns())["goal_pos"][0] == np.float32(1.0)
    near = replace(GOAL_POS, low=(0.3, -0.5, 0.1), high=(0.6, 0.5, 0.7))
    assert range_beyond_reach([near], reach_m(PANDA), (1.5, 0.0, 0.0, 0.0)) == ""
    assert "the nearest is 3.40 m from its base" in range_beyond_reach([near], reach_m(PANDA), (4.0, 0.0, 0.0, 0.0))


def test_a_goal_is_a_pose_in_the_world_and_nonsense_leaves_the_last_one(monkeypatch):
    quat = np.array([-0.5, 0.5, 0.5, 0.5])
    with operated(PANDA, (GOAL_POS, GOAL_QUAT), monkeypatch) as (inbox, operator, _):
        inbox.start(state_of(PANDA))
        operator.send("r1", {"goal_pos": np.array([0.4, 0.1, 0.5]), "goal_quat": quat})
        asked = receive(inbox, lambda command: command["goal_pos"][0] == np.float32(0.4))
        np.testing.assert_allclose(asked["goal_pos"], [0.4, 0.1, 0.5])
        np.testing.assert_allclose(asked["goal_quat"], -quat)  # the same turn, with w >= 0
        for turned, x in (
            ([0.0, 1.0, 0.0, 0.0], 0.5),
            (None, 0.6),
        ):  # as `phalanx operate goal` with --quat, and without
            operator.send("r1", goal_command([x, 0.1, 0.5], turned))
            receive(inbox, lambda command, turned=turned: inbox.refused or (turned and command["goal_quat"][1] == 1.0))
        assert inbox.refused == "goal refused: it has no orientation, and this policy needs one"
        operator.send("r1", {"goal_pos": np.array([0.4, 0.1, 0.5]), "goal_quat": quat})
        receive(inbox, lambda command: not inbox.refused)
        raw = operator.create_publisher(PoseStamped, "/r1/goal", qos.LATCHED)
        for change in ("frame", "orientation", "range", "nan"):
            message = PoseStamped()
            message.header.frame_id = "map" if change == "frame" else "world"
            message.pose.position.z = {"range": 9.0, "nan": float("nan")}.get(change, 1.0)
            message.pose.orientation.w = 0.0 if change == "orientation" else 1.0
            raw.publish(message)
            for _ in range(10):
                command = inbox.update(time.time_ns())
                time.sleep(0.02)
            np.testing.assert_allclose(command["goal_pos"], [0.4, 0.1, 0.5], err_msg=change)


def test_a_velocity_is_forgotten_when_it_is_not_said_again(monkeypatch):
    with operated(CRAZYFLIE, (VELOCITY,), monkeypatch) as (inbox, operator, _):
        np.testing.assert_array_equal(inbox.start(state_of(CRAZYFLIE))["velocity"], np.zeros(3))
        wanted = {"velocity": np.array([0.5, -0.25, 0.75])}
        asked = receive(inbox, lambda command: command["velocity"].any(), lambda: operator.send("r1", wanted))
        np.testing.assert_allclose(asked["velocity"], wanted["velocity"])
        began = time.monotonic()
        receive(inbox, lambda command: not command["velocity"].any())
        assert 0.1 < time.monotonic() - began < 1.0
        receive(inbox, lambda command: command["velocity"].any(), lambda: operator.send("r1", wanted))  # and again


def test_a_velocity_in_another_frame_is_refused(monkeypatch):
    with operated(CRAZYFLIE, (VELOCITY,), monkeypatch) as (inbox, operator, _):
        inbox.start(state_of(CRAZYFLIE))
        publisher = next(p for p in operator.publishers if p.topic_name == "/r1/cmd_vel")
        for frame, taken in (("odom", False), ("r1/base_link", True)):
            message = TwistStamped()
            message.header.frame_id, message.twist.linear.x = frame, 0.5
            end = time.monotonic() + (1.0 if not taken else 3.0)
            while not inbox.update(time.time_ns())["velocity"].any() and time.monotonic() < end:
                publisher.publish(message)
                time.sleep(0.02)
            assert inbox.update(time.time_ns())["velocity"].any() == taken


def test_a_command_that_its_message_cannot_carry_is_refused_at_once(monkeypatch):
    planar = replace(VELOCITY, shape=("batch", 2), low=(-1.0, -1.0), high=(1.0, 1.0))
    with pytest.raises(ValueError, match=r"'velocity': has shape \('batch', 2\), its message has 3 numbers"):  # noqa: SIM117
        with operated(CRAZYFLIE, (planar,), monkeypatch):
            pass


def test_while_two_steer_a_robot_it_obeys_neither_and_says_so(monkeypatch):
    with operated(CRAZYFLIE, (VELOCITY,), monkeypatch) as (inbox, operator, _):
        inbox.start(state_of(CRAZYFLIE))
        forward, message = np.array([0.5, 0.0, 0.0]), TwistStamped()
        message.twist.linear.x = -0.5
        receive(inbox, lambda c: c["velocity"][0] == 0.5, lambda: operator.send("r1", {"velocity": forward}))
        second = operator.create_publisher(TwistStamped, "/r1/cmd_vel", qos.MEASURED)

        def both() -> None:
            operator.send("r1", {"velocity": forward})
            second.publish(message)

        receive(inbox, lambda c: c["velocity"][0] == 0.0, both)
        assert inbox.warning == "two publish on cmd_vel: no velocity is obeyed"
        # One that says nothing any more, such as one that was killed, is in the way for a second only.
        receive(inbox, lambda c: c["velocity"][0] == 0.5, lambda: operator.send("r1", {"velocity": forward}))
        assert not inbox.warning
