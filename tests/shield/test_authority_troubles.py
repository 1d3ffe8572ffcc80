"""Who has a drone whose measurements or policy fail it: before its start, on its way up, when it has to come down."""

from dataclasses import replace

import numpy as np
import pytest
from operated import Operated
from shield_flight import HOVER, PARAMS, SPEC

from deploy.shield.authority import State
from deploy.shield.drone.distance import OUTSIDE


@pytest.mark.parametrize("lift_s", [0.02, 0.3, 0.6])
@pytest.mark.parametrize("trouble", ["late", "no", "paused"])
def test_a_short_trouble_in_a_take_off_is_held_and_the_take_off_goes_on_to_its_height(lift_s, trouble):
    drone = Operated().starting(lift_s)
    before = drone.height
    drone.trouble(trouble, 0.2)
    held = drone.height
    assert drone.authority.state is State.STARTING
    handed_over_m = 0.0
    for _ in range(300):
        drone.step(request="hover")
        if drone.authority.state is State.POLICY:
            handed_over_m = drone.height
            break
    assert held < before + 0.15, "it does not climb blind"
    assert handed_over_m > 0.7 and len(drone.changes) == 3


@pytest.mark.parametrize("lift_s", [0.02, 0.3, 1.2])
@pytest.mark.parametrize("trouble", ["late", "no"])
def test_a_trouble_that_lasts_ends_a_take_off_within_half_a_second_of_hold_and_so_do_short_ones_that_come_again(
    lift_s, trouble
):
    drone = Operated().starting(lift_s)
    drone.trouble(trouble, 0.7)
    assert drone.authority.state in (State.LANDING, State.FAULT)
    again = Operated().starting(lift_s)
    for _ in range(6):
        again.trouble(trouble, 0.2)
        again.fly(0.24, request="hover")
    assert again.authority.state in (State.LANDING, State.FAULT)
    for fallen in drone, again:
        fallen.fly(10.0, request="hover")
        assert fallen.authority.state is State.FAULT and fallen.height < 0.05
        assert "state" in fallen.authority.reason


def test_a_drone_whose_state_is_gone_as_soon_as_it_is_started_stays_down_and_is_not_waited_for_for_ever():
    drone = Operated()
    drone.fly(0.1)
    assert not drone.ask("arm")
    drone.fly(0.1)
    assert not drone.ask("start")
    drone.fly(14.9, request=HOVER, state=None)
    assert drone.authority.state is State.STARTING and drone.height < 0.03
    drone.fly(0.3, request=HOVER, state=None)
    assert drone.authority.state is State.FAULT and drone.height < 0.03
    assert drone.authority.reason == "not started within 15 s: no state"


def test_a_robot_whose_state_is_missing_for_a_moment_is_not_landed_before_its_start():
    drone = Operated(pos=(0.0, 0.0, 1.0))
    drone.fly(0.02)
    drone.ask("arm")
    drone.fly(0.5)
    drone.fly(0.2, state=None)
    drone.fly(0.5)
    assert drone.authority.state is State.ARMED and abs(drone.height - 1.0) < 0.3


def test_without_an_estimate_nothing_is_armed_and_a_policy_that_stays_silent_is_not_waited_for_for_ever():
    drone = Operated()
    drone.fly(0.2, state=None)
    assert "no state" in drone.ask("arm")
    assert drone.authority.state is State.DISARMED
    drone.fly(0.2)
    assert "battery empty" in drone.authority.arm(["battery empty"])
    assert not drone.ask("arm") and not drone.ask("start")
    drone.fly(14.0)
    assert drone.authority.state is State.STARTING and drone.height > 0.6
    drone.fly(9.0)
    assert drone.authority.state is State.FAULT and "15 s" in drone.authority.reason and drone.height < 0.05


def test_a_policy_that_says_why_it_requests_nothing_is_quoted():
    drone = Operated()
    drone.fly(0.2)
    assert not drone.ask("arm") and not drone.ask("start")
    drone.authority.policy_waits = "no current message of objects: box"
    drone.fly(25.0)
    assert drone.authority.state is State.FAULT
    assert drone.authority.reason == "not started within 15 s: no current message of objects: box"


@pytest.mark.parametrize("trouble", ["late", "no"])
@pytest.mark.parametrize("what", ["land", "device", "start"])
def test_a_drone_that_stands_and_is_not_measured_any_more_stays_on_the_ground_when_it_has_to_come_down(what, trouble):
    drone = Operated()
    drone.fly(0.1)
    assert not drone.ask("arm")
    drone.fly(0.2)
    last, highest = drone.state(), 0.0
    asked = {"land": lambda: drone.ask("land"), "start": lambda: drone.ask("start")}
    asked["device"] = lambda: drone.authority.come_down(drone.now_s, "link lost")
    for cycle in range(1, 1000):
        if cycle == 50:
            why = asked[what]()
        late = replace(last, age=np.array(0.02 * cycle))
        drone.step(request=HOVER, state=late if trouble == "late" else None)
        highest = max(highest, drone.height)
    assert highest < 0.05, "it leapt"
    if what == "start":
        assert "state" in why and drone.authority.state is State.ARMED
    else:
        assert drone.authority.state in (State.DISARMED, State.FAULT)


