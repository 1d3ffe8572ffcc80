"""An estimator that freezes, or whose position and velocity part by 0.8 m/s, takes the robot from its policy."""

from dataclasses import replace

import numpy as np
import pytest
from shield_flight import HOVER, PARAMS, SPEC, Flight

from deploy.shield import Mode
from deploy.shield.drone.attitude import rotated, rotation_matrix
from deploy.shield.fallback import StartCfg
from hardware.rotation import rotate_inverse

AWAY = np.float32([1.05 * HOVER[0], 0.0, 0.6, 0.0])  # tilts, and goes


def speeding(speed: float = 1.0) -> Flight:
    """A robot that flies to positive x under its policy."""
    flight = Flight().after_ramp()
    for _ in range(100):
        tilt_rate = 2.0 if flight.data.qvel[0] < speed and flight.data.qpos[5] < 0.1 else -2.0
        flight.step(np.float32([1.03 * HOVER[0], 0.0, tilt_rate if abs(flight.data.qpos[5]) < 0.12 else 0.0, 0.0]))
        if flight.data.qvel[0] > speed:
            return flight
    raise AssertionError("it does not speed up")


def test_a_frozen_estimate_with_fresh_stamps_brings_the_robot_down_level():
    flight = speeding()
    frozen = flight.state()
    reasons = [flight.step(AWAY, state=replace(frozen))[1] for _ in range(round(6.0 / PARAMS.control_dt_s))]
    tripped = next(k for k, report in enumerate(reasons) if report.mode not in (Mode.NOMINAL, Mode.FILTERED))
    assert tripped * PARAMS.control_dt_s <= 0.25
    assert "has not changed" in reasons[tripped].reason
    assert reasons[-1].mode is Mode.OFF
    assert flight.data.qpos[0] < PARAMS.geofence_high[0]


@pytest.mark.parametrize("what", ["velocity stuck at zero", "position stuck", "position slides"])
def test_a_position_that_is_not_where_the_velocity_leads_lands_the_robot(what):
    flight = speeding()
    start = flight.state()

    def wrong(step: int):
        state = flight.state()
        if what == "velocity stuck at zero":
            return replace(state, base_lin_vel=np.zeros(3))
        if what == "position stuck":
            return replace(state, base_pos=start.base_pos + 1e-4 * (step % 2))
        return replace(state, base_pos=state.base_pos + np.array([0.0, 0.024 * step, 0.0]))  # 1.2 m/s

    reports = [flight.step(AWAY, state=wrong(step))[1] for step in range(round(8.0 / PARAMS.control_dt_s))]
    tripped = next(k for k, report in enumerate(reports) if report.mode not in (Mode.NOMINAL, Mode.FILTERED))
    assert tripped * PARAMS.control_dt_s <= 0.5
    assert "position and velocity differ" in reports[tripped].reason
    assert any(report.latched for report in reports)


def test_an_adversary_that_is_measured_with_noise_is_not_doubted():
    rng = np.random.default_rng(1)
    flight, request = Flight().after_ramp(), HOVER
    for step in range(2000):
        if step % 25 == 0:
            request = rng.uniform(SPEC.command_low, SPEC.command_high)
        true = flight.state()
        vel_w = rng.normal(0.0, 0.03, 3)
        measured = replace(
            true,
            base_pos=true.base_pos + rng.normal(0.0, 0.005, 3),
            base_lin_vel=true.base_lin_vel + rotate_inverse(true.base_quat, vel_w),
        )
        assert flight.step(request, state=measured)[1].mode in (Mode.NOMINAL, Mode.FILTERED), flight.modes[-1]


def climbing(flight: Flight, seconds: float, **kwargs) -> list[str]:
    """Reasons of each step of a start on the ground."""
    flight.shield.reset()
    said = []
    for _ in range(round(seconds / PARAMS.control_dt_s)):
        target = flight.shield.start(PARAMS.control_dt_s, StartCfg())
        said.append(flight.step(None if target is None else target[0], **kwargs)[1].reason)
    return said


@pytest.mark.parametrize("noise_m", [0.0, 0.005])
def test_a_drone_whose_estimate_stays_on_the_ground_does_not_climb(noise_m):
    flight, rng = Flight(pos=(0.0, 0.0, 0.03)), np.random.default_rng(0)
    flight.fly(0.1, request=None)
    ground, highest = flight.state(), 0.0
    flight.shield.reset()
    for _ in range(round(4.0 / PARAMS.control_dt_s)):
        measured = replace(ground, base_pos=ground.base_pos + rng.normal(0.0, noise_m, 3))
        target = flight.shield.start(PARAMS.control_dt_s, StartCfg())
        flight.step(None if target is None else target[0], state=measured)
        highest = max(highest, flight.data.qpos[2])
    assert highest < 1.0, f"it climbed to {highest:.1f} m"
    assert flight.data.qpos[2] < 0.1


