"""Batteries of simulated robots and of drivers: published, shown, and a low one keeps its robot on the ground."""

import json
import time
from math import isnan, nan

import pytest
from patience import patience
from places import TESTS

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ros_rig import HOVER, SPEC, Rig
from sensor_msgs.msg import BatteryState, JointState

from hardware.types import ActuatorCommand
from ros_nodes.messages import qos
from ros_nodes.messages.battery import BatteryTopic, check_charges, too_empty
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.operation.monitor import monitoring

STANDS = [[0.0, 0.0, 1.0, 0.0]]


def heard(rig: Rig, within_s: float = 5.0) -> BatteryState:
    """The next message of cf1's battery."""
    found: list[BatteryState] = []
    subscription = rig.node.create_subscription(BatteryState, "/cf1/battery_state", found.append, qos.LATCHED)
    until = time.monotonic() + within_s
    while not found:
        assert time.monotonic() < until, "nothing was said of the battery"
        rig.executor.spin_once(timeout_sec=0.1)
    rig.node.destroy_subscription(subscription)
    return found[-1]


@pytest.mark.ros
def test_a_robot_with_a_low_battery_is_not_armed_and_it_shows(tmp_path):
    with Rig(tmp_path, STANDS, parameters={"/simulated_robots": {"battery_charge": 0.12}}) as rig:
        rig.start("simulated_robots", "cf1/shield", armed=False)
        heard(rig)
        assert "battery at 12 %, needs 20 %" in rig.asked("cf1", "arm", within_s=3.0)
        found: list[DiagnosticStatus] = []
        rig.node.create_subscription(
            DiagnosticArray, "/diagnostics", lambda m: found.extend(s for s in m.status if "shield" in s.name), 10
        )
        until = time.monotonic() + patience(5.0)
        while not found:
            assert time.monotonic() < until
            rig.executor.spin_once(timeout_sec=0.1)
        assert found[-1].level == DiagnosticStatus.WARN and "battery at 12 %" in found[-1].message
        values = {v.key: v.value for v in found[-1].values}
        assert values["battery [%]"] == "12" and values["state"] == "DISARMED"
        rig.ask("cf1", "estop")
        while found[-1].level != DiagnosticStatus.ERROR:
            assert time.monotonic() < until, found[-1].message
            rig.executor.spin_once(timeout_sec=0.1)
        assert "STOPPED (ESTOP): emergency stop; battery at 12 %" in found[-1].message
        with monitoring(["cf1"], rig.node.context.get_domain_id()) as monitor:
            until = time.monotonic() + patience(8.0)
            while not (monitor.heard and monitor.snapshot()["robots"][0]["battery"]):
                assert time.monotonic() < until
                monitor.poll()
                time.sleep(0.1)
            assert monitor.snapshot()["robots"][0]["battery"] == {"charge": pytest.approx(0.12), "voltage": None}


@pytest.mark.ros
def test_a_robot_whose_battery_runs_down_in_flight_lands_with_the_reason(tmp_path):
    charges = {"/simulated_robots": {"battery_charge": 0.202}, "/**/shield": {"land_charge": 0.2}}
    with Rig(tmp_path, STANDS, parameters=charges) as rig:
        rig.start("simulated_robots", "cf1/shield", armed=False)
        rig.ask("cf1", "arm")
        rig.watch_until("cf1", lambda: rig.authority("cf1") == "LANDING", 15.0)
        assert rig.node.shields[0].reason == "battery at 19 %, below 20 % for over 5 s"
        assert "reset: battery at" in rig.asked("cf1", "reset")
        assert rig.authority("cf1") == "LANDING"


@pytest.mark.ros
def test_a_reset_is_refused_with_an_empty_battery_also_where_something_else_came_first(tmp_path):
    """Its first word of being empty counts: a PX4 lands by its own failsafe before the shield would have it land."""
    with Rig(tmp_path, STANDS) as rig:
        rig.start("cf1/shield", armed=False)
        battery = rig.node.create_publisher(BatteryState, "/cf1/battery_state", qos.LATCHED)
        battery.publish(BatteryState(percentage=0.03))
        until = time.monotonic() + patience(5.0)
        while "battery at 3 %" not in rig.asked("cf1", "arm"):
            assert time.monotonic() < until
        rig.ask("cf1", "estop")
        assert rig.asked("cf1", "reset", within_s=1.0) == "reset: battery at 3 %, below 10 %"
        assert rig.authority("cf1") == "STOPPED"
        battery.publish(BatteryState(percentage=0.9))
        rig.ask("cf1", "reset")


