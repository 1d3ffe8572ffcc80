"""The shield node against a policy that is hostile, a peer that is silent, and its own death."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseArray
from nav_msgs.msg import Odometry
from ros_rig import HOVER, SPEC, Rig
from sensor_msgs.msg import BatteryState, JointState

from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.bring_up import ACTIVATE, DEACTIVATE, BringUpError
from ros_nodes.lifecycle.series import read_series
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import OdometryWriter, set_stamp
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.mission.failures import events
from ros_nodes.mission.mission_metrics import MODES

pytestmark = pytest.mark.ros
LOW, HIGH = np.float32(SPEC.command_low), np.float32(SPEC.command_high)
FALLBACK = ("HOLD", "LAND", "OFF")


def hover_request(rig: Rig, robot: str = "cf1", goal=(0.0, 0.0, 1.0)) -> tuple[np.ndarray, int]:
    """What a sane policy would ask for: fly to `goal` and stay; with the measurement's stamp."""
    state, stamp = rig.state(robot)
    w, x, y, z = state.base_quat
    up_b = np.array([2 * (x * z - w * y), 2 * (y * z + w * x)])
    yaw = 2 * np.arctan2(z, w)
    turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
    error_b = turn @ (np.array(goal[:2]) - state.base_pos[:2])
    lean = np.clip(0.25 * error_b - 0.2 * state.base_lin_vel[:2], -0.25, 0.25)
    climb = 4.0 * (goal[2] - state.base_pos[2]) - 3.0 * state.base_lin_vel[2]
    thrust = SPEC.mass_kg * (9.81 + climb)
    return np.float32([thrust, -6.0 * (up_b[1] + lean[1]), 6.0 * (up_b[0] + lean[0]), 0.0]), stamp


class Requests:
    """Publishes requests the way a policy does, or does not."""

    def __init__(self, rig: Rig, robot: str = "cf1"):
        self._rig = rig
        self._robot = robot
        self._publisher = rig.publisher(robot)
        self._converter = CommandConverter(SPEC.channels)

    def good(self, goal=(0.0, 0.0, 1.0)) -> None:
        target, stamp = hover_request(self._rig, self._robot, goal)
        self._publisher.publish(self._converter.write(ActuatorCommand(target), stamp))

    def send(self, target, shift_s: float = 0.0) -> None:
        stamp = time.time_ns() + round(shift_s * 1e9)
        self._publisher.publish(self._converter.write(ActuatorCommand(np.float32(target)), stamp))

    def raw(self, message: JointState) -> None:
        set_stamp(message.header.stamp, time.time_ns())
        self._publisher.publish(message)


def is_sane(command: ActuatorCommand) -> bool:
    return bool(np.isfinite(command.target).all() and (command.target >= LOW).all() and (command.target <= HIGH).all())


