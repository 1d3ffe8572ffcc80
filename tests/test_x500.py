"""The X500's spec against the model that MuJoCo compiles from its MJCF."""

from math import hypot

import mujoco
import numpy as np
import pytest

from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield.types import NO_PEERS
from hardware import RobotState, load_robot, robot_names
from hardware.spec import GRAVITY

SPEC = load_robot("x500")
PERIOD_S = SPEC.flight.rate_time_constant_s


@pytest.fixture
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(SPEC.mjcf))


def hovering(model: mujoco.MjModel, height_m: float = 5.0) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos[2] = height_m
    data.act[0] = data.ctrl[0] = SPEC.flight.hover_thrust_n
    return data


def test_mass_and_inertia_are_those_of_the_body_and_its_four_rotors(model):
    body_kg, rotor_kg, arm_m, height_m = 2.0, 0.016076923, 0.174, 0.06
    mass_kg = body_kg + 4 * rotor_kg
    centre_m = 4 * rotor_kg * height_m / mass_kg
    blade = (3.8465e-07 + 2.61159e-05) / 2
    about_x = 0.0216667 + body_kg * centre_m**2
    about_x += 4 * (rotor_kg * (arm_m**2 + (height_m - centre_m) ** 2) + blade)
    about_z = 0.04 + 4 * (rotor_kg * 2 * arm_m**2 + 2.64986e-05)
    assert mujoco.mj_getTotalmass(model) == pytest.approx(SPEC.mass_kg) == pytest.approx(mass_kg)
    assert model.body("base").inertia == pytest.approx([about_x, about_x, about_z], rel=1e-5)
    assert 1.9 < SPEC.mass_kg < 2.2


def test_hover_thrust_carries_the_weight(model):
    data = hovering(model)
    for _ in range(500):
        mujoco.mj_step(model, data)
    assert data.qpos[2] == pytest.approx(5.0, abs=1e-6)
    assert SPEC.flight.hover_thrust_n == pytest.approx(SPEC.mass_kg * GRAVITY)


def test_thrust_range_is_that_of_the_rotor_speeds_and_leaves_room_to_climb_and_tilt():
    thrust = SPEC.channels[0]
    assert thrust.low == pytest.approx(0.7694, rel=1e-3) and thrust.high == pytest.approx(34.194, rel=1e-4)
    assert thrust.high / SPEC.flight.hover_thrust_n == pytest.approx(1.69, abs=0.01)
    vertical_n = 0.8 * thrust.high * np.cos(SPEC.flight.max_tilt_rad)
    assert vertical_n >= SPEC.flight.hover_thrust_n - 1e-9


def test_channels_stay_inside_what_the_model_accepts(model):
    for channel in SPEC.channels:
        low, high = model.actuator(channel.name).ctrlrange
        assert low <= channel.low < channel.high <= high + 1e-9


@pytest.mark.parametrize(("axis", "step_rad_s"), [(0, 1.0), (1, 1.0), (2, 0.2)])
def test_body_rate_answers_like_a_critically_damped_loop_through_the_rotor_lag(model, axis, step_rad_s):
    """w(t) = w_cmd (1 - (1 + t/T) exp(-t/T)), at the step that training uses and at a fine one."""
    for timestep_s, tolerance in ((0.004, 0.03), (0.0005, 0.004)):
        model.opt.timestep = timestep_s
        data = hovering(model)
        data.ctrl[1 + axis] = step_rad_s
        for _ in range(int(0.3 / timestep_s)):
            mujoco.mj_step(model, data)
            expected = step_rad_s * (1 - (1 + data.time / PERIOD_S) * np.exp(-data.time / PERIOD_S))
            slack = (tolerance + timestep_s / PERIOD_S * 0.5) * step_rad_s
            assert data.qvel[3 + axis] == pytest.approx(expected, abs=slack)


def test_yaw_is_no_faster_than_the_reaction_torque_of_the_rotors(model):
    data = hovering(model)
    data.ctrl[3] = SPEC.channels[3].high
    while data.time < 0.25:
        mujoco.mj_step(model, data)
    fastest = 0.1115 / model.body("base").inertia[2] * data.time
    assert 0.7 * fastest < data.qvel[5] < fastest


