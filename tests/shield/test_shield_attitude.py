"""The attitude loop of the shield, linear, sampled at the control rate: at the largest delays a tilt error dies out."""

from dataclasses import replace

import numpy as np
import pytest

from deploy.shield import ShieldParams, make_shield_params
from deploy.shield.drone.ahead import SWINGS_ON
from deploy.shield.drone.attitude import rate_authority_s
from deploy.shield.drone.guarantee import BOUNDS, attitude_loop
from hardware import load_robot

SPEC = load_robot("crazyflie")
PARAMS = make_shield_params(SPEC)
TICK_S = 1e-3


def remaining_error(params: ShieldParams, age_s: float, delay_s: float, slower: float = 1.0) -> float:
    """Of an error of the tilt, what is left in the fourth second, over the largest of the first half second.

    States are `age_s` old, commands take `delay_s`; the rate loop is `slower` than the one that the filter counts on.
    """
    authority_s, lag_s = rate_authority_s(params, SPEC.flight), slower * SPEC.flight.rate_time_constant_s
    kept_s = params.lookahead_s - authority_s + age_s
    turn, rate, change, command = 1.0, 0.0, 0.0, 0.0
    known, due = [], [0.0] * (round(delay_s / TICK_S) + 1)
    for tick in range(4000):
        known.append((turn, rate))
        if tick % round(params.control_dt_s / TICK_S) == 0:
            then = known[max(0, tick - round(age_s / TICK_S))]
            command = -(then[0] + kept_s * then[1]) / authority_s
        due.append(command)
        change += TICK_S * (due.pop(0) - rate - 2 * lag_s * change) / lag_s**2
        rate += TICK_S * change
        turn += TICK_S * rate
    errors = np.abs([each[0] for each in known])
    return float(errors[-500:].max() / errors[:500].max())


@pytest.mark.parametrize(("age_s", "delay_s", "slower"), [(0.004, 0.004, 1.0), (0.03, 0.02, 1.0), (0.02, 0.02, 1.5)])
def test_a_tilt_error_dies_out_at_the_largest_delays(age_s, delay_s, slower):
    assert remaining_error(PARAMS, age_s, delay_s, slower) < 0.01


@pytest.mark.parametrize("name", ["crazyflie", "x500"])
def test_the_predicted_swing_is_that_of_rates_that_fade_with_the_loop(name):
    """Over latency and age, of what rates that lasted would do to velocity and place: 0.76 to 0.90 of it."""
    spec = load_robot(name)
    params, lag_s = make_shield_params(spec), spec.flight.rate_time_constant_s
    for age_s in (0.0, BOUNDS.age_s):
        t = np.linspace(0.0, params.latency_s + age_s, 5000)
        fading = np.maximum(t - params.command_delay_s, 0.0) / lag_s
        turn = np.cumsum((1.0 + fading) * np.exp(-fading)) * t[1]
        speed, way = (np.cumsum(turn) * t[1], np.cumsum(np.cumsum(turn)) * t[1] ** 2)
        assert speed[-1] / (t[-1] ** 2 / 2) == pytest.approx(SWINGS_ON, abs=0.05)
        assert way[-1] / (t[-1] ** 3 / 6) == pytest.approx(SWINGS_ON, abs=0.11)


@pytest.mark.parametrize("name", ["crazyflie", "x500"])
def test_the_attitude_loop_has_a_phase_margin_of_45_degrees_at_the_largest_delay(name):
    spec = load_robot(name)
    phase, _ = attitude_loop(make_shield_params(spec), spec.flight, BOUNDS)
    assert np.degrees(phase) > 45.0


def test_with_a_shorter_look_ahead_it_would_grow():
    assert remaining_error(replace(PARAMS, lookahead_s=PARAMS.lookahead_s - 0.07), 0.03, 0.02) > 10.0
