"""Who has the robot: one arms, starts, lands and stops it as a person would, in real physics."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from operated import GROUND, Operated
from shield_flight import SPEC

from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield.authority import Authority, State
from deploy.shield.types import NO_PEERS
from hardware import RobotState, load_robot


def test_nothing_is_sent_before_a_person_arms_and_nothing_flies_before_one_starts():
    drone = Operated()
    drone.fly(1.0, request=np.float32([0.5, 0, 0, 0]))
    assert drone.sent == 0 and drone.authority.state is State.DISARMED
    assert not drone.ask("arm")
    drone.fly(1.0, request=np.float32([0.5, 0, 0, 0]))
    assert drone.sent == 50 and drone.height < 0.03 and drone.authority.state is State.ARMED
    assert "ARMED" not in drone.ask("start")
    drone.fly(0.5, request="hover")
    assert drone.authority.state is State.STARTING and drone.height > 0.05


@pytest.mark.parametrize("scale", [0.9, 1.0, 1.1])
def test_a_take_off_goes_straight_up_to_its_height_then_the_policy_flies_and_a_landing_disarms(scale):
    drone = Operated(thrust_scale=scale).started()
    assert np.linalg.norm(drone.data.qpos[:2] - GROUND[:2]) < 0.1
    assert 0.6 < drone.height < 1.3 and drone.modes[-1] is Mode.NOMINAL
    assert not drone.ask("land")
    drone.fly(8.0, request="hover")
    assert drone.authority.state is State.DISARMED and drone.height < 0.03
    assert drone.data.ctrl[0] == pytest.approx(scale * SPEC.command_low[0]), "its motors idle"
    sent = drone.sent
    drone.fly(0.5)
    assert drone.sent == sent
    names = ["DISARMED", "ARMED", "STARTING", "POLICY", "LANDING", "DISARMED"]
    assert drone.changes == list(pairwise(names))


@pytest.mark.parametrize(("trouble", "end"), [(False, State.DISARMED), (True, State.FAULT)])
def test_a_drone_that_has_come_down_is_sent_idle_commands_for_a_second_for_one_may_be_lost(trouble, end):
    drone = Operated().started()
    assert trouble or not drone.ask("land")
    while drone.authority.state is not end:
        drone.step(request=None if trouble else "hover")
    sent = drone.sent
    drone.fly(2.0)
    assert 45 <= drone.sent - sent <= 55


def test_hold_takes_the_robot_from_the_policy_and_start_gives_it_back_where_it_is():
    drone = Operated().started()
    assert not drone.ask("hold")
    before = drone.data.qpos[:3].copy()
    drone.fly(2.0, request=np.float32([0.6, 1.0, 0, 0]))
    assert drone.authority.state is State.ARMED and np.linalg.norm(drone.data.qpos[:3] - before) < 0.15
    assert "in the air" in drone.ask("disarm")
    assert not drone.ask("start")
    drone.fly(0.1, request="hover")
    assert drone.authority.state is State.POLICY


def test_a_stop_is_at_once_and_a_reset_only_acknowledges():
    drone = Operated().started()
    drone.authority.estop()
    refused = drone.ask("disarm")
    assert "STOPPED" in refused and "in the air" not in refused  # nor is it known to be
    _, report = drone.step(request="hover")
    assert report.mode is Mode.ESTOP and drone.authority.state is State.STOPPED
    drone.fly(2.0, request="hover")
    drone.data.qpos[0] += 2.0  # a person carries it back
    drone.fly(0.5)
    assert drone.ask("arm") == "arm: the robot is STOPPED (emergency stop); reset acknowledges it"
    assert "STOPPED" in drone.ask("start")
    assert not drone.ask("reset")
    drone.fly(1.0, request=np.float32([0.6, 0, 0, 0]))
    assert drone.authority.state is State.DISARMED and drone.height < 0.05
    assert not drone.ask("arm"), "where it went while it was stopped is no jump of its estimate"
    assert not drone.ask("start")
    drone.fly(6.0, request="hover")
    assert drone.authority.state is State.POLICY


@pytest.mark.parametrize("turns", [False, True], ids=["outside of its fence", "upside down"])
def test_a_robot_that_is_armed_right_after_a_reset_is_looked_at_as_any_other(turns):
    """A reset and an arm may come in the same control period: nothing is measured between them."""
    drone = Operated().started()
    drone.authority.estop()
    drone.fly(2.0, request="hover")
    if turns:
        drone.data.qpos[3:7] = [0.0, 1.0, 0.0, 0.0]
    else:
        drone.data.qpos[0] += 9.0
    drone.fly(0.5)
    assert not drone.ask("reset")
    assert drone.ask("arm") and drone.authority.state is State.DISARMED
    drone.step()
    assert drone.ask("arm")


def test_a_short_silence_is_held_and_a_lasting_one_lands_and_is_a_fault_until_acknowledged():
    drone = Operated().started()
    drone.fly(0.3, age_s=9.0)
    drone.fly(0.5, request="hover")
    assert drone.authority.state is State.POLICY and Mode.HOLD in drone.modes
    drone.fly(1.5)
    assert drone.authority.state is State.LANDING
    assert "hold" in drone.ask("hold")
    drone.fly(9.0, request="hover")
    assert drone.authority.state is State.FAULT and "request" in drone.authority.reason
    assert "FAULT" in drone.ask("arm")
    assert not drone.ask("reset") and drone.authority.state is State.DISARMED
    drone.step(state=drone.measured(0.008))
    assert not drone.ask("arm"), "the first cycle after a reset knows the robot's state"


@pytest.mark.parametrize("asked_to_land", [False, True], ids=["it lands for it", "a person let it land"])
def test_a_landing_is_not_ended_while_where_the_robot_is_is_not_known(asked_to_land):
    drone = Operated().started()
    assert not asked_to_land or not drone.ask("land")
    drone.trouble("late", 1.0)
    assert drone.authority.state is State.LANDING
    assert drone.ask("reset") == "reset: state 1000 ms old, limit 100 ms" and drone.ask("hold").startswith("hold: ")
    assert drone.authority.state is State.LANDING
    drone.fly(0.1, request="hover")
    assert not drone.ask("reset") and drone.authority.state is State.ARMED
    drone.fly(1.0)
    assert drone.authority.state is State.ARMED and drone.height > 0.1


def test_after_a_pause_of_the_shield_the_first_measurement_counts_though_it_is_older_than_the_end_of_the_pause():
    drone = Operated()
    drone.fly(0.1)
    drone.step(dt_s=0.7, state=drone.measured(0.008))
    assert not drone.ask("arm")


@pytest.mark.parametrize(
    ("name", "height_m", "quat", "says"),
    [
        ("crazyflie", GROUND[2], [0.0, 1.0, 0.0, 0.0], "tilted by 180 degrees"),
        ("g1", 0.15, [np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0], "tilted 1.57 rad, more than"),
        ("h1", 0.3, [1.0, 0.0, 0.0, 0.0], "base 0.30 m above ground, less than"),
    ],
)
def test_a_robot_that_lies_or_is_overturned_is_not_armed_and_says_why(name, height_m, quat, says):
    spec = load_robot(name)
    home = np.float32(spec.home)
    lies = RobotState(home, 0.0 * home, np.array([0.0, 0.0, height_m]), np.array(quat), *np.zeros((2, 3)), np.zeros(()))
    stands = replace(lies, base_pos=np.array([0.0, 0.0, spec.home_height_m]), base_quat=np.array([1.0, 0.0, 0.0, 0.0]))
    reasons = []
    for state in (lies, stands):
        authority = Authority(Shield(make_shield_params(spec), spec))
        authority.step(1.0, Context(state, NO_PEERS), None, np.inf)
        reasons.append(authority.arm())
    assert reasons[0].startswith(says) and reasons[1] == "" and authority.state is State.ARMED