@pytest.fixture
def rig(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as rig:
        rig.start("simulated_robots", "cf1/shield")
        yield rig


def test_garbage_is_never_forwarded_and_ends_in_a_fallback(rig):
    requests, names = Requests(rig), list(SPEC.channel_names)
    rig.watch("cf1", 1.5, lambda t: requests.good())
    assert rig.mode("cf1") in ("NOMINAL", "FILTERED")
    garbage = [
        lambda: requests.send([np.nan, 0, 0, 0]),
        lambda: requests.send([0.4, np.inf, 0, 0]),
        lambda: requests.raw(JointState(name=["left_knee"], position=[1.0])),
        lambda: requests.raw(JointState(name=names, effort=[0.4], velocity=[0.0] * 4)),
        lambda: requests.raw(JointState()),
        lambda: requests.send(HOVER, shift_s=3600.0),
        lambda: requests.send(HOVER, shift_s=-3600.0),
    ]
    commands = rig.watch("cf1", 1.0, lambda t: garbage[int(t / 0.02) % len(garbage)]())
    assert len(commands) > 40
    assert rig.stamps_ns == sorted(rig.stamps_ns) and time.time_ns() - rig.stamps_ns[-1] < 1e9
    assert all(is_sane(command) for command in commands)
    assert rig.mode("cf1") in FALLBACK
    assert np.linalg.norm(rig.state("cf1")[0].base_pos - [0, 0, 1]) < 0.4


def test_bytes_that_are_no_message_of_their_topic_count_as_silence_also_for_who_joins_late(rig):
    requests, node = Requests(rig), rig.node
    rig.watch("cf1", 1.5, lambda t: requests.good())
    junk = (b"\0\1\0\0", b"\0\1\0\0" + b"\xff" * 40, b"\xff" * 64)
    for kind, topic, profile in (
        (BatteryState, "/cf1/battery_state", qos.LATCHED),
        (DiagnosticArray, "/cf1/device", qos.LATCHED),
        (DiagnosticArray, "/cf1/policy/status", qos.LATCHED),
        (PoseArray, "/people", qos.SENSOR),
        (Odometry, "/cf2/odom", qos.SENSOR),
    ):
        publisher = node.create_publisher(kind, topic, profile)
        rig.watch("cf1", 0.3, lambda t: requests.good())
        for each in junk:
            publisher.publish(each)
        commands = rig.watch("cf1", 0.4, lambda t: requests.good())
        assert len(commands) > 12 and all(is_sane(command) for command in commands), topic
        node.destroy_publisher(publisher)
    rig.watch("cf1", 0.5, lambda t: requests.good())
    assert rig.mode("cf1") in ("NOMINAL", "FILTERED")
    assert abs(rig.state("cf1")[0].base_pos[2] - 1.0) < 0.3


def test_requests_beyond_the_limits_are_cut_to_them_and_a_flood_is_no_flood_of_commands(rig):
    requests = Requests(rig)

    def flood(t: float) -> None:
        for _ in range(20):
            requests.good()

    commands = rig.watch("cf1", 1.5, flood)
    assert len(commands) < 1.5 * 2.5 * SPEC.control_hz
    assert rig.mode("cf1") in ("NOMINAL", "FILTERED")
    commands = rig.watch("cf1", 0.6, lambda t: requests.send([1e9, -1e9, 1e9, 1e9]))
    assert all(is_sane(command) for command in commands)
    rig.watch("cf1", 1.0, lambda t: requests.good())
    low, high = np.array(rig.params.geofence_low), np.array(rig.params.geofence_high)
    position = rig.state("cf1")[0].base_pos
    assert (position > low).all() and (position < high).all()


def test_a_short_gap_of_requests_is_held_and_told_and_the_policy_goes_on(rig):
    requests = Requests(rig)
    rig.fly("cf1", 1.5, lambda t: requests.good())
    rig.node.changes["cf1"].clear()
    rig.watch("cf1", 0.25)  # silence
    rig.watch("cf1", 1.0, lambda t: requests.good())
    assert rig.mode("cf1") in ("NOMINAL", "FILTERED")
    hold, *_ = (mode for mode in rig.node.changes["cf1"] if mode.mode in FALLBACK)
    assert hold.mode == "HOLD" and not hold.latched and "request" in hold.reason
    assert rig.node.shields[0].last_delay.endswith("ms: the policy was late, or had ended")
    os.kill(rig.processes.pid("cf1_shield"), signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(rig.processes.pid("cf1_shield"), signal.SIGCONT)
    rig.watch("cf1", 0.5, lambda t: requests.good())
    rig.node.update()
    late = [event["reason"] for event in events(rig.node.changes, 0)]
    assert any("no command for 3" in reason and "shield's process stood still" in reason for reason in late), late


def test_a_policy_that_dies_is_replaced_before_its_last_request_is_older_than_five_periods(rig):
    """The shield wakes for that moment, not at its next cycle after it: that would be 5 ms later at least.

    One that was late itself may be a quarter of a period older.
    """
    requests = Requests(rig)

    def silence_ms(late_s: float) -> float:
        """How old a request that was `late_s` old when it was sent has become when the robot is held."""
        rig.fly("cf1", 0.6, lambda t: requests.good())
        rig.watch("cf1", late_s)
        requests.send(hover_request(rig)[0], -late_s)
        rig.watch("cf1", 0.16)
        series = read_series(rig.series / "cf1_shield.npy")
        held = np.isin(series["mode"], [MODES.index(name) for name in FALLBACK])
        return float(series["request_age_ms"][np.flatnonzero(held & ~np.roll(held, 1))[-1]])

    for late_s, longest_ms in ((0.0, 104.0), (0.033, 109.0)):
        ages_ms = [silence_ms(late_s) for _ in range(3)]
        assert min(ages_ms) > 100.0 and min(ages_ms) < longest_ms, (late_s, ages_ms)


def test_estop_stops_and_only_a_person_resets(rig):
    requests = Requests(rig)
    rig.watch("cf1", 1.0, lambda t: requests.good())
    rig.ask("cf1", "estop")
    rig.watch("cf1", 0.5, lambda t: requests.good())
    assert rig.mode("cf1") == "ESTOP" and rig.authority("cf1") == "STOPPED"
    assert "STOPPED" in rig.asked("cf1", "arm") and "STOPPED" in rig.asked("cf1", "start")
    rig.watch("cf1", 0.5, lambda t: requests.good())
    assert rig.mode("cf1") == "ESTOP"
    rig.ask("cf1", "reset")
    rig.watch("cf1", 0.3, lambda t: requests.good())
    assert rig.mode("cf1") == "OFF" and rig.authority("cf1") == "DISARMED", "arming is a second act"


def test_a_stop_outlives_deactivation_and_the_death_of_the_shield_and_moves_nothing_then(rig):
    requests = Requests(rig)
    rig.watch("cf1", 0.5, lambda t: requests.good())
    rig.ask("cf1", "estop")
    rig.watch("cf1", 0.3, lambda t: requests.good())
    rig.transition(DEACTIVATE, "cf1/shield")
    rig.transition(ACTIVATE, "cf1/shield")
    rig.watch("cf1", 0.7, lambda t: requests.good())
    assert rig.authority("cf1") == "STOPPED"
    rig.processes.kill("cf1_shield")
    rig.start("cf1/shield", armed=False)
    commands = rig.watch("cf1", 0.7, lambda t: requests.good())
    assert rig.authority("cf1") == "STOPPED" and not commands
    rig.ask("cf1", "reset")
    rig.ask("cf1", "arm")


def test_nothing_is_sent_before_somebody_arms_and_a_flying_shield_is_not_deactivated(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, SPEC.home_height_m, 0.0]]) as rig:
        rig.start("simulated_robots", "cf1/shield", armed=False)
        requests = Requests(rig)
        assert not rig.watch("cf1", 1.0, lambda t: requests.good()), "activation moves nothing"
        assert "DISARMED" in rig.asked("cf1", "start")
        rig.ask("cf1", "arm")
        rig.watch("cf1", 0.5, lambda t: requests.good())
        assert rig.state("cf1")[0].base_pos[2] < 0.05
        rig.ask("cf1", "start")
        rig.watch_until("cf1", lambda: rig.authority("cf1") == "POLICY", 6.0, lambda t: requests.good())
        rig.watch_until("cf1", lambda: rig.state("cf1")[0].base_pos[2] > 0.6, 6.0, lambda t: requests.good())
        with pytest.raises(BringUpError, match="refused to deactivate"):
            rig.transition(DEACTIVATE, "cf1/shield")
        rig.ask("cf1", "land")
        rig.watch_until("cf1", lambda: rig.authority("cf1") == "DISARMED", 7.0, lambda t: requests.good())
        assert rig.state("cf1")[0].base_pos[2] < 0.05
        rig.transition(DEACTIVATE, "cf1/shield")


