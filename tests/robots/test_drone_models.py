"""Specs of drones against the models that MuJoCo compiles from their MJCF."""

from math import hypot

import mujoco
import numpy as np
import pytest
from one_scene import build_scene

from hardware import RobotSpec, load_robot, robot_names
from hardware.spec import GRAVITY

CRAZYFLIE, X500 = load_robot("crazyflie"), load_robot("x500")
each_drone = pytest.mark.parametrize("spec", [CRAZYFLIE, X500], ids=lambda spec: spec.name)
HEIGHT_M = 5.0


def model_of(spec: RobotSpec) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(spec.mjcf))


def hovering(spec: RobotSpec, model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos[2] = HEIGHT_M
    data.act[0] = data.ctrl[0] = spec.flight.hover_thrust_n
    return data


def test_mass_and_inertia_of_a_crazyflie_are_the_published_ones():
    model = model_of(CRAZYFLIE)
    assert mujoco.mj_getTotalmass(model) == pytest.approx(CRAZYFLIE.mass_kg)
    assert model.body("base").inertia == pytest.approx([25e-6, 28e-6, 49e-6])


def test_mass_and_inertia_of_an_x500_are_those_of_the_body_and_its_four_rotors():
    model = model_of(X500)
    body_kg, rotor_kg, arm_m, height_m = 2.0, 0.016076923, 0.174, 0.06
    mass_kg = body_kg + 4 * rotor_kg
    centre_m = 4 * rotor_kg * height_m / mass_kg
    blade = (3.8465e-07 + 2.61159e-05) / 2
    about_x = 0.0216667 + body_kg * centre_m**2
    about_x += 4 * (rotor_kg * (arm_m**2 + (height_m - centre_m) ** 2) + blade)
    about_z = 0.04 + 4 * (rotor_kg * 2 * arm_m**2 + 2.64986e-05)
    assert mujoco.mj_getTotalmass(model) == pytest.approx(X500.mass_kg) == pytest.approx(mass_kg)
    assert model.body("base").inertia == pytest.approx([about_x, about_x, about_z], rel=1e-5)
    assert 1.9 < X500.mass_kg < 2.2


@each_drone
def test_hover_thrust_carries_the_weight(spec):
    model = model_of(spec)
    data = hovering(spec, model)
    for _ in range(500):
        mujoco.mj_step(model, data)
    assert data.qpos[2] == pytest.approx(HEIGHT_M, abs=1e-6)
    assert spec.flight.hover_thrust_n == pytest.approx(spec.mass_kg * GRAVITY)


def test_thrust_range_of_an_x500_is_that_of_the_rotor_speeds_and_leaves_room_to_climb_and_tilt():
    thrust = X500.channels[0]
    assert thrust.low == pytest.approx(0.7694, rel=1e-3) and thrust.high == pytest.approx(34.194, rel=1e-4)
    assert thrust.high / X500.flight.hover_thrust_n == pytest.approx(1.69, abs=0.01)
    vertical_n = 0.8 * thrust.high * np.cos(X500.flight.max_tilt_rad)
    assert vertical_n >= X500.flight.hover_thrust_n - 1e-9


@each_drone
def test_channels_stay_inside_what_the_model_accepts(spec):
    model = model_of(spec)
    for channel in spec.channels:
        low, high = model.actuator(channel.name).ctrlrange
        assert low <= channel.low < channel.high == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize(
    ("spec", "axis", "step_rad_s"),
    [(CRAZYFLIE, 0, 1.0), (CRAZYFLIE, 1, 1.0), (CRAZYFLIE, 2, 1.0), (X500, 0, 1.0), (X500, 1, 1.0), (X500, 2, 0.2)],
)
def test_body_rate_answers_like_a_critically_damped_loop_through_the_rotor_lag(spec, axis, step_rad_s):
    """w(t) = w_cmd (1 - (1 + t/T) exp(-t/T)), at the step that training uses and at a fine one."""
    model, period_s = model_of(spec), spec.flight.rate_time_constant_s
    for timestep_s, tolerance in ((0.004, 0.03), (0.0005, 0.004)):
        model.opt.timestep = timestep_s
        data = hovering(spec, model)
        data.ctrl[1 + axis] = step_rad_s
        for _ in range(int(0.3 / timestep_s)):
            mujoco.mj_step(model, data)
            expected = step_rad_s * (1 - (1 + data.time / period_s) * np.exp(-data.time / period_s))
            slack = (tolerance + timestep_s / period_s * 0.5) * step_rad_s
            assert data.qvel[3 + axis] == pytest.approx(expected, abs=slack)


def test_an_x500_yaws_no_faster_than_the_reaction_torque_of_its_rotors():
    model = model_of(X500)
    data = hovering(X500, model)
    data.ctrl[3] = X500.channels[3].high
    while data.time < 0.25:
        mujoco.mj_step(model, data)
    fastest = 0.1115 / model.body("base").inertia[2] * data.time
    assert 0.7 * fastest < data.qvel[5] < fastest


def test_coarse_and_fine_steps_agree_on_a_hard_manoeuvre_of_an_x500():
    model, ends = model_of(X500), []
    for timestep_s in (0.004, 0.0005):
        model.opt.timestep = timestep_s
        data = hovering(X500, model)
        data.ctrl[0] = X500.channels[0].high
        while data.time < 0.6 - 1e-9:
            data.ctrl[1] = X500.channels[1].high if data.time < 0.2 else X500.channels[1].low
            mujoco.mj_step(model, data)
        ends.append(np.concatenate([data.qpos, data.qvel]))
    assert np.all(np.isfinite(ends)) and np.abs(ends[0] - ends[1]).max() < 0.15


@pytest.mark.parametrize(("spec", "more_n"), [(CRAZYFLIE, 0.1), (X500, 2.0)])
def test_thrust_follows_with_the_rotor_time_constant(spec, more_n):
    model = model_of(spec)
    model.opt.timestep = 0.0005
    data = hovering(spec, model)
    data.ctrl[0] = spec.flight.hover_thrust_n + more_n
    while data.time < spec.flight.rotor_time_constant_s:
        mujoco.mj_step(model, data)
    assert data.act[0] - spec.flight.hover_thrust_n == pytest.approx(more_n * (1 - np.exp(-1)), rel=0.03)


@pytest.mark.parametrize(
    ("spec", "drag"),
    [(CRAZYFLIE, 0.02149163), (X500, 4 * 769.564 * 8.06428e-5)],  # N s/m: identified; rotors x rad/s x N s^2/(m rad)
)
def test_drag_slows_a_level_drift(spec, drag):
    """m dv/dt = -d v."""
    model = model_of(spec)
    data = hovering(spec, model)
    data.qvel[0] = 2.0
    while data.time < 1.0:
        mujoco.mj_step(model, data)
    assert data.qvel[0] == pytest.approx(2.0 * np.exp(-drag / spec.mass_kg), rel=0.01)


@pytest.mark.parametrize(("spec", "base_m", "within_m"), [(CRAZYFLIE, 0.015, 5e-3), (X500, X500.home_height_m, 1e-3)])
def test_it_rests_on_the_floor_when_the_motors_are_off(spec, base_m, within_m):
    scene = build_scene(spec, 1)
    data = mujoco.MjData(scene.model)
    data.qpos[2:4] = base_m + 0.1, 1.0
    for _ in range(500):
        mujoco.mj_step(scene.model, data)
    assert abs(data.qvel).max() < 0.01 and data.qpos[3] > 0.9999
    assert data.qpos[2] == pytest.approx(base_m, abs=within_m)


@pytest.mark.parametrize(("spec", "flat"), [(CRAZYFLIE, True), (X500, False)])  # a circle around the rotors; a ball
def test_no_part_leaves_its_radius(spec, flat):
    model = model_of(spec)
    for index in range(model.ngeom):
        pos, size = model.geom_pos[index], model.geom_size[index]
        if model.geom_type[index] == mujoco.mjtGeom.mjGEOM_CYLINDER:
            reach = hypot(np.hypot(*pos[:2]) + size[0], 0.0 if flat else abs(pos[2]) + size[1])
        else:
            corner = np.zeros(9)
            mujoco.mju_quat2Mat(corner, model.geom_quat[index])
            reach = np.linalg.norm(np.abs(pos) + np.abs(corner.reshape(3, 3)) @ size)
        assert reach <= spec.radius_m + 1e-9


@each_drone
def test_every_number_has_a_source(spec):
    assert len(spec.sources) >= 8 and spec.name in robot_names()


def test_an_unknown_robot_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown robot 'crazyfly'.*did you mean 'crazyflie'"):
        load_robot("crazyfly")
