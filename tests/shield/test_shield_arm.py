"""The supervisor of arms in real physics: dead policies, broken sensors, emergency stops; it never goes limp."""

import re
from dataclasses import replace

import numpy as np
import pytest
from shield_arm import three_joint_arm, without_shapes
from shield_stand import Stand

from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield.fallback import FallbackCommand
from deploy.shield.types import NO_PEERS
from hardware import ActuatorCommand, RobotSpec, load_robot

ROBOTS = ("three_joint_arm", "panda", "ur5e")


@pytest.fixture
def arm(tmp_path) -> RobotSpec:
    return three_joint_arm(tmp_path)


def load(name: str, folder) -> RobotSpec:
    spec = three_joint_arm(folder) if name == "three_joint_arm" else load_robot(name)
    return without_shapes(spec, folder) if spec.fixed_base else spec


def in_motion(spec: RobotSpec) -> Stand:
    """Half a second into a motion of all joints towards their upper limits."""
    stand = Stand(spec).after_ramp()
    stand.run(0.3, request=stand.high)
    assert (np.abs(stand.vel) > 0.3 * np.array(stand.params.max_velocity)).sum() >= 3
    return stand


def stops_on_its_path(stand: Stand, step, seconds: float) -> None:
    """All joints brake together and stay; the fastest joint says which way the arm was going."""
    start, heading, turning = stand.pos, stand.vel, np.array([c.unit == "rad" for c in stand.spec.channels])
    limits = np.array(stand.params.max_velocity)
    travelled = []
    for _ in range(round(seconds / stand.dt_s)):
        step()
        travelled.append(stand.pos - start)
        if len(travelled) == 3:  # no blow: braking takes its time
            fast = turning & (np.abs(heading) > 0.3 * limits)
            assert (np.abs(stand.vel)[fast] > 0.4 * np.abs(heading)[fast]).all()
        assert (np.abs(stand.vel) < 1.1 * np.maximum(np.abs(heading), 0.3 * limits))[turning].all()
    assert (np.abs(stand.vel) < 0.02 * limits)[turning].all()
    way, direction = travelled[-1][turning], heading[turning] / np.linalg.norm(heading[turning])
    off_path = way - (way @ direction) * direction
    assert way @ direction > 0 and np.linalg.norm(off_path) < 0.25 * np.linalg.norm(way)
    brake = stand.params.brake_share * np.array(stand.params.max_acceleration)[turning]
    stop_s = (np.abs(heading[turning]) / brake).max()
    assert (np.abs(way) < np.abs(heading[turning]) * (0.5 * stop_s + 0.12) + 0.02).all()


@pytest.mark.parametrize("name", ROBOTS)
def test_before_the_first_request_it_holds_the_pose_in_which_it_is_found(name, tmp_path):
    spec = load(name, tmp_path)
    low, high, home = (np.array([getattr(j, field) for j in spec.joints]) for field in ("low", "high", "home"))
    pose = home + 0.1 * (0.5 * (low + high) - home)
    stand = Stand(spec, pose)
    for _ in range(100):
        target, report = stand.step(request=None)
        np.testing.assert_allclose(target, pose[stand.channel], atol=1e-3)
        assert report.mode is Mode.HOLD and "waiting" in report.reason
    np.testing.assert_allclose(stand.pos, pose[stand.channel], atol=1e-3)


def test_a_robot_that_was_never_measured_is_not_to_be_commanded(arm):
    shield = Shield(make_shield_params(arm), arm)
    _, report = shield.step(1.0, Context(None, NO_PEERS), ActuatorCommand(np.zeros(3, np.float32)), 0.0)
    assert report.mode is Mode.OFF and report.reason == "no state"
    shield.estop()
    assert shield.step(1.02, Context(None, NO_PEERS), None, 0.0)[1].mode is Mode.OFF