def test_a_second_policy_is_refused_before_the_flight_and_obeyed_never(rig):
    requests, second = Requests(rig), Requests(rig)
    rig.watch("cf1", 1.5, lambda t: (requests.good(), second.send([9.0, 0, 0, 0])))
    assert rig.mode("cf1") in FALLBACK, "it is held from the moment that there are two, and lands when that lasts"
    rig.ask("cf1", "estop")
    rig.watch("cf1", 0.2)
    rig.ask("cf1", "reset")
    assert "requested has 2 publishers" in rig.asked("cf1", "arm")


def test_a_shield_that_dies_in_flight_is_replaced(rig):
    requests = Requests(rig)
    rig.watch("cf1", 1.0, lambda t: requests.good())
    rig.processes.kill("cf1_shield")
    rig.start("cf1/shield")
    until = time.monotonic() + patience(5.0)  # until the middleware has told this process of the new shield
    while not rig.watch("cf1", 0.1, lambda t: requests.good()):
        assert time.monotonic() < until, "the new shield says nothing"
    commands = rig.watch("cf1", 1.5, lambda t: requests.good())
    assert len(commands) > 40
    assert all(is_sane(command) for command in commands)
    state = rig.state("cf1")[0]
    assert abs(state.base_quat[1]) + abs(state.base_quat[2]) < 0.3


def test_a_peer_that_falls_silent_is_kept_clear_of(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], team=["cf1", "cf2"]) as rig:
        rig.start("simulated_robots", "cf1/shield", armed=False)
        assert "never heard of cf2" in rig.asked("cf1", "arm")
        requests, peer = Requests(rig), np.array([1.2, 0.0, 1.0])
        voice = rig.node.create_publisher(Odometry, "/cf2/odom", qos.SENSOR)
        writer, closest = OdometryWriter("cf2/base_link"), [np.inf]

        state, silent = rig.state("cf1")[0], threading.Event()
        state.base_pos[:], state.base_lin_vel[:], state.base_quat[:] = peer, 0.0, (1, 0, 0, 0)

        def speak() -> None:
            while not silent.wait(0.02):
                voice.publish(writer.base(state, time.time_ns()))

        def act(t: float) -> None:
            if t > 1.0:  # it hovers on
                silent.set()
            if t > 0.5:
                requests.good(goal=(1.2, 0.0, 1.0))  # the policy wants to be where the peer is
            else:
                requests.good()
            closest[0] = min(closest[0], float(np.linalg.norm(rig.state("cf1")[0].base_pos - peer)))

        threading.Thread(target=speak, daemon=True).start()
        rig.watch("cf1", 0.3, act)
        for what in ("arm", "start"):
            rig.ask("cf1", what)
        rig.watch("cf1", 5.0, act)
        assert rig.params.separation_m < closest[0] < 1.1
