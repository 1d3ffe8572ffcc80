"""The supervisor as an adversary, a broken sensor and a dead policy meet it; flown in real physics where it flies."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from shield_flight import DT, HOVER, PARAMS, SPEC, Flight

from deploy.shield import Mode, Shield, make_shield_params
from hardware import Peers, RobotState
from hardware.rotation import rotate_inverse


def test_before_the_first_request_it_holds_the_robot_where_it_is():
    flight = Flight()
    _, report = flight.fly(2.0, request=None)
    assert report.mode is Mode.HOLD and "waiting" in report.reason
    assert np.linalg.norm(flight.state().base_pos - [0, 0, 1]) < 0.02


def test_a_safe_request_passes_bit_by_bit_after_the_ramp():
    flight = Flight().after_ramp()
    request = np.float32([0.43219, 0.1234567, -0.0765432, 0.3333333])
    sent, report = flight.step(request)
    assert sent.tobytes() == request.tobytes() and report.mode is Mode.NOMINAL and report.intervention == 0


def test_activation_fades_the_policy_in():
    flight = Flight()
    sent, _ = flight.step(np.float32([0.6, 0, 0, 3.0]))
    assert abs(sent[3]) < 0.5
    assert flight.fly(PARAMS.ramp_s + 0.1, request=np.float32([0.43, 0, 0, 3.0]))[0][3] == 3.0


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"request": None}, "no request"),
        ({"request": [np.nan, 0, 0, 0]}, "request not finite"),
        ({"request": [0.4, 0, 0]}, r"shape \(3,\)"),
        ({"request": [1e9, 0, 0, 0]}, r"thrust = 1e\+09 outside 0.0855 .. 0.8"),
        ({"age_s": 0.5}, "request 500 ms old, limit 100 ms"),
        ({"age_s": -1.0}, "request -1000 ms old"),
    ],
)
def test_a_policy_without_good_requests_is_replaced_and_landed_for_good(kwargs, reason):
    flight = Flight().after_ramp()
    for _ in range(PARAMS.act_periods + 1):
        _, report = flight.step(**kwargs)
    assert report.mode is Mode.HOLD
    assert re.search(reason, report.reason)
    flight.fly(1.0, **kwargs)
    assert np.linalg.norm(flight.state().base_pos - [0, 0, 1]) < 0.1
    flight.fly(7.0)  # good requests again: latched all the same
    assert flight.modes[-1] is Mode.OFF and Mode.LAND in flight.modes
    assert flight.state().base_pos[2] < 0.05
    flight.shield.reset()
    assert flight.step()[1].mode is not Mode.OFF


def test_a_short_gap_of_requests_is_bridged():
    flight = Flight().after_ramp()
    for _ in range(PARAMS.act_periods - 1):
        assert flight.step(None)[1].mode in (Mode.NOMINAL, Mode.FILTERED)
    assert flight.step()[1].mode is Mode.NOMINAL


def gap(flight: Flight, seconds: float, **kwargs) -> list:
    """Reports of a gap of good requests and of half a second after it."""
    silent = [flight.step(**({"request": None} | kwargs))[1] for _ in range(round(seconds / DT))]
    return silent + [flight.step()[1] for _ in range(25)]


def test_a_gap_of_two_hundred_milliseconds_holds_the_robot_and_gives_it_back_to_the_policy():
    flight = Flight().after_ramp()
    reports = gap(flight, 0.2)
    held = [report for report in reports if report.mode is Mode.HOLD]
    assert held and {report.reason for report in held} == {"no request"} and not any(r.latched for r in held)
    good = [report.mode for report in reports[10:]]
    assert good[: PARAMS.recover_periods - 1] == [Mode.HOLD] * (PARAMS.recover_periods - 1)
    assert set(good[PARAMS.recover_periods :]) == {Mode.NOMINAL}
    assert np.linalg.norm(flight.state().base_pos - [0, 0, 1]) < 0.05


def test_a_robot_that_is_blind_for_a_moment_goes_back_to_its_policy():
    flight = Flight().after_ramp()
    reports = gap(flight, 0.2, request=HOVER, state=None)
    assert Mode.LAND in [report.mode for report in reports]
    assert reports[-1].mode is Mode.NOMINAL and not reports[-1].latched


def test_requests_of_before_a_gap_do_not_end_a_hold():
    flight = Flight().after_ramp()
    for _ in range(PARAMS.act_periods + 2):
        flight.step(None)
    for age_s in 0.01 + np.arange(PARAMS.recover_periods) * DT:  # one request, again and again
        assert flight.step(age_s=age_s)[1].mode is Mode.HOLD


def test_holds_that_add_up_are_latched_and_those_long_ago_are_forgotten():
    held_s = 0.2 - PARAMS.act_s  # without good inputs, of each gap of 0.2 s
    often = Flight().after_ramp()
    for _ in range(int(PARAMS.latch_s / held_s) + 2):
        report = gap(often, 0.2)[-1]
    assert report.mode is Mode.HOLD and report.latched
    seldom = Flight().after_ramp()
    for _ in range(int(PARAMS.latch_s / held_s) + 2):
        assert gap(seldom, 0.2)[-1].mode is Mode.NOMINAL
        seldom.fly(3.0)


@pytest.mark.parametrize("trouble", [{"request": None}, {"request": HOVER, "state": None}], ids=["silent", "blind"])
def test_short_troubles_of_a_busy_machine_do_not_land_a_robot_for_what_a_hold_waits_before_it_ends(trouble):
    """Three within two seconds: inputs that are good again, and are only counted, are no trouble."""
    flight = Flight().after_ramp()
    for _ in range(3):
        report = gap(flight, 0.22, **trouble)[-1]
        assert report.mode is Mode.NOMINAL and not report.latched


def test_the_longest_hold_that_ends_by_itself_is_bounded():
    flight = Flight().after_ramp()
    gap(flight, PARAMS.act_periods * DT + PARAMS.latch_s)
    assert flight.modes[-1] is Mode.HOLD
    with pytest.raises(ValueError, match=r"latch_s = 3: must be at most 0\.5"):
        make_shield_params(SPEC, latch_s=3.0)
    at_once = Flight()
    at_once.shield = Shield(make_shield_params(SPEC, latch_s=0.0), SPEC)
    at_once.after_ramp()
    assert gap(at_once, 0.2)[-1].latched


def broken(state: RobotState, **fields) -> RobotState:
    return replace(state, **fields)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"base_pos": np.array([np.nan, 0, 1])}, "state not finite"),
        ({"base_quat": np.zeros(4)}, "unit length"),
        ({"age": np.array(0.3)}, "state 300 ms old, limit 100 ms"),
        ({"base_lin_vel": np.zeros(2)}, "shape"),
    ],
)
def test_a_bad_state_is_never_used_and_when_it_lasts_the_robot_sinks_level_and_stops(fields, reason):
    flight = Flight().after_ramp()
    before, _ = flight.step()
    once, report = flight.step(state=broken(flight.state(), **fields))
    assert report.mode is Mode.NOMINAL and np.array_equal(before, once)
    for _ in range(PARAMS.act_periods + 1):
        sent, report = flight.step(state=broken(flight.state(), **fields))
    assert report.mode is Mode.LAND and reason in report.reason
    assert np.abs(sent[1:]).max() < 0.1 and 0.85 < sent[0] / HOVER[0] < 1
    flight.fly(5.0, state=broken(flight.state(), **fields))
    assert flight.modes[-1] is Mode.OFF


def test_a_robot_that_loses_its_state_in_a_fast_turn_levels_out_from_memory():
    flight = Flight(pos=(0.0, 0.0, 1.5)).after_ramp()
    flight.fly(0.3, request=np.float32([0.45, 0, 2.0, 0]))
    assert rotate_inverse(flight.data.qpos[3:7], np.array([0, 0, 1.0]))[2] < 0.93  # more than 20 degrees
    flight.fly(1.2, state=None)
    assert flight.modes[-1] is Mode.LAND
    assert rotate_inverse(flight.data.qpos[3:7], np.array([0, 0, 1.0]))[2] > 0.99


def test_a_jump_is_not_believed_once_but_a_lasting_one_is_where_the_robot_now_holds():
    flight = Flight().after_ramp()
    elsewhere = [broken(flight.state(), base_pos=np.array([2.0, 0, 1.0]))]
    assert flight.step(state=elsewhere[0])[1].mode is Mode.NOMINAL
    assert flight.step()[1].mode is Mode.NOMINAL
    for _ in range(PARAMS.act_periods + 1):
        _, report = flight.step(state=broken(flight.state(), base_pos=np.array([2.0, 0, 1.0])))
    assert report.mode is Mode.HOLD and "position jumped by 2.00 m" in report.reason


def test_a_measurement_that_overtook_another_is_dropped():
    flight = Flight().after_ramp()
    overtaken = broken(flight.state(), age=np.array(0.05), base_pos=np.array([0.3, 0.0, 1.0]))
    _, report = flight.step(state=overtaken)
    assert report.mode is Mode.NOMINAL and flight.shield._known.state.base_pos[0] < 0.1
    for _ in range(PARAMS.act_periods + 1):
        _, report = flight.step(state=overtaken, dt_s=0.0)
    assert report.mode is Mode.NOMINAL  # time stands still: nothing is late
    for _ in range(PARAMS.act_periods + 1):
        _, report = flight.step(state=broken(overtaken, age=np.array(10.0)))
    assert report.mode is Mode.LAND


@pytest.mark.parametrize("jump_s", [-5.0, 60.0])
def test_a_jumped_clock_trips_the_fallback_and_the_robot_still_lands(jump_s):
    flight = Flight().after_ramp()
    _, report = flight.step(dt_s=jump_s)
    assert report.mode is Mode.HOLD and "clock jumped" in report.reason
    flight.fly(8.0)
    assert flight.modes[-1] is Mode.OFF and flight.state().base_pos[2] < 0.05


def test_a_peer_that_babbles_trips_the_fallback_and_stays_where_it_was_last_seen():
    flight = Flight().after_ramp()
    close = Peers(np.array([[0.5, 0.0, 1.0]]), np.zeros((1, 3)), np.zeros(1), np.ones(1, bool))
    flight.step(peers=close)
    margin = flight.step(peers=close)[1].margin
    babbling = replace(close, pos=np.array([[np.nan, 0.0, 1.0]]))
    assert flight.step(peers=babbling)[1].mode in (Mode.NOMINAL, Mode.FILTERED)
    for _ in range(PARAMS.act_periods):
        _, report = flight.step(peers=babbling)
    assert report.mode is Mode.HOLD and report.reason == "peers not finite"
    assert report.margin == pytest.approx(margin, abs=0.1)


def test_arrays_of_peers_may_be_used_again_for_what_is_none():
    flight = Flight().after_ramp()
    reused = Peers(np.array([[0.8, 0.0, 1.0]]), np.zeros((1, 3)), np.zeros(1), np.ones(1, bool))
    flight.fly(0.2, peers=reused)
    reused.pos[:] = np.inf
    sent = [flight.step(peers=reused)[0] for _ in range(100)]
    assert flight.modes[-1] in (Mode.HOLD, Mode.LAND) and np.abs(flight.data.qvel[:3]).max() < 1.0
    assert np.ptp(sent, axis=0)[0] > 0.0  # it is flown, not sent the same again


def test_a_robot_that_was_flipped_is_taken_from_its_policy_for_good():
    flight = Flight(pos=(0.0, 0.0, 2.0)).after_ramp()
    flight.data.qpos[3:7] = np.cos(0.8), np.sin(0.8), 0.0, 0.0
    report = flight.fly(0.1)[1]
    assert report.latched and "degrees" in report.reason
    flight.fly(1.5)
    assert flight.data.qpos[2] > 0.2 and abs(flight.data.qpos[4]) < 0.1  # it is upright again, and flies


def test_a_jump_of_the_clock_and_a_shield_that_stood_still_are_told_apart():
    """The one is a matter of /clock, the other of the machine; the reason left open which it was."""
    long_s = PARAMS.clock_jump_s + 0.2
    flight = Flight().after_ramp()
    assert flight.step(dt_s=long_s)[1].reason == f"clock jumped by {long_s:.3f} s"
    flight = Flight().after_ramp()
    time.sleep(long_s)
    assert flight.step(dt_s=long_s)[1].reason == f"the shield stood still for {long_s:.3f} s"
    flight = Flight().after_ramp()
    time.sleep(long_s)
    assert flight.step(dt_s=-long_s)[1].reason == f"clock jumped by -{long_s:.3f} s"


def test_emergency_stop_is_at_once_and_latched():
    flight = Flight().after_ramp()
    flight.shield.estop()
    sent, report = flight.step()
    assert report.mode is Mode.ESTOP and sent[0] == np.float32(SPEC.command_low[0])
    assert flight.fly(1.0)[1].mode is Mode.ESTOP


def test_a_full_throttle_adversary_stays_inside_the_fence():
    rng = np.random.default_rng(0)
    low, high = np.array(PARAMS.geofence_low), np.array(PARAMS.geofence_high)
    flight = Flight().after_ramp()
    request = HOVER
    for step in range(1500):
        if step % 25 == 0:
            request = (
                rng.choice([SPEC.command_low, SPEC.command_high], axis=0)
                if step % 50
                else rng.uniform(SPEC.command_low, SPEC.command_high)
            )
        flight.step(request)
        pos = flight.state().base_pos
        assert (pos > low - 0.05).all() and (pos < high + 0.05).all()
    assert Mode.FILTERED in flight.modes and Mode.HOLD not in flight.modes[50:]
