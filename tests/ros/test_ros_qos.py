"""Who publishes a goal is heard, or the log says why not; who listens to sensors hears them."""

import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Pose, PoseStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Log
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from ros_rig import Rig
from sensor_msgs.msg import JointState
from system_clock import SystemClock
from test_ros_commands import CRAZYFLIE, GOAL_POS, operated, receive, state_of

from ros_nodes.lifecycle.bring_up import DEACTIVATE
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos

pytestmark = pytest.mark.ros
RVIZ = QoSProfile(depth=1)  # reliable and volatile, as RViz's "2D Goal Pose" and Foxglove's publish panel
TOPIC = "/r1/goal"


def goal(x):
    message = PoseStamped()
    message.header.frame_id = "world"
    message.pose.position.x, message.pose.position.z = x, 1.0
    return message


def say_until_heard(publisher, x, inbox):
    """Published once the inbox is there, as by a person who sees the robot."""
    end = time.monotonic() + patience(5.0)
    while publisher.get_subscription_count() < 1:
        assert time.monotonic() < end
        time.sleep(0.01)
    publisher.publish(goal(x))
    receive(inbox, lambda command: command["goal_pos"][0] == np.float32(x))


def test_a_goal_of_rviz_arrives_and_a_latched_one_from_before(monkeypatch):
    with operated(CRAZYFLIE, (GOAL_POS,), monkeypatch) as (inbox, operator, _):
        inbox.start(state_of(CRAZYFLIE))
        say_until_heard(operator.create_publisher(PoseStamped, TOPIC, RVIZ), 1.0, inbox)
    with operated(CRAZYFLIE, (), monkeypatch) as (_, operator, robot):
        operator.create_publisher(PoseStamped, TOPIC, qos.LATCHED).publish(goal(2.0))
        late = robot.subscribe(PoseStamped, "goal", qos.LATCHED)
        end = time.monotonic() + patience(5.0)
        while (taken := late.take()) is None:
            assert time.monotonic() < end, "who comes late does not hear what was said before"
            time.sleep(0.01)
        assert taken[0].pose.position.x == 2.0


def test_a_goal_of_a_program_that_ends_at_once_arrives(monkeypatch):
    """As of `ros2 topic pub --once`: it waits for a listener, speaks once, and is gone after a tenth of a second."""
    with operated(CRAZYFLIE, (GOAL_POS,), monkeypatch) as (inbox, _, robot):
        inbox.start(state_of(CRAZYFLIE))
        domain = int(os.environ["ROS_DOMAIN_ID"])
        with quiet_context(domain, ros_environment(domain)) as context:
            person = rclpy.create_node("person", context=context)
            publisher, end = person.create_publisher(PoseStamped, TOPIC, RVIZ), time.monotonic() + patience(5.0)
            while publisher.get_subscription_count() < 1:
                assert time.monotonic() < end
                time.sleep(0.01)
            publisher.publish(goal(1.5))
            time.sleep(0.1)
            person.destroy_node()
        time.sleep(0.5)  # it is gone
        assert inbox.update(robot.clock.now_ns())["goal_pos"][0] == 1.5


def test_what_was_said_later_stands_from_each_sender_and_nothing_is_heard_twice(monkeypatch):
    with operated(CRAZYFLIE, (GOAL_POS,), monkeypatch) as (inbox, operator, robot):
        inbox.start(state_of(CRAZYFLIE))
        latched, rviz = (operator.create_publisher(PoseStamped, TOPIC, profile) for profile in (qos.LATCHED, RVIZ))
        box = robot.subscribe(PoseStamped, "goal", qos.HISTORY)
        for x, publisher in ((0.5, latched), (1.0, rviz), (1.5, latched), (2.0, rviz)):
            say_until_heard(publisher, x, inbox)
        time.sleep(0.3)
        assert inbox.update(robot.clock.now_ns())["goal_pos"][0] == 2.0  # the latched one does not come back
        heard = []
        while (taken := box.take()) is not None:
            heard.append(taken[0].pose.position.x)
        assert heard == [0.5, 1.0, 1.5, 2.0]


BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.mark.parametrize(
    ("kind", "profile", "says"),
    [
        (PoseStamped, BEST_EFFORT, "Best effort publisher and reliable subscription"),
        (Pose, RVIZ, "/r1/goal of /elsewhere has type geometry_msgs/msg/Pose; expected geometry_msgs/msg/PoseStamped"),
    ],
)
def test_a_publisher_that_cannot_be_heard_is_reported_in_the_log(monkeypatch, kind, profile, says):
    with operated(CRAZYFLIE, (GOAL_POS,), monkeypatch) as (_, operator, robot):
        executor = SingleThreadedExecutor()
        executor.add_node(robot)
        log = Mailbox(operator, Log, "/rosout", qos.HISTORY)
        domain = int(os.environ["ROS_DOMAIN_ID"])
        with quiet_context(domain, ros_environment(domain)) as context:  # a program of its own
            elsewhere = rclpy.create_node("elsewhere", context=context)
            elsewhere.create_publisher(kind, TOPIC, profile)
            end, lines = time.monotonic() + patience(20.0), []
            while not any(says in line for line in lines):
                assert time.monotonic() < end, lines
                executor.spin_once(timeout_sec=0.05)
                while (taken := log.take()) is not None:
                    lines.append(taken[0].msg)
            elsewhere.destroy_node()
        executor.shutdown()
        assert not any("DURABILITY" in line for line in lines)