@pytest.mark.parametrize(("blind_cycles", "end"), [(10, State.DISARMED), (60, State.FAULT)])
def test_a_state_that_stays_unknown_in_a_landing_on_request_is_a_fault(blind_cycles, end):
    drone = Operated()
    drone.fly(0.2)
    assert not drone.ask("arm") and not drone.ask("start")
    drone.fly(3.0)
    assert not drone.ask("land")
    last = drone.state()
    for cycle in range(blind_cycles):  # of 20 ms
        drone.step(request=HOVER, state=replace(last, age=np.array(0.02 * cycle)))
    drone.fly(9.0)
    assert drone.authority.state is end
    assert drone.authority.reason.startswith("blind: state") == (end is State.FAULT)


def test_what_a_landing_did_not_see_is_not_counted_in_the_next_one():
    drone = Operated()
    for stopped in (True, False):
        drone.fly(0.2)
        assert not drone.ask("arm") and not drone.ask("start")
        drone.fly(3.0)
        last = drone.state()
        for cycle in range(26):  # of 20 ms: 0.36 s of a landing, where half a second is a trouble
            if cycle == 8:
                assert not drone.ask("land") and drone.shield.blind()
            drone.step(request=HOVER, state=replace(last, age=np.array(0.02 * cycle)))
        if stopped:
            drone.authority.estop()
            drone.fly(3.0)
            assert not drone.ask("reset")
    drone.fly(9.0)
    assert drone.authority.state is State.DISARMED, drone.authority.reason


@pytest.mark.parametrize("asked", [False, True], ids=["for a trouble", "on request"])
def test_what_becomes_known_of_a_trouble_while_the_robot_comes_down_is_in_its_reason(asked):
    drone = Operated()
    drone.fly(0.2)
    assert not drone.ask("arm") and not drone.ask("start")
    drone.fly(3.0)
    if asked:
        assert not drone.ask("land")
    else:
        drone.authority.come_down(drone.now_s, "state 126 ms old")
    drone.fly(0.1)
    for trouble in ("device: link lost", "device: link lost for 0.2 s"):
        drone.authority.come_down(drone.now_s, trouble)
    assert drone.authority.state is State.LANDING and "link lost" in drone.authority.reason
    assert "link lost" in drone.ask("hold")
    drone.fly(9.0)
    assert drone.authority.state is State.FAULT
    assert drone.authority.reason == f"{'' if asked else 'state 126 ms old; '}device: link lost"
    assert "FAULT" in drone.ask("arm")


def test_a_landing_for_a_state_that_is_too_old_names_the_limit_and_the_computer_that_was_late():
    drone = Operated().started()
    drone.authority._lateness = lambda: "this computer was late"
    drone.trouble("late", 1.0)
    assert drone.authority.state is State.LANDING
    assert drone.authority.reason.endswith(" ms old, limit 100 ms; this computer was late")
    drone.fly(9.0)
    assert drone.authority.state is State.FAULT and drone.authority.reason.endswith("; this computer was late")
    known = Operated().started()
    known.authority._lateness = lambda: "this computer was late"
    known.authority.shield.land(known.now_s, "fallen")
    known.fly(0.1)
    assert known.authority.reason == "fallen", "what a late computer does not explain"


def test_that_a_robot_in_flight_has_left_its_fence_is_said_once_and_not_of_one_that_was_carried_out():
    drone = Operated()
    drone.fly(0.2)
    assert not drone.ask("arm") and not drone.ask("start")
    drone.fly(3.0)
    assert drone.authority.left() == ""
    drone.data.qpos[1] = PARAMS.geofence_high[1] + 0.05
    drone.fly(0.1)
    assert drone.authority.left() == "", "what an estimate errs by"
    drone.data.qpos[1] = PARAMS.geofence_high[1] + 0.6
    drone.fly(0.1)
    assert drone.authority.left().startswith(f"{OUTSIDE}: y = ") and drone.authority.left() == ""
    drone.authority.estop()
    drone.fly(3.0)
    drone.data.qpos[1] = -PARAMS.geofence_high[1] - 2.0
    drone.fly(0.2)
    assert drone.authority.left() == ""


def test_a_start_waits_until_the_device_acts_on_commands():
    drone = Operated()
    drone.authority.device_waits = "device: it is not armed yet"
    drone.fly(0.1)
    assert not drone.ask("arm") and not drone.ask("start")
    drone.fly(3.0, request="hover")
    assert drone.authority.state is State.STARTING and drone.authority.reason == "device: it is not armed yet"
    assert drone.data.ctrl[0] == pytest.approx(SPEC.command_low[0]), "its motors idle"
    drone.authority.device_waits = ""
    drone.fly(5.0, request="hover")
    assert drone.authority.state is State.POLICY


def test_an_armed_drone_that_is_only_measured_to_rise_stays_where_it_is():
    """A barometer drifts, and a person may lift it."""
    drone = Operated()
    drone.fly(0.1)
    assert not drone.ask("arm")
    for share in np.linspace(0.0, 1.0, 200):
        state = drone.state()
        drone.step(state=replace(state, base_pos=state.base_pos + np.array([0.0, 0.0, 0.5 * share])))
    assert drone.height < 0.03 and drone.authority.state is State.ARMED
    assert drone.data.ctrl[0] == pytest.approx(SPEC.command_low[0]), "its motors idle"