@pytest.mark.parametrize("name", ROBOTS)
def test_activation_starts_from_the_measured_joints_and_ends_at_the_request(name, tmp_path):
    spec = load(name, tmp_path)
    stand = Stand(spec)
    request = stand.home[stand.channel] + 0.1 * (0.5 * (stand.low + stand.high) - stand.home[stand.channel])
    start = stand.pos
    first, _ = stand.step(request=request)
    np.testing.assert_allclose(first, start, atol=1e-3)
    sent, report = stand.run(3.0, request=request)
    assert report.mode is Mode.NOMINAL and sent.tobytes() == request.astype(np.float32).tobytes()
    np.testing.assert_allclose(stand.pos, request, atol=0.01)


@pytest.mark.parametrize("name", ROBOTS)
def test_an_arm_whose_policy_dies_brakes_on_its_path_and_holds_for_good(name, tmp_path):
    stand = in_motion(load(name, tmp_path))
    while stand.step(request=None)[1].mode is not Mode.HOLD:
        pass
    assert stand.modes[-stand.params.act_periods :].count(Mode.HOLD) == 1
    stops_on_its_path(stand, lambda: stand.step(request=None), 1.2)
    held = stand.pos
    _, report = stand.run(2.0)  # good requests again: latched all the same
    assert report.mode is Mode.HOLD and report.reason == "no request"
    np.testing.assert_allclose(stand.pos, held, atol=2e-3)
    stand.shield.reset()
    assert stand.run(2.0)[1].mode is Mode.NOMINAL


def test_an_arm_whose_policy_is_late_once_brakes_and_goes_on(arm):
    stand = in_motion(arm)
    stand.run(0.2, request=None)
    assert stand.modes[-1] is Mode.HOLD
    assert stand.run(0.5, request=stand.high)[1].mode in (Mode.NOMINAL, Mode.FILTERED)


@pytest.mark.parametrize("name", ROBOTS)
def test_an_emergency_stop_brakes_and_holds_and_never_lets_go(name, tmp_path):
    stand = in_motion(load(name, tmp_path))
    stand.shield.estop()
    stops_on_its_path(stand, lambda: stand.step(request=stand.high), 1.2)
    assert set(stand.modes[-60:]) == {Mode.ESTOP}
    _, report = stand.run(1.0, request=stand.high)
    assert report.mode is Mode.ESTOP and report.reason == "emergency stop"
    assert (np.abs(stand.vel) < 0.01).all()


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"request": None}, "no request"),
        ({"request": [np.nan, 0, 0]}, "request not finite"),
        ({"request": [0.0, 0.0]}, r"shape \(2,\)"),
        ({"request": [9.0, -1.0, 0.0]}, r"request shoulder = 9 outside -1.8 .. 1.8"),
        ({"age_s": 0.5}, "request 500 ms old, limit 100 ms"),
        ({"age_s": -1.0}, "request -1000 ms old"),
        ({"dt_s": 5.0}, r"clock jumped by 5\.000 s"),
        ({"dt_s": -5.0}, r"clock jumped by -5\.000 s"),
    ],
)
def test_bad_requests_and_clocks_end_in_a_hold(arm, kwargs, reason):
    stand = Stand(arm).after_ramp()
    held = stand.pos
    for _ in range(stand.params.act_periods + 1):
        _, report = stand.step(**kwargs)
        kwargs.pop("dt_s", None)
    assert report.mode is Mode.HOLD and re.search(reason, report.reason)
    stand.run(1.0)
    np.testing.assert_allclose(stand.pos, held, atol=2e-3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"joint_pos": np.float32([np.nan, 0, 0])}, "state not finite"),
        ({"joint_pos": np.zeros(4, np.float32)}, r"shape \(4,\) where \(3,\) is due"),
        ({"joint_vel": np.zeros(2, np.float32)}, r"shape \(2,\) where \(3,\) is due"),
        ({"joint_pos": np.float32([2.4, -1.2, 0])}, "shoulder measured at 2.4 outside -1.8 .. 1.8"),
        ({"joint_vel": np.float32([0, 0, -40.0])}, "wrist measured at -40 rad/s"),
        ({"age": np.array(0.3)}, "state 300 ms old, limit 100 ms"),
    ],
)
def test_a_bad_state_is_bridged_once_and_holds_the_arm_when_it_lasts(arm, fields, reason):
    stand = Stand(arm).after_ramp()
    held = stand.pos
    assert stand.step(state=replace(stand.state(), **fields))[1].mode is Mode.NOMINAL
    stand.step()
    for _ in range(stand.params.act_periods + 1):
        _, report = stand.step(state=replace(stand.state(), **fields))
    assert report.mode is Mode.HOLD and re.search(reason, report.reason)
    stand.run(1.0, state=replace(stand.state(), **fields))
    np.testing.assert_allclose(stand.pos, held, atol=2e-3)


