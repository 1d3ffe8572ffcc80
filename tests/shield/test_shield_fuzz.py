"""Inputs of any type, shape and value: the shield answers all of them with a command."""

import json

import numpy as np
import pytest
from command import here

from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield import supervisor as supervisor_module
from deploy.shield.types import NO_PEERS, FilterInfo
from hardware import ActuatorCommand, Peers, RobotState, load_robot
from sim.attack.fuzz import Job, fuzz_part


@pytest.mark.parametrize("robot", ["crazyflie", "x500", "panda", "g1"])
def test_any_input_is_answered_with_a_command(robot):
    result = fuzz_part(Job(robot, {}, 1_200, 5))
    assert not result.broken, result.first
    assert 100 < result.held < result.steps - 100  # it was flown by both


def test_what_a_shield_lets_through_is_found(monkeypatch):
    monkeypatch.setattr("deploy.shield.guards.check_array", lambda *_: "")
    result = fuzz_part(Job("crazyflie", {}, 1_200, 5))
    assert result.violations and "shield" in result.first


def test_the_command_exits_1_for_a_wrong_answer(monkeypatch):
    done = here("attack", "ur5e", "--fuzz", "480", "--workers", "1", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["steps"] == 480
    monkeypatch.setattr("deploy.shield.guards.check_array", lambda *_: "")
    done = here("attack", "crazyflie", "--fuzz", "2400", "--workers", "1")
    assert done.returncode == 1 and "answered wrongly" in done.stdout and "seed 0" in done.stdout


def hovering(target, **changed) -> tuple[Context, ActuatorCommand]:
    none = np.zeros(0)
    quantities = {"base_pos": np.array([0, 0, 1.0]), "base_quat": np.array([1.0, 0, 0, 0])}
    quantities |= {"base_lin_vel": np.zeros(3), "base_ang_vel": np.zeros(3), "age": np.array(0.005)}
    state = RobotState(none, none, **{**quantities, **changed})
    return Context(state, NO_PEERS), ActuatorCommand(np.array(target, np.float32))


def test_a_filter_that_answers_with_no_number_is_replaced_by_the_fallback(monkeypatch):
    spec = load_robot("crazyflie")
    shield = Shield(make_shield_params(spec), spec)
    for step in range(60):
        _, report = shield.step(
            0.02 * step, *hovering([0.3, 0, 0, 0], base_pos=np.array([0, 0, 1 + 1e-4 * step])), 0.01
        )
    assert report.mode in (Mode.NOMINAL, Mode.FILTERED)
    info = FilterInfo(np.inf, np.zeros(0, bool), True, 0.0)
    monkeypatch.setattr(supervisor_module, "filter_command", lambda *_: (np.full(4, np.nan), info))
    command, report = shield.step(1.2, *hovering([0.3, 0, 0, 0]), 0.01)
    assert report.mode is Mode.LAND and report.reason == "the filter has no answer"
    assert 0.8 * spec.flight.hover_thrust_n < command.target[0] < spec.flight.hover_thrust_n  # it sinks, level


def test_peers_that_become_no_numbers_in_the_callers_array_do_not_freeze_the_command():
    spec = load_robot("crazyflie")
    shield = Shield(make_shield_params(spec), spec)
    peers = Peers(np.array([[1.0, 0, 1]]), np.zeros((1, 3)), np.zeros(1), np.ones(1, bool))
    sent = []
    for step in range(120):
        context, request = hovering([0.3, 0.1, 0, 0], base_pos=np.array([1e-3 * step, 0, 1.0]))
        peers.pos[:] = np.nan if step > 60 else peers.pos
        command, report = shield.step(0.02 * step, Context(context.state, peers), request, 0.01)
        sent.append(command.target)
    assert report.mode in (Mode.HOLD, Mode.LAND) and "peers not finite" in report.reason
    assert len({target.tobytes() for target in sent[-10:]}) == 10


@pytest.mark.parametrize("now_s", [np.nan, np.inf, None, "noon"])
def test_without_a_clock_a_policy_that_is_silent_is_still_missed(now_s):
    spec = load_robot("crazyflie")
    shield = Shield(make_shield_params(spec), spec)
    for step in range(60):
        shield.step(0.02 * step, *hovering([0.3, 0, 0, 0], base_pos=np.array([0, 0, 1 + 1e-4 * step])), 0.01)
    for _ in range(8):
        _, report = shield.step(now_s, hovering([0.3, 0, 0, 0])[0], None, 0.01)
    assert report.mode in (Mode.HOLD, Mode.LAND)
