"""`python -m benchmarks flights`: what robots on emulated devices are asked for."""

import numpy as np
import pytest

from benchmarks.flights import CASES, bench_flights, goals_of


def test_a_drone_begins_each_flight_as_far_from_its_goal_as_its_task_puts_it():
    flights = [goal["goal_pos"] for goal, _ in goals_of(CASES["px4"], 40)]
    steps = np.abs(np.diff(flights, axis=0))
    assert 0.5 < steps.max() < 0.7 + 1e-6 and np.unique(flights, axis=0).shape == (40, 3)
    assert [within_m for _, within_m in goals_of(CASES["ur"], 2)] == [0.01, 0.01]


def test_a_driver_without_an_emulated_device_is_named():
    with pytest.raises(ValueError, match="driver 'franka': choose from crazyflie, px4, ur, ros2_control, "):
        bench_flights(("franka",), 1, 1, lambda *_: None)
