"""The check of the composition: it passes for what is deployed, and finds the way to a collision where a part lacks."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from deploy.shield.check import __main__ as command
from deploy.shield.check.pairs import FRESH_S, Pair, fly
from deploy.shield.check.robot import Robot, rows_bound
from deploy.shield.drone.params import make_flight_params
from hardware import load_robot

PARAMS = make_flight_params(load_robot("crazyflie"))
DEPLOYED = Robot(PARAMS)


@pytest.mark.slow
def test_the_deployed_rows_keep_two_apart_and_every_mutant_is_rejected_with_a_trace(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check", "--json"])
    assert command.main() == 0
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert "s left" in output.err
    assert all(pair["safe"] for pair in result["pairs"].values()) and len(result["mutants"]) == 3
    for mutant in result["mutants"].values():
        assert not mutant["safe"]
        first, last = mutant["trace"][0], mutant["trace"][-1]
        assert first["h_m_s"] >= 0.0 and last["h_m_s"] < 0.0 and last["gap_m"] < first["gap_m"]
    assert result["mutants"]["a peer that does not share is forgotten"]["flown_m"] < PARAMS.separation_m
    times = list(result["times"].values())
    assert [row["robots"] for row in times] == list(range(2, 11))
    assert times[-1]["cells_of_one_game"] > 1e20 * times[0]["cells_of_one_game"]


def test_it_fails_where_the_buffer_is_too_small_for_the_errors(monkeypatch):
    thin = Robot(replace(PARAMS, buffer_m=0.1))
    assert not Pair.of(thin, FRESH_S, command.SIZE).keeps
    monkeypatch.setattr(sys, "argv", ["check"])
    monkeypatch.setattr(command, "show", lambda *_: None)
    some = [job for job in command.jobs(thin) if job[0] in ("pairs", "mutants")][1:10:8]
    monkeypatch.setattr(command, "jobs", lambda robot: some)
    assert command.main() == 1


def test_what_it_calls_are_the_rows_of_two_that_close_in_alike():
    """Half of the barrier's duty for a peer that shares, all of it with half the braking for one that does not."""
    gap, closing = np.array([0.9, 1.7]), np.array([0.4, 1.9])
    seen = gap - closing * (PARAMS.latency_s + FRESH_S)  # what is left when a command takes effect
    room = seen - PARAMS.separation_m - PARAMS.buffer_m - 3.0 * FRESH_S**2
    for shares, duty in ((True, 0.5), (False, 1.0)):
        brake = 2.0 / duty
        root = np.sqrt(2.0 * brake * np.maximum(room - brake / 18.0, brake / 18.0))
        allowed = np.minimum(3.0 * room, root)
        barrier, turn = allowed - closing, 9.81 * PARAMS.max_rate / duty
        used_up = 2.0 * barrier / (0.2 + np.sqrt(0.04 + 2.0 * np.maximum(barrier, 0.0) / turn))
        expected = duty * (used_up - brake / root * closing)
        assert rows_bound(PARAMS, gap, closing, FRESH_S, shares=shares) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("above", [False, True])
def test_no_flight_of_the_deployed_rows_comes_nearer_than_the_separation(above):
    least_m = fly(replace(DEPLOYED, above=above), FRESH_S)
    assert least_m > PARAMS.separation_m * (PARAMS.downwash_ratio if above else 1.0)
