"""What a node has heard grows old, whatever the clocks of those who said it."""

import signal
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from ros_rig import IdleNode
from sensor_msgs.msg import JointState

from deploy.shield import Mode, ShieldReport
from deploy.shield.authority import State
from deploy.shield.guards import check_peers
from hardware import load_robot
from hardware.types import ObjectState, Peers
from phalanx import cli
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import OdometryWriter, set_stamp
from ros_nodes.messages.diagnostics import ShieldStatus
from ros_nodes.messages.peers_say import PeersSay
from ros_nodes.messages.subscriptions import ObjectTable, OwnState, PeerTable
from ros_nodes.messages.topics import object_topic

pytestmark = pytest.mark.ros
LIMIT_S, AHEAD_S = 0.5, 0.02
THING = ObjectState(np.array([0.4, 0.1, 0.2]), np.array([1.0, 0, 0, 0]), np.zeros(3), np.zeros(3), np.zeros(()))


@contextmanager
def said_on(topic: str, monkeypatch):
    """A node that listens, and how to say on `topic` where a thing was when."""
    domain = free_domain_id()
    for name, value in ros_environment(domain).items():
        monkeypatch.setenv(name, value)
    rclpy.init(domain_id=domain)
    try:
        node = IdleNode("listener")
        publisher = node.create_publisher(Odometry, topic, qos.SENSOR)
        writer = OdometryWriter("thing")

        def say(time_ns: int, thing: ObjectState = THING) -> None:
            publisher.publish(writer.object(thing, time_ns))

        yield node, say
        node.stop()
        node.destroy_node()
    finally:
        rclpy.shutdown()


def heard(say, stamp_ns: int, update, found) -> None:
    """Say it again and again until `found(update())`."""
    until = time.monotonic() + patience(3.0)
    while not found(update()):
        assert time.monotonic() < until, "nothing was heard"
        say(stamp_ns)
        time.sleep(0.01)


@pytest.mark.parametrize(("is_pressed", "error"), [(True, KeyboardInterrupt), (False, TypeError)])
def test_a_ctrl_c_while_a_message_is_made_is_one_and_another_error_is_none(monkeypatch, is_pressed, error):
    def interrupted(*_args, **_fields):
        if is_pressed:
            cli._interrupt(signal.SIGINT, None)
        raise TypeError

    with said_on(object_topic("cube"), monkeypatch) as (node, say):
        mailbox = Mailbox(node, Odometry, object_topic("cube"), qos.SENSOR)
        heard(say, 1, mailbox.take, lambda taken: taken is not None)
        say(2)
        monkeypatch.setattr("geometry_msgs.msg.Point.__init__", interrupted)
        with pytest.raises(error):
            heard(lambda _: None, 1, mailbox.take, lambda taken: False)


@pytest.mark.parametrize(
    ("age_s", "current"), [(0.0, True), (0.4, True), (0.6, False), (-0.01, True), (-0.1, False), (-3600.0, False)]
)
def test_a_thing_is_current_unless_it_is_old_or_of_the_future(monkeypatch, age_s, current):
    with said_on(object_topic("cube"), monkeypatch) as (node, say):
        table, now_ns = ObjectTable(node, ["cube"]), time.time_ns()
        assert table.not_current(LIMIT_S, AHEAD_S) == ["cube"]
        stamp_ns = now_ns - round(age_s * 1e9)
        heard(say, stamp_ns, lambda: table.update(now_ns), lambda objects: np.isfinite(objects["cube"].pos).all())
        assert table.not_current(LIMIT_S, AHEAD_S) == ([] if current else ["cube"])


def test_a_peer_whose_clock_is_ahead_is_kept_clear_of_and_grows_old(monkeypatch):
    with said_on("/r2/odom", monkeypatch) as (node, say):
        table, now_ns = PeerTable(node, ["r2"]), time.time_ns()
        heard(say, now_ns + 3600 * 10**9, lambda: table.update(now_ns), lambda peers: peers.valid[0])
        for _ in range(50):  # what was said more than once
            table.update(now_ns)
        assert table.update(now_ns + 2 * 10**9).age[0] == pytest.approx(2.0)
        np.testing.assert_allclose(table.peers.pos[0], THING.pos)


