"""Teams whose policies try to collide, in real physics with noise, delay and unequal rotors: no robot touches another.

The long campaign, each robot behind its whole shield, is `phalanx attack crazyflie`.
"""

from dataclasses import replace

import numpy as np
import pytest
from shield_team import SPEC, attacked, filtered_with, unguarded

from deploy.shield import Mode, make_shield_params
from hardware import load_robot
from sim.attack import drones
from sim.attack.attackers import ATTACKERS, Request, View, request_of, steer
from sim.attack.drones import Shields, flight, fly, free_starts
from sim.attack.faults import FAULTS
from sim.attack.team import Team

PARAMS = make_shield_params(SPEC)
REQUESTS = [name for name, attacker in ATTACKERS.items() if attacker.kind != "failures"]


@pytest.mark.slow
@pytest.mark.parametrize(("robots", "seconds"), [(1, 10.0), (2, 10.0), (4, 10.0), (8, 6.0)])
def test_with_all_bounds_at_their_corner_no_robot_touches_another_the_fence_or_the_floor(robots, seconds):
    result = attacked(PARAMS, REQUESTS, "corner", robots, seconds)
    assert result.violations == 0 and result.least_margin > 0.0
    assert result.steps == robots * len(REQUESTS) * round(50 * seconds) and result.changed > 0.5 * result.steps


@pytest.mark.parametrize(
    ("attacker", "fault", "robots", "seed", "seconds"),
    [  # each began at full tilt: towards each other, and into a corner with another one behind
        ("dead", "corner, strong", 2, 235506123825992, 3.0),
        ("squeezer", "corner, biased", 4, 74945825733944, 1.8),
    ],
)
def test_robots_that_turn_slowly_lean_over_in_time(attacker, fault, robots, seed, seconds, monkeypatch):
    monkeypatch.setattr(drones, "SECONDS", seconds)
    spec = load_robot("x500")
    result = flight(spec, make_shield_params(spec), fault, attacker, robots, seed)
    assert result.violations == 0 and result.margins["distance"] > 0.0


def test_without_the_shield_the_same_adversaries_do_touch():
    result = attacked(PARAMS, REQUESTS, "usual", 4, 4.0, unguarded)
    assert {"distance", "fence", "floor"} == set(result.broken)
    assert result.violations > 0 and result.least_margin < -0.5


@pytest.mark.slow
def test_a_weaker_filter_is_found_out():
    weak = filtered_with(replace(PARAMS, separation_m=0.8 * PARAMS.separation_m, buffer_m=0.0, brake_accel=8.0))
    assert attacked(PARAMS, REQUESTS, "corner", 4, 8.0, weak).violations > 0


@pytest.mark.slow
@pytest.mark.parametrize(("robots", "within_s"), [(4, 4.5), (8, 8.0)])
def test_opposite_places_on_a_circle_are_swapped_without_waiting_for_each_other(robots, within_s):
    rng = np.random.default_rng(0)
    angle = np.arange(robots) * 2 * np.pi / robots
    circle = np.stack([1.5 * np.cos(angle), 1.5 * np.sin(angle), np.full(robots, 1.3)], axis=-1)
    starts = np.repeat(circle[None], 3, axis=0)
    starts[1:] += rng.normal(0, 0.05, starts[1:].shape)
    goals = starts * [-1, -1, 1]
    team = Team(SPEC, starts, FAULTS["usual"], rng)
    view = View(SPEC, PARAMS, rng, team.now)

    def pilot(view: View) -> Request:
        way = goals - view.now.pos
        length = np.linalg.norm(way, axis=-1, keepdims=True) + 1e-9
        wanted = way / length * np.minimum(1.5 * length, 1.8)
        target = steer(view, np.clip(2.5 * (wanted - view.now.lin_vel_w), -5.0, 5.0))
        return Request(target, np.full(view.shape, 0.01), np.ones(view.shape, dtype=bool))

    result = fly(team, view, pilot, filtered_with(PARAMS), within_s)
    assert np.linalg.norm(team.truth()[0][..., :3] - goals, axis=-1).max() < 0.4
    assert result.violations == 0


@pytest.mark.slow
def test_a_robot_whose_policy_dies_lands_among_others_that_hunt_it():
    rng = np.random.default_rng(3)
    starts = free_starts(SPEC, PARAMS, (1, 4), rng)
    team = Team(SPEC, starts, FAULTS["usual"], rng)
    view, shields = View(SPEC, PARAMS, rng, team.now), Shields(SPEC, PARAMS, (1, 4))
    seen: list[list[Mode]] = []

    def guard(*known):
        command, modes = shields(*known)
        seen.append([Mode(mode) for mode in modes[0]])
        return command, modes

    result = fly(team, view, lambda view: request_of(ATTACKERS["dead"], view), guard, 14.0)
    first = [modes[0] for modes in seen]
    assert all(mode in (Mode.NOMINAL, Mode.FILTERED) for mode in first[:100])
    assert first[105] is Mode.HOLD and Mode.LAND in first and first[-1] is Mode.OFF
    assert team.truth()[0][0, 0, 2] < 0.05 and result.violations == 0
    assert all(mode in (Mode.NOMINAL, Mode.FILTERED) for modes in seen for mode in modes[1:])


@pytest.mark.slow
def test_robots_that_cannot_brake_for_three_faces_of_a_corner_at_once_still_brake():
    """What was flown then was the answer of a problem that has none: 1.4 m through the upper face."""
    outcome = flight(SPEC, PARAMS, "losses", "pendulum", 4, 56054464765022)
    print(outcome)
    assert outcome.violations == 0 and outcome.most["outside_fence_m"] < 0.1