def test_coarse_and_fine_steps_agree_on_a_hard_manoeuvre(model):
    ends = []
    for timestep_s in (0.004, 0.0005):
        model.opt.timestep = timestep_s
        data = hovering(model)
        data.ctrl[0] = SPEC.channels[0].high
        while data.time < 0.6 - 1e-9:
            data.ctrl[1] = SPEC.channels[1].high if data.time < 0.2 else SPEC.channels[1].low
            mujoco.mj_step(model, data)
        ends.append(np.concatenate([data.qpos, data.qvel]))
    assert np.all(np.isfinite(ends)) and np.abs(ends[0] - ends[1]).max() < 0.15


def test_thrust_follows_with_the_rotor_time_constant(model):
    model.opt.timestep = 0.0005
    data = hovering(model)
    data.ctrl[0] = SPEC.flight.hover_thrust_n + 2.0
    while data.time < SPEC.flight.rotor_time_constant_s:
        mujoco.mj_step(model, data)
    assert data.act[0] - SPEC.flight.hover_thrust_n == pytest.approx(2.0 * (1 - np.exp(-1)), rel=0.03)


def test_drag_slows_a_level_drift(model):
    """m dv/dt = -d v with d = 4 rotors * 769.6 rad/s * 8.06428e-5 N s^2/(m rad)."""
    data = hovering(model)
    data.qvel[0] = 5.0
    while data.time < 1.0:
        mujoco.mj_step(model, data)
    assert data.qvel[0] == pytest.approx(5.0 * np.exp(-4 * 769.564 * 8.06428e-5 / SPEC.mass_kg), rel=0.01)


def test_it_stands_on_its_skids_when_the_motors_are_off():
    from one_scene import build_scene

    scene = build_scene(SPEC, 1)
    data = mujoco.MjData(scene.model)
    data.qpos[2] = SPEC.home_height_m + 0.1
    for _ in range(500):
        mujoco.mj_step(scene.model, data)
    assert abs(data.qvel).max() < 0.01 and data.qpos[3] > 0.9999
    assert data.qpos[2] == pytest.approx(SPEC.home_height_m, abs=1e-3)


def test_no_part_leaves_its_radius(model):
    for index in range(model.ngeom):
        pos, size = model.geom_pos[index], model.geom_size[index]
        if model.geom_type[index] == mujoco.mjtGeom.mjGEOM_CYLINDER:
            reach = hypot(np.hypot(*pos[:2]) + size[0], abs(pos[2]) + size[1])
        else:
            corner = np.zeros(9)
            mujoco.mju_quat2Mat(corner, model.geom_quat[index])
            reach = np.linalg.norm(np.abs(pos) + np.abs(corner.reshape(3, 3)) @ size)
        assert reach <= SPEC.radius_m


def test_every_number_has_a_source():
    assert len(SPEC.sources) >= 10 and "x500" in robot_names()


def test_without_a_policy_it_stays_on_the_ground_with_idle_motors():
    shield = Shield(make_shield_params(SPEC), SPEC)
    on_skids = RobotState(
        *(np.zeros(0), np.zeros(0)),
        *(np.array([0.0, 0.0, SPEC.home_height_m]), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3), np.zeros(3)),
        np.zeros(()),
    )
    for cycle in range(10):
        command, report = shield.step(100.0 + 0.02 * cycle, Context(on_skids, NO_PEERS), None, 0.0)
    assert report.mode is Mode.OFF and command.target[0] == np.float32(SPEC.command_low[0])


def lowest_tilt_contacts(height_m: float) -> int:
    """In how many of 2,000 attitudes some part of it, legs and rotors too, meets ground `height_m` below it."""
    scene = mujoco.MjSpec.from_file(str(SPEC.mjcf))
    scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    for geom in scene.geoms:
        geom.contype = geom.conaffinity = 1
    model = scene.compile()
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    meets = 0
    for quat in rng.normal(size=(2000, 4)):
        data.qpos[:7] = 0.0, 0.0, height_m, *quat / np.linalg.norm(quat)
        mujoco.mj_fwdPosition(model, data)
        meets += data.ncon > 0
    return meets


def test_no_part_of_it_meets_the_ground_inside_its_fence():
    """At 30 degrees of tilt a leg touched the ground at 0.27 m, where the fence began at 0.1 m: it turned over."""
    least_m = make_shield_params(SPEC).geofence_low[2]
    assert least_m > SPEC.radius_m
    assert lowest_tilt_contacts(least_m) == 0 < lowest_tilt_contacts(0.9 * SPEC.radius_m)