@pytest.mark.parametrize("bad", [{"pos": 3e8}, {"pos": -2e4}, {"lin_vel": 1e8}, {"pos": np.nan}, {"lin_vel": np.inf}])
def test_numbers_that_no_robot_or_thing_has_count_as_its_silence(monkeypatch, bad):
    with said_on("/r2/odom", monkeypatch) as (node, say):
        peers, now_ns = PeerTable(node, ["r2"]), time.time_ns()
        monkeypatch.setattr("ros_nodes.messages.subscriptions.object_topic", lambda name: "/r2/odom")
        things = ObjectTable(node, ["cube"])

        def update(at_ns: int) -> tuple[Peers, ObjectState]:
            return peers.update(at_ns), things.update(at_ns)["cube"]

        heard(say, now_ns, lambda: update(now_ns), lambda found: found[0].valid[0] and np.isfinite(found[1].pos).all())
        ((name, value),) = bad.items()
        wrong = replace(THING, **{name: np.array([0.1, value, 0.2])})
        later_ns, until = now_ns + 10**9, time.monotonic() + patience(3.0)
        topic = peers._topics[0]
        while topic.newest(later_ns).motion.stamp_ns < later_ns:
            assert time.monotonic() < until
            say(later_ns, wrong)
            time.sleep(0.01)
        found, thing = update(later_ns)
        assert not check_peers(found) and found.age[0] == pytest.approx(1.0) and thing.age == pytest.approx(1.0)
        np.testing.assert_allclose(found.pos[0], THING.pos)
        np.testing.assert_allclose(thing.pos, THING.pos)


def test_what_a_peer_says_is_heard_once_for_all_shields_of_a_process(monkeypatch):
    with said_on("/r2/odom", monkeypatch) as (one, _):
        two = IdleNode("other")
        two.hub = one
        publisher = one.create_publisher(DiagnosticArray, "/r2/status", qos.HISTORY)
        status = ShieldStatus("r2", 1.0, separation_m=0.4)
        status.update(0.0, State.POLICY, "", ShieldReport(Mode.NOMINAL, "", 1.0, (), 0.0, filtered=True), 0.0)
        publisher.publish(status.message(time.time_ns(), {"r1": 0.01, "r3": 0.01}))
        first = PeersSay(one, "r1", ["r2"], 0.1)
        subscriptions = one.count_subscribers("/r2/status")
        shields = first, PeersSay(two, "r3", ["r2"], 0.1)
        assert one.count_subscribers("/r2/status") == subscriptions > 0
        until = time.monotonic() + patience(3.0)
        while not all(say.sharing.shares[0] and say.sharing.separation_m[0] == 0.4 for say in shields):
            assert time.monotonic() < until, "nothing was heard"
            for say in shields:
                say.hear(time.monotonic())
        one.stop()
        assert one.count_subscribers("/r2/status") == subscriptions, "the other one still listens"
        two.stop()
        assert not one.count_subscribers("/r2/status")
        two.destroy_node()


def test_a_part_of_the_future_does_not_hide_that_it_is_silent(monkeypatch):
    spec, now_ns = load_robot("g1"), time.time_ns()
    with said_on("/odom", monkeypatch) as (node, say):
        own = OwnState(node, spec, [0.0] * 4)
        joints = JointState(name=list(spec.joint_names), position=[0.0] * 29, velocity=[0.0] * 29)
        set_stamp(joints.header.stamp, now_ns)
        publisher = node.create_publisher(JointState, "/joint_states", qos.SENSOR)

        def say_both(stamp_ns: int) -> None:
            say(stamp_ns)
            publisher.publish(joints)

        heard(say_both, now_ns + 3600 * 10**9, lambda: own.update(now_ns), lambda _: own.stamp_ns)
        assert own.state.age < -3000.0  # which no consumer takes for current