class Topic:
    """A node and its mailbox, into which a test puts messages."""

    def __init__(self):
        self.messages, self.publishers = [], 1

    def subscribe(self, *_):
        return self

    def count_publishers(self, _):
        return self.publishers

    def take(self):
        return (self.messages.pop(0), 0) if self.messages else None

    def say(self, battery: BatteryTopic, now_s: float, charge: float) -> str:
        self.messages.append(BatteryState(percentage=charge))
        battery.hear(now_s)
        return battery.run_down


def test_a_battery_is_run_down_when_it_has_said_so_for_five_seconds_and_not_by_a_bad_reading_or_a_sag():
    topic = Topic()
    battery = BatteryTopic(topic, 0.2, 0.1)
    assert [topic.say(battery, t, c) for t, c in enumerate([0.5, 0.02, 0.5, 0.09, 0.08, 0.05, 0.3])] == [""] * 7
    topic.say(battery, 10.0, 0.02)
    for cycle in range(200):  # one bad reading, then silence
        battery.hear(10.0 + 0.1 * cycle)
    assert battery.run_down == ""
    assert topic.say(battery, 30.0, 0.5) == ""
    said = [topic.say(battery, 40.0 + t, c) for t, c in enumerate([0.09, 0.08, nan, 0.08, 8.0, 0.07])]
    assert said == [""] * 5 + ["battery at 7 %, below 10 % for over 5 s"]
    assert topic.say(battery, 46.0, 0.11) == ""
    topic.publishers = 2  # a stranger lands no robot; nor is the robot armed then
    assert [topic.say(battery, 50.0 + t, 0.01) for t in range(10)] == [""] * 10


def test_a_charge_to_land_below_is_no_higher_than_that_to_arm_from():
    check_charges(0.2, 0.2)
    with pytest.raises(ValueError, match=r"lands below a charge of 0\.3: at most 0\.2, from which on it is armed"):
        check_charges(land_charge=0.3)


@pytest.mark.ros
def test_a_robot_whose_battery_has_not_been_heard_of_yet_is_not_armed(tmp_path):
    with Rig(tmp_path, STANDS) as rig:
        rig.start("cf1/shield", armed=False)
        assert "battery" not in rig.asked("cf1", "arm")  # there is none: nothing to wait for
        battery = rig.node.create_publisher(BatteryState, "/cf1/battery_state", qos.LATCHED)
        until = time.monotonic() + patience(5.0)
        while "no word of the battery yet" not in rig.asked("cf1", "arm"):
            assert time.monotonic() < until
        battery.publish(BatteryState(percentage=0.9))
        while "battery" in rig.asked("cf1", "arm"):
            assert time.monotonic() < until
        rig.node.create_publisher(BatteryState, "/cf1/battery_state", qos.LATCHED)
        while "battery_state has 2 publishers where one is due" not in rig.asked("cf1", "arm"):
            assert time.monotonic() < until


@pytest.mark.ros
def test_a_battery_lasts_as_long_as_the_maker_says_and_only_work_empties_it(tmp_path):
    with Rig(tmp_path, STANDS) as rig:
        rig.start("simulated_robots")
        assert heard(rig).percentage == 1.0 and isnan(heard(rig).voltage)
        publisher = rig.node.create_publisher(JointState, "/cf1/command", qos.COMMAND_IN)
        converter = CommandConverter(SPEC.channels)
        begin = time.monotonic()
        rig.watch("cf1", 6.0, lambda _: publisher.publish(converter.write(ActuatorCommand(HOVER), time.time_ns())))
        time.sleep(1.1)
        worked_s = time.monotonic() - begin
        used_s = (1.0 - heard(rig).percentage) * SPEC.endurance_s
        assert worked_s - 2.5 < used_s < worked_s + 0.1
        idle = 0.1 * HOVER  # as of motors on the ground
        rig.watch("cf1", 5.0, lambda _: publisher.publish(converter.write(ActuatorCommand(idle), time.time_ns())))
        time.sleep(1.1)
        assert (1.0 - heard(rig).percentage) * SPEC.endurance_s - used_s < 2.5


@pytest.mark.ros
def test_a_drivers_battery_is_published(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    options = {"driver": "mujoco_driver:BatteryDriver", "options": json.dumps({"log": str(tmp_path / "stopped")})}
    with Rig(tmp_path, STANDS, parameters={"/**/driver": options}) as rig:
        rig.start("cf1/driver")
        battery = heard(rig)
        assert battery.percentage == 0.5 and battery.voltage == pytest.approx(3.7) and battery.present


def test_an_unknown_charge_keeps_no_robot_on_the_ground():
    assert too_empty(None, 0.2) == too_empty(BatteryState(percentage=float("nan")), 0.2) == ""
    assert too_empty(BatteryState(percentage=0.2), 0.19) == ""
    assert too_empty(BatteryState(percentage=12.0), 0.2) == "battery_state says 12 where a share from 0 to 1 is due"
    assert too_empty(BatteryState(percentage=0.19), 0.2) == "battery at 19 %, needs 20 %"
