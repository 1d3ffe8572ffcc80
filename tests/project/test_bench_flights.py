"""`python -m benchmarks flights`: what robots on emulated devices are asked for."""

from collections import deque

import numpy as np
import pytest

from benchmarks.flights import CASES, bench_flights, fence_of, goals_of
from benchmarks.flights_humanoid import _amiss
from sim.tasks import load_task


def test_a_drone_begins_each_flight_as_far_from_its_goal_as_its_task_puts_it():
    flights = [goal["goal_pos"] for goal, _ in goals_of(CASES["px4"], 40)]
    steps = np.abs(np.diff(flights, axis=0))
    assert 0.5 < steps.max() < 0.7 + 1e-6 and np.unique(flights, axis=0).shape == (40, 3)
    assert [within_m for _, within_m in goals_of(CASES["ur"], 2)] == [0.01, 0.01]


def test_a_driver_without_an_emulated_device_is_named():
    with pytest.raises(ValueError, match="driver 'franka': choose from crazyflie, px4, ur, ros2_control, "):
        bench_flights(("franka",), on_progress=print)


def said(walks, position=(0.0, 0.0, 0.7), tilt=0.1, lowest_m=0.7, seconds=3.0):
    """What the device of a G1 says fifty times a second while it is to walk at 0.5 m/s."""
    asked = np.array([0.5, 0.0, 0.0])
    device = {"walks": walks, "position": position, "tilt": tilt, "lowest_m": lowest_m}
    return deque((0.02 * step, device, asked) for step in range(round(50 * seconds)))


def test_a_humanoid_that_falls_leans_or_does_not_walk_as_commanded_has_not_succeeded():
    stand, walk = (_amiss(load_task(name).groups["g1"], 1.0) for name in ("stand", "velocity"))
    assert stand(said([0.0, 0.0, 0.0])) == "" and walk(said([0.45, 0.05, 0.1])) == ""
    assert "fell" in stand(said([0.0] * 3, lowest_m=0.3)) and "fell" in walk(said([0.5, 0.0, 0.0], tilt=1.2))
    assert "away" in stand(said([0.0] * 3, position=(1.2, 0.0, 0.7))) and "leans" in stand(said([0.0] * 3, tilt=0.6))
    for walks in ([0.0, 0.0, 0.0], [0.5, 0.3, 0.0], [0.5, 0.0, -0.4]):
        assert "off by" in walk(said(walks))


def test_a_drone_flies_in_the_fence_of_its_task():
    assert fence_of("hover-x500") == {"geofence_low": (-4.8, -4.8, 0.6), "geofence_high": (4.8, 4.8, 4.8)}