def test_an_arm_that_loses_its_encoders_in_motion_comes_to_rest_from_memory(arm):
    stand = in_motion(arm)
    start, heading = stand.pos, stand.vel
    stand.run(0.2, request=stand.high, state=None)
    np.testing.assert_allclose(stand.shield._known.state.joint_pos, stand.pos, atol=0.06)  # dead-reckoned
    stand.run(1.3, request=stand.high, state=None)
    assert stand.modes[-1] is Mode.HOLD and (np.abs(stand.vel) < 0.02).all()
    assert ((stand.pos - start) * np.sign(heading) < 0.25 * np.abs(heading) + 0.1).all()


def test_a_jump_is_not_believed_once_but_trips_when_it_lasts(arm):
    stand = Stand(arm).after_ramp()
    jumped = replace(stand.state(), joint_pos=stand.state().joint_pos + np.float32([1.0, 0, 0]))
    assert stand.step(state=jumped)[1].mode is Mode.NOMINAL
    assert stand.step()[1].mode is Mode.NOMINAL
    for _ in range(stand.params.act_periods + 1):
        _, report = stand.step(state=jumped)
    assert report.mode is Mode.HOLD and "shoulder jumped by 1.00 rad" in report.reason


def test_a_measurement_that_overtook_another_is_dropped(arm):
    stand = Stand(arm).after_ramp()
    overtaken = replace(stand.state(), age=np.array(0.05), joint_pos=stand.state().joint_pos + np.float32(0.1))
    _, report = stand.step(state=overtaken)
    assert report.mode is Mode.NOMINAL
    np.testing.assert_allclose(stand.shield._known.state.joint_pos, stand.home, atol=0.01)


def test_late_inputs_are_named_before_they_trip(arm):
    stand = Stand(arm).after_ramp()
    report = stand.step(age_s=0.045)[1]
    assert report.mode is Mode.NOMINAL and report.reason == "request 45 ms old"


def test_what_leaves_is_finite_and_inside_the_channels_whatever_a_fallback_answers(arm):
    stand = Stand(arm).after_ramp()
    before = stand.data.ctrl[stand.ctrl]
    command, _ = stand.shield._send(FallbackCommand(np.float32([np.nan, 99.0, -99.0]), Mode.HOLD, None), "")
    np.testing.assert_allclose(command.target, [before[0], 0.1, -2.0], atol=1e-6)


def test_a_joint_that_carries_a_load_does_not_sag_when_the_policy_dies(arm):
    stand = Stand(arm).after_ramp()
    stand.data.qfrc_applied[stand.qvel] = [0.0, -9.0, 0.0]
    request = stand.home + np.array([0.0, 0.03, 0.0])  # what holds the elbow up against it
    stand.run(1.0, request=request)
    held = stand.pos
    stand.run(1.0, request=None)
    assert stand.modes[-1] is Mode.HOLD
    np.testing.assert_allclose(stand.pos, held, atol=2e-3)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_targets_run_no_faster_than_their_joints_may(arm, side):
    stand = Stand(arm).after_ramp()
    before, limits = stand.data.ctrl[stand.ctrl].copy(), np.array(stand.params.max_velocity)
    for _ in range(25):
        sent, report = stand.step(request=stand.home + side * 0.7)
        if np.abs(stand.home + side * 0.7 - sent).max() > 1e-6:
            assert report.mode is Mode.FILTERED and report.intervention > 0 and report.active
        assert (np.abs(sent - before) < 1.01 * limits * stand.dt_s).all()
        before = sent
    assert (side * (before - stand.home) > 0.5).all()


