"""An X500 and its shield near the ground."""

import mujoco
import numpy as np

from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield.types import NO_PEERS
from hardware import RobotState, load_robot

SPEC = load_robot("x500")


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
