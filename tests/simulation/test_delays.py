"""Who was late is said, once, when it is over."""

import pytest

pytest.importorskip("rclpy")
from ros_nodes.messages.delays import Delays
from ros_nodes.messages.diagnostics import ShieldMode
from ros_nodes.mission.failures import events

PERIOD_S = 0.02


def run(*stages):
    """Delays of stages (steps, seconds from one to the next, growth of both ages a step): s."""
    delays, found, now_s, state_s, request_s = Delays(0.1), [], 0.0, 0.005, 0.01
    for steps, dt_s, state_grows, request_grows in stages:
        for _ in range(steps):
            now_s += dt_s
            state_s = state_s + dt_s if state_grows else 0.005
            request_s = request_s + dt_s if request_grows else 0.01
            found += delays.update(now_s, state_s, request_s)
    return found


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ((1, 0.276, False, False), "no command for 276 ms: the shield's process stood still"),
        ((1, 0.276, True, True), "no command for 276 ms: the shield's process stood still"),
        (
            (14, PERIOD_S, True, True),
            "no measurement for 285 ms: the driver or the simulated robots were late, or had ended",
        ),
        ((14, PERIOD_S, False, True), "no request for 285 ms: the policy was late, or had ended"),
        ((4, PERIOD_S, True, True), None),
    ],
)
def test_what_was_late_for_longer_than_a_hold_waits_is_named_once(stage, says):
    calm = (20, PERIOD_S, False, False)
    assert run(calm, stage, calm) == ([says] if says else [])


def test_the_policy_that_answers_a_late_measurement_later_is_not_late_and_one_that_never_does_is():
    calm, silent = (20, PERIOD_S, False, False), (14, PERIOD_S, True, True)
    late = "no measurement for 285 ms: the driver or the simulated robots were late, or had ended"
    assert run(calm, silent, (3, PERIOD_S, False, True), calm) == [late]
    assert run(calm, silent, (10, PERIOD_S, False, True), calm) == [
        late,
        "no request for 200 ms: the policy was late, or had ended",
    ]


def test_a_delay_that_changed_no_state_is_an_event():
    modes = [
        ShieldMode("NOMINAL", "started", state="POLICY"),
        ShieldMode("NOMINAL", time_ns=2_000_000_000, state="POLICY", delays=1, last_delay="no command for 276 ms: why"),
    ]
    _, late = events({"cf1": modes}, 0)
    same = {"from": "POLICY", "to": "POLICY"}
    assert late == {"t_s": 2.0, "robot": "cf1", **same, "reason": "no command for 276 ms: why"}


def test_a_delay_that_ends_with_a_change_of_state_is_not_its_reason():
    """The change is one event, with the shield's reason; else a fault of `result.json` is put down to the delay."""
    modes = [
        ShieldMode("LAND", "request 105 ms old", state="LANDING"),
        ShieldMode("OFF", "link lost", time_ns=2_000_000_000, state="FAULT", delays=1, last_delay="late"),
    ]
    changes = [event for event in events({"cf1": modes}, 0) if event["from"] != event["to"]]
    assert [(event["to"], event["reason"]) for event in changes][1:] == [("FAULT", "link lost")]


def test_of_delays_that_follow_each_other_the_first_is_said_and_longer_ones_and_how_many_there_were():
    calm, short, long = (5, PERIOD_S, False, False), (1, 0.15, False, False), (1, 0.3, False, False)
    stood = "the shield's process stood still"
    assert run(calm, short, calm, short, calm, long, calm, short, calm) == [
        f"no command for 150 ms: {stood}",
        f"no command for 300 ms: {stood}; 1 more since the last one",
    ]
    later = (60, PERIOD_S, False, False)
    assert run(calm, long, calm, short, later, short) == [
        f"no command for 300 ms: {stood}",
        f"no command for 150 ms: {stood}; 1 more since the last one",
    ]