def test_sensors_are_heard_by_who_asks_for_reliable_ones(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as team:
        team.start("simulated_robots")
        box = Mailbox(team.node, Odometry, "/cf1/odom", QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE))
        end = time.monotonic() + patience(3.0)
        while box.take() is None:
            assert time.monotonic() < end, "a reliable subscriber hears no odometry"
            time.sleep(0.01)


def test_a_bag_holds_every_goal_once_and_when_it_was_published(tmp_path):
    from mcap.reader import make_reader
    from rosbags.highlevel import AnyReader

    parameters = {"/recorder": {"team": ["cf1"], "bag": str(tmp_path / "bag")}}
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], parameters=parameters) as team:
        team.start("recorder")
        begun_ns: list[int] = []
        for durability in (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL):
            publisher = team.node.create_publisher(PoseStamped, "/cf1/goal", QoSProfile(depth=1, durability=durability))
            end = time.monotonic() + patience(5.0)
            while publisher.get_subscription_count() < 1:
                assert time.monotonic() < end
                time.sleep(0.01)
            begun_ns.append(time.time_ns())
            publisher.publish(goal(1.0))
        time.sleep(2.5)
        shutil.copytree(tmp_path / "bag", tmp_path / "killed" / "bag")  # as it is left by who is killed now
        team.transition(DEACTIVATE, "recorder")
    for folder in (tmp_path, tmp_path / "killed"):
        with AnyReader([folder / "bag"]) as bag:
            assert {c.topic: c.msgcount for c in bag.connections}["/cf1/goal"] == 2
            assert [c.topic for c, _, _ in bag.messages()].count("/cf1/goal") == 2
        with (folder / "bag" / "bag.mcap").open("rb") as file:
            heard = [(m.publish_time, m.log_time) for _, _, m in make_reader(file).iter_messages(["/cf1/goal"])]
        for asked_ns, (sent_ns, came_ns) in zip(begun_ns, sorted(heard), strict=True):
            assert asked_ns <= sent_ns < came_ns  # when it was published, and when it arrived


def test_every_node_says_once_a_second_how_it_is(tmp_path):
    """By REP-107, where rqt_robot_monitor and an aggregator look for it."""
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as team:
        box = Mailbox(team.node, DiagnosticArray, "/diagnostics", QoSProfile(depth=20))
        team.start("simulated_robots", "cf1/shield")
        states, end = {}, time.monotonic() + patience(5.0)
        while states != {"simulated_robots: node": "active", "cf1/shield: node": "active"}:
            assert time.monotonic() < end, states
            while (taken := box.take()) is not None:
                assert taken[0].header.stamp.sec > 0
                states |= {s.name: s.message for s in taken[0].status if s.name.endswith("node")}
            time.sleep(0.02)


COMMANDS = """
import time
from ros_nodes.lifecycle.transport import avoid_shared_memory
avoid_shared_memory()
import rclpy
from sensor_msgs.msg import JointState
from ros_nodes.messages import qos
rclpy.init()
publisher = rclpy.create_node("other_computer").create_publisher(JointState, "/cf1/command", qos.COMMAND_OUT)
while True:
    publisher.publish(JointState())
    time.sleep(0.02)
"""


def test_commands_of_a_computer_whose_clock_is_behind_are_heard(tmp_path):
    clock, domain = SystemClock(tmp_path), free_domain_id()
    environment = ros_environment(domain)
    clock.step(-0.2)
    with quiet_context(domain, environment) as context:
        node = rclpy.create_node("robot", context=context)
        commands = Mailbox(node, JointState, "/cf1/command", qos.COMMAND_IN)
        sender = subprocess.Popen([sys.executable, "-c", COMMANDS], env=os.environ | environment | clock.environment)
        try:
            ages_s, until = [], time.monotonic() + patience(20.0)
            while len(ages_s) < 50 and time.monotonic() < until:
                if taken := commands.subscription.handle.take_message(JointState, False):
                    ages_s.append(time.time() - taken[1]["source_timestamp"] * 1e-9)
                time.sleep(0.01)
        finally:
            sender.kill()
            sender.wait()
            node.destroy_node()
    assert len(ages_s) == 50 and min(ages_s) > 0.2, "as DDS sees them"
    # A middleware that drops by the receiver's clock leaves that much for the clocks to differ.
    assert qos.COMMAND_OUT.lifespan.nanoseconds >= 0.5e9
