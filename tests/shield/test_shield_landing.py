"""A drone that its shield lands: on the ground, on something else, above another one, and never too early."""

from dataclasses import replace

import numpy as np
import pytest
from shield_flight import DT, HOVER, PARAMS, SPEC, Flight

from deploy.shield import Mode, Shield
from hardware import Peers


@pytest.mark.parametrize("thrust_scale", [0.92, 1.05])
def test_it_lands_with_worn_or_fresh_rotors(thrust_scale):
    flight = Flight(thrust_scale=thrust_scale).after_ramp()
    flight.fly(9.0, request=None)
    assert flight.modes[-1] is Mode.OFF and flight.state().base_pos[2] < 0.05


@pytest.mark.parametrize("thrust_scale", [0.9, 1.0, 1.1])
def test_a_drone_that_lands_on_something_stops_its_motors_there_and_not_in_the_air(thrust_scale):
    flight = Flight(thrust_scale=thrust_scale)
    flight.shield = Shield(replace(PARAMS, ground_z_m=-0.5), SPEC)  # half a metre below what it lands on
    flight.after_ramp()
    for _ in range(600):
        height_m = flight.state().base_pos[2]
        flight.step(request=None)
        if flight.modes[-1] is Mode.OFF:
            break
    assert flight.modes[-1] is Mode.OFF and height_m < 0.05


def test_on_the_ground_it_waits_with_idle_motors_and_takes_off_when_asked():
    flight = Flight(pos=(0.0, 0.0, 0.018))
    sent, report = flight.fly(1.0, request=None)
    assert report.mode is Mode.OFF and sent[0] == np.float32(SPEC.command_low[0])
    flight.fly(2.0, request=np.float32([1.05 * HOVER[0], 0, 0, 0]))
    assert flight.modes[-1] in (Mode.NOMINAL, Mode.FILTERED) and flight.state().base_pos[2] > 0.3


@pytest.mark.parametrize("gap_s", [0.14, 1.0])
def test_a_gap_of_measurements_while_it_lands_does_not_stop_its_motors_in_the_air(gap_s):
    flight = Flight(pos=(0.0, 0.0, 2.5)).after_ramp()
    flight.fly(4.2, request=None)
    assert flight.modes[-1] is Mode.LAND
    flight.fly(gap_s, request=None, state=None)
    flight.fly(0.1, request=None)
    assert Mode.OFF not in flight.modes[-round((gap_s + 0.1) / DT) :] and flight.data.qpos[2] > 0.3


def test_while_landing_it_still_keeps_away_from_a_peer_below():
    flight = Flight(pos=(0.0, 0.0, 1.5)).after_ramp()
    below = Peers(np.array([[0.02, 0.0, 0.6]]), np.zeros((1, 3)), np.zeros(1), np.ones(1, bool))
    flight.fly(2.0, request=None, peers=below)
    for _ in range(150):
        flight.step(None, peers=below)
        offset = flight.state().base_pos - below.pos[0]
        scaled = np.linalg.norm(offset * [1, 1, 1 / PARAMS.downwash_ratio]) / PARAMS.separation_m
        assert scaled > 0.95


def test_a_robot_that_sinks_without_an_estimate_keeps_away_from_a_peer_below_too():
    flight = Flight(pos=(0.0, 0.0, 1.6)).after_ramp()
    below = Peers(np.array([[0.02, 0.0, 0.7]]), np.zeros((1, 3)), np.zeros(1), np.ones(1, bool))
    for _ in range(125):
        _, report = flight.step(None, state=None, peers=below)
        offset = flight.state().base_pos - below.pos[0]
        assert np.linalg.norm(offset * [1, 1, 1 / PARAMS.downwash_ratio]) / PARAMS.separation_m > 0.9
    assert report.mode is Mode.LAND and not report.filtered


def test_strong_rotors_that_hover_for_long_are_not_taken_for_something_that_carries_it():
    """They need a tenth less thrust: what tells a table from them is how much less."""
    flight = Flight(thrust_scale=1.1)
    flight.shield = Shield(replace(PARAMS, hold_s=8.0), SPEC)
    flight.after_ramp()
    flight.fly(7.0, request=None)
    assert flight.modes[-1] is Mode.HOLD and flight.state().base_pos[2] > 0.8
