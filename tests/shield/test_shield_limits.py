"""Limits belong to the robot's owner: a policy file narrows them and never widens them."""

from dataclasses import asdict

import pytest

from deploy.shield import make_shield_params, narrowed_limits, owned_params, untried_limits
from deploy.shield.param_checks import ShieldParamsError
from hardware import load_robot

DRONE, ARM, HUMANOID = load_robot("crazyflie"), load_robot("panda"), load_robot("g1")
WIDE = {
    "separation_m": 0.001,
    "downwash_ratio": 0.1,
    "geofence_low": (-1e6, -1e6, -1e6),
    "geofence_high": (1e6, 1e6, 1e6),
    "max_climb_accel": 10**400,
    "max_speed": 99.0,
    "act_periods": 500,
}
TIGHT = {
    "separation_m": 50,
    "downwash_ratio": 1e9,
    "max_speed": 1e-300,
    "land_speed": 1e-300,
    "act_periods": 1,
    "recover_periods": 10**9,
    "ramp_s": 1e9,
}


def params_of(spec, trained):
    limits, held = narrowed_limits(spec, trained)
    return make_shield_params(spec, **limits), held


def test_what_a_file_would_widen_stays_the_robots_and_is_said():
    params, held = params_of(DRONE, WIDE)
    usual = make_shield_params(DRONE)
    assert sorted(line.split(":")[0] for line in held) == sorted(WIDE)
    assert "separation_m: the policy file asks for 0.001, the robot's 0.2" in "; ".join(held)
    for name in ("separation_m", "downwash_ratio", "geofence_high", "max_speed", "act_periods"):
        assert getattr(params, name) == getattr(usual, name), name
    assert params.geofence_low == (*usual.geofence_low[:2], 0.0)  # the ground, and not below it
    assert params.max_climb_accel < 9.0  # what full thrust gives


def test_what_a_file_narrows_holds():
    asked = {"separation_m": 0.4, "max_speed": 1.0, "geofence_low": (-1.0, -9.0, 0.5), "act_periods": 3}
    params, held = params_of(DRONE, asked)
    assert (params.separation_m, params.max_speed, params.act_periods) == (0.4, 1.0, 3)
    assert params.geofence_low == (-1.0, -3.0, 0.5)  # each face by itself
    assert [line.split(":")[0] for line in held] == ["geofence_low"]


def test_what_an_owner_widens_holds_and_is_said_not_to_be_tried():
    own = {"max_speed": 99.0, "separation_m": 0.4, "geofence_high": (9.0, 9.0, 9.0), "buffer_m": 0.02, "ramp_s": 0.2}
    params = owned_params(DRONE, WIDE, own)
    assert (params.max_speed, params.buffer_m) == (99.0, 0.02)
    lines = untried_limits(DRONE, params)
    assert [line.split(" =")[0] for line in lines] == ["shield limit buffer_m", "shield limit max_speed"]
    assert "max_speed = 99, the robot's own is 2.5: what docs/shield.md guarantees was not tried" in lines[1]
    for spec in (DRONE, ARM, HUMANOID):
        assert not untried_limits(spec, owned_params(spec, {"act_periods": 3}, {}))
    assert len(untried_limits(ARM, owned_params(ARM, {}, {"person_speed": 0.1}))) == 1


def test_a_limit_is_not_narrowed_to_what_the_robot_cannot_keep():
    params, held = params_of(DRONE, TIGHT)
    usual = make_shield_params(DRONE)
    assert sorted(line.split(":")[0] for line in held) == sorted(TIGHT)
    assert params.separation_m == 2 * usual.separation_m and params.downwash_ratio == 2 * usual.downwash_ratio
    assert (params.max_speed, params.land_speed, params.act_periods) == (0.5, 0.2, 2)
    slow = params_of(ARM, {"max_velocity": (1e-9,) * 8})[0]
    assert slow.max_velocity == tuple(0.05 * speed for speed in make_shield_params(ARM).max_velocity)


def test_the_filters_own_numbers_are_not_the_files():
    asked = {"lookahead_s": 0.01, "latency_s": 1e-6, "barrier_gain": 1e4, "peer_accel": 1e-6, "landed_height_m": 50.0}
    asked |= {"max_tilt_rad": -4.8, "max_descent_accel": 0.02, "fence_buffer_m": 5.0, "control_dt_s": 2e-6}
    assert params_of(DRONE, asked) == (make_shield_params(DRONE), [])


@pytest.mark.parametrize("spec", [ARM, HUMANOID])
def test_robots_with_joints_too(spec):
    usual = make_shield_params(spec)
    wide = {name: tuple(9.0 * most for most in getattr(usual, name)) for name in ("max_velocity", "max_effort")}
    wide |= {"speed_share": 1.0, "max_power_w": 1e-9, "pickup_share": 0.0, "latency_s": 0.4, "max_tilt_rad": 0.01}
    params, held = params_of(spec, wide)
    assert params == usual and {"max_velocity", "speed_share"} <= {line.split(":")[0] for line in held}
    slow = tuple(0.5 * speed for speed in usual.max_velocity)
    assert params_of(spec, {"max_velocity": slow})[0].max_velocity == slow


@pytest.mark.parametrize("spec", [DRONE, ARM, HUMANOID])
def test_the_robots_own_limits_come_back_as_they_are(spec):
    usual = make_shield_params(spec)
    assert params_of(spec, asdict(usual)) == (usual, [])


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"separation_m": float("nan")}, "separation_m = nan: must be a number"),
        ({"geofence_low": (0.0, 0.0)}, "geofence_low = .*: must be 3 numbers"),
        ({"geofence_low": 3.0}, "geofence_low = 3.0: must be 3 numbers"),
        ({"max_speed": "fast"}, "max_speed = 'fast': must be a number"),
        ({"speed": 1.0}, "unknown shield parameter 'speed' in the policy file"),
        ({"geofence_low": (2.4, 2.4, 2.4), "geofence_high": (2.5, 2.5, 2.5)}, "every side must have at least 0.6 m"),
        ({"geofence_low": (1.0, 1.0)}, "must be 3 numbers"),
    ],
)
def test_what_is_no_limit_is_refused_in_one_line(asked, reason):
    with pytest.raises(ShieldParamsError, match=reason):
        params_of(DRONE, asked)