@pytest.mark.parametrize(("name", "moved"), [("three_joint_arm", "wrist"), ("panda", "joint1"), ("g1", "left_elbow")])
def test_a_flood_of_requests_moves_targets_no_faster_than_one_a_period(name, moved, tmp_path):
    """Five calls in a control period led five times as far as one."""
    stand = Stand(load(name, tmp_path)).after_ramp()
    moved = next(i for i, channel in enumerate(stand.spec.channel_names) if moved in channel)
    request = stand.home[stand.channel].copy()
    request[moved] = stand.low[moved] + 0.9 * (stand.high - stand.low)[moved]
    limit, begin_s, fastest = stand.params.max_velocity[moved], stand.now_s, 0.0
    stand.steps //= 5
    sent = [stand.data.ctrl[stand.ctrl][moved]]
    while stand.now_s < begin_s + 0.3:
        target, _ = stand.step(request=request, dt_s=stand.dt_s / 5)
        sent.append(target[moved])
        fastest = max(fastest, abs(stand.vel[moved]))
    assert abs(np.diff(sent)).max() < 1.01 * limit * stand.dt_s / 5
    assert abs(sent[-1] - sent[0]) > min(0.09 * limit, 0.3) and fastest < 1.05 * limit


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("ages", [True, False], ids=["the last measurement grows old", "no measurement"])
def test_an_arm_that_is_measured_no_more_stops_near_where_it_was_seen(ages, name, tmp_path):
    stand = in_motion(load(name, tmp_path))
    seen, heading, begin_s = stand.state(), stand.vel, stand.now_s
    start, turning = stand.pos, np.array([c.unit == "rad" for c in stand.spec.channels])
    for cycle in range(75):
        age_s = stand.now_s + stand.dt_s - begin_s
        state = replace(seen, age=np.array(age_s)) if ages else None
        target, report = stand.step(request=stand.high, age_s=age_s + 0.01, state=state)
        if cycle == 50:
            held = target
    assert report.mode is Mode.HOLD
    np.testing.assert_allclose(target, held, atol=1e-3)  # and does not creep
    notice_s = (stand.params.act_periods + 2) * stand.dt_s
    brake = stand.params.brake_share * np.array(stand.params.max_acceleration)
    speed = np.maximum(np.abs(heading), stand.params.target_speed_share * np.array(stand.params.max_velocity))
    room = speed * notice_s + 0.5 * speed * (speed / brake).max() + 0.1
    assert (np.abs(target - start) < room)[turning].all()
    assert (np.abs(stand.pos - start) < room)[turning].all()


@pytest.mark.parametrize("steps", [20, 46, 54])
def test_an_arm_that_is_measured_no_more_in_a_swing_of_all_joints_comes_to_rest(steps):
    stand = Stand(load_robot("panda")).after_ramp()
    middle, sign, begin_s = stand.pos, np.array([1, -1, 1, 1, -1, 1, -1, 0]), stand.now_s

    def swing() -> np.ndarray:
        return np.clip(middle + 0.6 * np.sin(1.4 * np.pi * (stand.now_s - begin_s)) * sign, stand.low, stand.high)

    for _ in range(steps):
        stand.step(request=swing())
    for _ in range(150):
        stand.step(request=swing(), state=None)
    assert (np.abs(stand.vel) < 0.01).all()


def test_silent_or_babbling_peers_are_no_business_of_an_arm(arm):
    stand = Stand(arm).after_ramp()
    babble = replace(NO_PEERS, pos=np.full((1, 3), np.nan))
    for _ in range(10):
        stand.now_s += stand.dt_s
        request = ActuatorCommand(stand.home.astype(np.float32))
        _, report = stand.shield.step(stand.now_s, Context(stand.state(), babble), request, 0.01)
    assert report.mode is Mode.NOMINAL
