"""What `RobotMonitor` makes of what a robot says: ages, changes of state with their reasons, swaps of policies."""

import time
from math import isnan

import pytest
from patience import patience

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from deploy.shield.authority import LANDED, State
from deploy.shield.supervisor import Mode, ShieldReport
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import set_stamp
from ros_nodes.messages.diagnostics import REQUEST_AGE, ShieldStatus, policy_status, read_status, value_of
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.operation.robot_monitor import RobotMonitor

pytestmark = pytest.mark.ros


def test_what_a_shield_measured_ages_on_when_it_is_not_heard_any_more():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = Node("shields", context=context)
        robot = RobotMonitor(node, "cf1")
        status = ShieldStatus("cf1", 0.5)
        status.update(0.0, State.POLICY, "", ShieldReport(Mode.NOMINAL, "", 1.0, (), 0.0), 0.0, 0.25)
        node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY).publish(status.message(time.time_ns()))
        until = time.monotonic() + patience(20.0)
        while not robot.heard:
            assert time.monotonic() < until
            robot.poll(time.time_ns())
        shown = [robot.snapshot(time.time_ns() + round(later_s * 1e9)) for later_s in (0.5, 4.0)]
        node.destroy_node()
    fresh, stopped = (each["state_age_s"] for each in shown)
    assert fresh == pytest.approx(0.25) and stopped == pytest.approx(0.25 + shown[1]["status_age_s"])


def test_before_the_first_request_there_is_no_age_of_it():
    """It was that of the epoch: 1.8e12 ms."""
    ages = {}
    for age_s in (0.25, time.time()):
        status = ShieldStatus("cf1", 0.5)
        status.update(0.0, State.ARMED, "", ShieldReport(Mode.HOLD, "", 1.0, (), 0.0), age_s)
        message = status.message(time.time_ns())
        ages[value_of(REQUEST_AGE, message)] = read_status(message).request_age_s
    assert list(ages) == ["250.0", "-"] and ages["250.0"] == 0.25 and isnan(ages["-"])


def test_a_delay_that_ended_with_a_change_of_state_is_not_given_as_its_reason():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = Node("shields", context=context)
        robot, status = RobotMonitor(node, "cf1"), ShieldStatus("cf1", 0.5)
        publisher = node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        nothing, found = ShieldReport(Mode.OFF, "", 1.0, (), 0.0), []
        for now_s, state, why, late in (
            (0.0, State.ARMED, "asked for", "before the monitor was there"),
            (0.1, State.FAULT, "link lost", "no measurement for 300 ms"),
            (0.2, State.FAULT, "link lost", "no measurement for 400 ms"),
        ):
            status.note(late)
            status.update(now_s, state, why, nothing, 0.0)
            publisher.publish(status.message(time.time_ns()))
        until = time.monotonic() + patience(20.0)
        while len(found) < 4 and time.monotonic() < until:
            found += robot.poll(time.time_ns())
        seen = [(change["from"], change["to"]) for change in robot.snapshot(time.time_ns())["changes"]]
        node.destroy_node()
    assert seen == [("ARMED", "ARMED"), ("ARMED", "FAULT"), ("FAULT", "FAULT")], "the first is no change"
    assert [(change.before, change.after, change.reason) for change in found] == [
        ("", "ARMED", "asked for"),
        ("ARMED", "ARMED", "no measurement for 300 ms"),
        ("ARMED", "FAULT", "link lost"),
        ("FAULT", "FAULT", "no measurement for 400 ms"),
    ]


def test_a_fault_of_a_device_that_is_over_by_the_next_look_is_kept_with_how_long_it_lasted():
    domain_id, now_ns = free_domain_id(), time.time_ns()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = Node("shields", context=context)
        robot, status = RobotMonitor(node, "cf1"), ShieldStatus("cf1", 0.5)
        status.update(0.0, State.POLICY, "", ShieldReport(Mode.NOMINAL, "", 1.0, (), 0.0), 0.0, 0.0)
        node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY).publish(status.message(now_ns))
        says = node.create_publisher(DiagnosticArray, "/cf1/device", qos.LATCHED)
        shown = []
        for number, fault in enumerate(("", "link lost", "")):
            said = DiagnosticArray(status=[DiagnosticStatus(values=[KeyValue(key="fault", value=fault)])])
            set_stamp(said.header.stamp, now_ns + round(4e8 * number))
            until = time.monotonic() + patience(20.0)
            while not shown or shown[-1]["device"] != fault or "device" not in robot._boxes:
                assert time.monotonic() < until
                says.publish(said)
                robot.poll(time.time_ns())
                robot.look()
                shown.append(robot.snapshot(time.time_ns()))
        node.destroy_node()
    last = shown[-1]["last_device_fault"]
    assert last["fault"] == "link lost" and last["until_s"] - last["since_s"] == pytest.approx(0.4, abs=0.01)


def test_a_shield_that_was_started_again_is_the_reason_why_its_robot_is_disarmed():
    """There was none, as if a person had disarmed it in the air."""
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node, found = Node("shields", context=context), []
        robot, publisher = RobotMonitor(node, "cf1"), node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        nothing = ShieldReport(Mode.NOMINAL, "", 1.0, (), 0.0)
        for state, why in ((State.POLICY, ""), (State.DISARMED, ""), (State.ARMED, "asked"), (State.DISARMED, LANDED)):
            status = ShieldStatus("cf1", 0.5)
            status.update(0.0, state, why, nothing, 0.0)
            publisher.publish(status.message(time.time_ns()))
        until = time.monotonic() + patience(20.0)
        while len(found) < 4 and time.monotonic() < until:
            found += robot.poll(time.time_ns())
        node.destroy_node()
    assert [change.reason for change in found] == ["", "its shield was started again", "asked", LANDED]


def test_a_swap_of_policies_is_an_event_with_the_file_that_flies_or_why_it_was_taken_back():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node, found, status = Node("robot", context=context), [], ShieldStatus("cf1", 0.5)
        robot, publisher = RobotMonitor(node, "cf1"), node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        status.update(0.0, State.POLICY, "", ShieldReport(Mode.NOMINAL, "", 1.0, (), 0.0), 0.0)
        publisher.publish(status.message(time.time_ns()))
        policy = node.create_publisher(DiagnosticArray, "/cf1/policy/status", qos.LATCHED)
        until, taken_back = time.monotonic() + patience(20.0), "c.onnx was taken back, b.onnx flies on: too slow"
        for swap, fingerprint in (("z.onnx flies", "f0"), ("b.onnx flies", "f1"), (taken_back, "f1")):
            policy.publish(policy_status("cf1", "", {"swap": swap, "fingerprint": fingerprint}, time.time_ns()))
            while POLICY_STATUS not in robot._said or value_of("swap", robot._said[POLICY_STATUS][0]) != swap:
                assert time.monotonic() < until
                found += robot.poll(time.time_ns())
                robot.look()
        node.destroy_node()
    swaps = [change.reason for change in found if change.before == change.after == "POLICY"]
    assert swaps == ["b.onnx flies; fingerprint f1", taken_back], "what was so before it listened is no event"