@pytest.mark.parametrize("thrust_scale", [0.82, 1.0, 1.2])
def test_a_drone_with_worn_rotors_is_not_taken_for_one_that_does_not_rise(thrust_scale):
    flight = Flight(pos=(0.0, 0.0, 0.03), thrust_scale=thrust_scale)
    assert not any("rise" in reason for reason in climbing(flight, 3.0))
    assert flight.data.qpos[2] > 0.3


def test_a_drone_without_propellers_is_given_up_and_can_be_started_again():
    flight = Flight(pos=(0.0, 0.0, 0.03), thrust_scale=0.0)
    assert any("not measured to rise" in reason for reason in climbing(flight, 3.0))
    flight.thrust_scale = 1.0
    assert not any("rise" in reason for reason in climbing(flight, 3.0))
    assert flight.data.qpos[2] > 0.5


def stuck(flight: Flight, rng: np.random.Generator, height_m: float):
    """What is measured where the height stands still from `height_m` on, and all else goes on."""
    state = flight.state()
    if state.base_pos[2] < height_m and not getattr(flight, "is_stuck", False):
        return state
    flight.is_stuck = True
    vel = rotated(rotation_matrix(state.base_quat.tolist()), state.base_lin_vel.tolist())
    pos = np.array([*state.base_pos[:2], height_m + rng.normal(0.0, 0.002)])
    return replace(state, base_pos=pos, base_lin_vel=rotate_inverse(state.base_quat, np.array([*vel[:2], 0.0])))


@pytest.mark.parametrize("height_m", [0.1, 0.15, 0.3])
def test_a_drone_whose_height_stands_still_as_it_takes_off_comes_down(height_m):
    flight, rng, highest = Flight(pos=(0.0, 0.0, 0.03)), np.random.default_rng(0), 0.0
    flight.fly(0.1, request=None)
    flight.shield.reset()
    for _ in range(round(8.0 / PARAMS.control_dt_s)):
        target = flight.shield.start(PARAMS.control_dt_s, StartCfg())
        _, report = flight.step(None if target is None else target[0], state=stuck(flight, rng, height_m))
        highest = max(highest, flight.data.qpos[2])
    assert highest < 2.8, f"it climbed to {highest:.1f} m"
    assert flight.data.qpos[2] < 0.1 and "not measured to rise" in report.reason


def test_a_policy_that_climbs_while_the_height_stands_still_loses_the_robot():
    flight, rng = Flight(pos=(0.0, 0.0, 1.0)).after_ramp(), np.random.default_rng(0)
    up, highest = np.float32([1.3 * HOVER[0], 0.0, 0.0, 0.0]), 0.0
    for _ in range(round(8.0 / PARAMS.control_dt_s)):
        flight.step(up, state=stuck(flight, rng, 1.0))
        highest = max(highest, flight.data.qpos[2])
    assert highest < 3.0, f"it climbed to {highest:.1f} m"
    assert flight.data.qpos[2] < 0.1


@pytest.mark.parametrize("height_m", [0.5, 1.0, 2.0])
def test_a_drone_that_lands_while_its_height_stands_still_is_no_stone(height_m):
    flight, rng, fastest = Flight(pos=(0.0, 0.0, height_m)).after_ramp(), np.random.default_rng(0), 0.0
    flight.shield.land(flight.now_s, "landing asked for")
    flight.is_stuck = True
    while flight.data.qpos[2] > 0.05:
        flight.step(HOVER, state=stuck(flight, rng, height_m))
        fastest = max(fastest, -float(flight.data.qvel[2]))
        assert flight.now_s < 120.0
    assert fastest < 0.75 * np.sqrt(2 * 9.81 * height_m), f"it hits the ground at {fastest:.1f} m/s"


@pytest.mark.parametrize("thrust_scale", [0.82, 1.2])
def test_worn_rotors_that_hover_are_not_doubted(thrust_scale):
    flight = Flight(pos=(0.0, 0.0, 1.0), thrust_scale=thrust_scale)
    reports = [flight.step(HOVER / thrust_scale)[1] for _ in range(round(4.0 / PARAMS.control_dt_s))]
    assert not any("rise" in report.reason for report in reports)
