"""The Crazyflie's spec against the model that MuJoCo compiles from its MJCF."""

import mujoco
import numpy as np
import pytest

from hardware import load_robot, robot_names
from hardware.spec import GRAVITY

SPEC = load_robot("crazyflie")


@pytest.fixture
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(SPEC.mjcf))


def hovering(model: mujoco.MjModel, height_m: float = 1.0) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos[2] = height_m
    data.act[0] = data.ctrl[0] = SPEC.flight.hover_thrust_n
    return data


def test_mass_and_inertia_are_the_published_ones(model):
    assert mujoco.mj_getTotalmass(model) == pytest.approx(SPEC.mass_kg)
    assert model.body("base").inertia == pytest.approx([25e-6, 28e-6, 49e-6])


def test_hover_thrust_carries_the_weight(model):
    data = hovering(model)
    for _ in range(500):
        mujoco.mj_step(model, data)
    assert data.qpos[2] == pytest.approx(1.0, abs=1e-6)
    assert SPEC.flight.hover_thrust_n == pytest.approx(SPEC.mass_kg * GRAVITY)


def test_channels_stay_inside_what_the_model_accepts(model):
    for channel in SPEC.channels:
        low, high = model.actuator(channel.name).ctrlrange
        assert low <= channel.low < channel.high == high


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_body_rate_answers_like_a_critically_damped_loop_through_the_rotor_lag(model, axis):
    """w(t) = w_cmd (1 - (1 + t/T) exp(-t/T)), at the step that training uses and at a fine one."""
    for timestep_s, tolerance in ((0.004, 0.03), (0.0005, 0.004)):
        model.opt.timestep = timestep_s
        data = hovering(model)
        data.ctrl[1 + axis] = 1.0
        period = SPEC.flight.rate_time_constant_s
        for _ in range(int(0.2 / timestep_s)):
            mujoco.mj_step(model, data)
            expected = 1 - (1 + data.time / period) * np.exp(-data.time / period)
            assert data.qvel[3 + axis] == pytest.approx(expected, abs=tolerance + timestep_s / period * 0.5)


def test_thrust_follows_with_the_rotor_time_constant(model):
    model.opt.timestep = 0.0005
    data = hovering(model)
    data.ctrl[0] = SPEC.flight.hover_thrust_n + 0.1
    while data.time < SPEC.flight.rotor_time_constant_s:
        mujoco.mj_step(model, data)
    assert data.act[0] - SPEC.flight.hover_thrust_n == pytest.approx(0.1 * (1 - np.exp(-1)), rel=0.03)


def test_drag_slows_a_level_drift(model):
    """m dv/dt = -d v with the identified d = 0.0215 N s/m."""
    data = hovering(model, height_m=5.0)
    data.qvel[0] = 2.0
    while data.time < 1.0:
        mujoco.mj_step(model, data)
    assert data.qvel[0] == pytest.approx(2.0 * np.exp(-0.02149163 / SPEC.mass_kg), rel=0.01)


def test_it_rests_on_the_floor_when_the_motors_are_off():
    from one_scene import build_scene

    scene = build_scene(SPEC, 1)
    data = mujoco.MjData(scene.model)
    data.qpos[2:4] = 0.3, 1.0
    for _ in range(500):
        mujoco.mj_step(scene.model, data)
    assert abs(data.qvel).max() < 0.01 and 0.01 < data.qpos[2] < 0.02


def test_no_part_leaves_its_radius(model):
    for index in range(model.ngeom):
        pos, size = model.geom_pos[index], model.geom_size[index]
        corner = np.abs(pos[:2]) + size[:1] if model.geom_type[index] == mujoco.mjtGeom.mjGEOM_CYLINDER else None
        reach = np.hypot(*pos[:2]) + size[0] if corner is not None else np.linalg.norm(size)
        assert reach <= SPEC.radius_m + 1e-9


def test_every_number_has_a_source_and_unknown_robots_a_hint():
    assert len(SPEC.sources) >= 8 and "crazyflie" in robot_names()
    with pytest.raises(ValueError, match=r"unknown robot 'crazyfly'.*did you mean 'crazyflie'"):
        load_robot("crazyfly")
