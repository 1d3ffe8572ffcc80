"""The arms in motion: they hold, stop, carry and grip as the real ones do."""

import mujoco
import numpy as np
import pytest
from arm_models import CONTROL_S, FRANKA, PANDA, arms, at, at_home, joint_pos, load, run


@arms
def test_home_is_held_against_gravity_and_free_of_contact(arm):
    model = load(arm)
    data = at_home(arm, model)
    assert data.ncon == 0
    start, tool = joint_pos(arm, data), data.site("tool").xpos.copy()
    run(model, data, 2.0)
    assert abs(joint_pos(arm, data) - start).max() < 1e-3
    assert np.linalg.norm(data.site("tool").xpos - tool) < 1e-3


@arms
@pytest.mark.parametrize("seed", range(3))
def test_random_targets_at_full_speed_stay_in_range(arm, seed):
    """As a shield passes them on: new goals all over the range, approached no faster than the joints may move."""
    model, rng = load(arm), np.random.default_rng(seed)
    data = at_home(arm, model)
    low, high, speed = np.array([(j.low, j.high, j.max_velocity) for j in arm.joints]).T
    for step in range(250):
        if step % 50 == 0:
            goal = rng.uniform(low, high)
        data.ctrl[:] += np.clip(goal - data.ctrl, -speed * CONTROL_S, speed * CONTROL_S)
        run(model, data, CONTROL_S)
        q = joint_pos(arm, data)
        assert np.isfinite(data.qpos).all() and (q > low - 0.01).all() and (q < high + 0.01).all()
    assert data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number == 0


@arms
def test_the_stops_hold_what_the_drives_can_push(arm):
    """Every joint pressed with its full torque against each of its ends, where the real one meets a mechanical stop."""
    model = load(arm)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for end, sign in (("low", -1), ("high", 1)):
        stops = [getattr(joint, end) for joint in arm.joints]
        data = at(arm, model, stops)
        for joint in arm.joints:
            data.joint(joint.name).qfrc_applied = sign * joint.max_effort
        run(model, data, 1.0)
        assert sign * (joint_pos(arm, data) - stops) == pytest.approx(0, abs=0.01)


@arms
def test_targets_that_jump_across_the_range_do_not_blow_up(arm):
    model, rng = load(arm), np.random.default_rng(0)
    data = at_home(arm, model)
    for _ in range(250):
        data.ctrl[:] = rng.uniform(*model.actuator_ctrlrange.T)
        run(model, data, CONTROL_S)
        assert abs(data.qvel).max() < 100
    assert sum(warning.number for warning in data.warning) == 0


@arms
def test_gravity_counts_against_the_torque_limit(arm):
    """Stretched out, an arm that may use less than its own weight in its shoulder sinks, as the real one would."""
    model = load(arm)
    stretched = [0, np.pi / 2, 0, -0.1, 0, np.pi / 2, 0, 0.04] if arm in FRANKA else [0.0] * 6
    shoulder = arm.joints[1].name
    data = at(arm, model, stretched)
    weight = abs(data.qfrc_gravcomp[model.joint(shoulder).dofadr[0]])
    assert 30 < weight < arm.joints[1].max_effort
    model.jnt_actfrcrange[model.joint(shoulder).id] = [-0.5 * weight, 0.5 * weight]
    run(model, data, 0.5)
    assert data.site("tool").xpos[2] < at(arm, model, stretched).site("tool").xpos[2] - 0.05


@arms
def test_the_largest_payload_is_held(arm):
    """Data sheets: 3 kg and 5 kg at the flange. The servo gives way by its stiffness, and no torque is at its limit."""
    mass_kg, flange = (3.0, "hand") if arm in FRANKA else (5.0, "wrist_3")
    spec = mujoco.MjSpec.from_file(str(arm.mjcf))
    load_body = spec.body(flange).add_body(name="payload", pos=[0, 0, 0.05])
    load_body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.01], mass=mass_kg, contype=0, conaffinity=0)
    model = spec.compile()
    data = at_home(arm, model)
    before = data.site("tool").xpos.copy()
    run(model, data, 3.0)
    assert np.linalg.norm(data.site("tool").xpos - before) < 0.02 and abs(data.qvel).max() < 1e-3
    for joint in arm.joints:
        assert abs(data.joint(joint.name).qfrc_actuator[0]) < 0.7 * joint.max_effort


def grasp(width_m: float, mass_kg: float) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The Panda after closing on a cube that stands on a table, and taking the table away."""
    spec = mujoco.MjSpec.from_file(str(PANDA.mjcf))
    tool, half = at_home(PANDA, load(PANDA)).site("tool").xpos, width_m / 2
    cube = spec.worldbody.add_body(name="cube", pos=tool)
    cube.add_freejoint()
    cube.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[half] * 3, mass=mass_kg)
    spec.worldbody.add_geom(
        name="table", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.1, 0.1, 0.01], pos=tool - [0, 0, half + 0.01]
    )
    model = spec.compile()
    data = at_home(PANDA, model)
    finger = PANDA.joints[-1]
    while data.actuator("finger").ctrl[0] > 0:
        data.actuator("finger").ctrl[0] -= finger.max_velocity * CONTROL_S
        run(model, data, CONTROL_S)
    run(model, data, 0.3)
    table = model.geom("table")
    table.contype, table.conaffinity = 0, 0
    return model, data


@pytest.mark.parametrize(("width_m", "mass_kg"), [(0.04, 0.1), (0.02, 0.05), (0.06, 3.0)])
def test_the_gripper_lifts_a_cube_and_keeps_it(width_m, mass_kg):
    model, data = grasp(width_m, mass_kg)
    fingers = [data.joint(name).qpos[0] for name in ("finger", "finger_mirror")]
    assert fingers == pytest.approx([width_m / 2] * 2, abs=4e-4) and fingers[0] == pytest.approx(fingers[1], abs=3e-4)
    start = data.body("cube").xpos[2]
    for step in range(50):
        data.actuator("joint2").ctrl[0] = PANDA.joints[1].home - 0.3 * min(1.0, step / 40)
        run(model, data, CONTROL_S)
    in_hand = data.body("cube").xpos - data.site("tool").xpos
    run(model, data, 3.0)
    assert data.body("cube").xpos[2] > start + 0.06
    assert np.linalg.norm(data.body("cube").xpos - data.site("tool").xpos - in_hand) < 2e-3


def test_a_scene_that_sets_only_the_joints_of_the_spec_starts_with_the_gripper_open():
    from one_scene import build_scene

    scene = build_scene(PANDA, 2)
    data = mujoco.MjData(scene.model)
    data.qpos[scene.group.joint_qpos] = data.ctrl[scene.group.ctrl_index] = PANDA.home
    start = data.qpos.copy()
    mujoco.mj_forward(scene.model, data)
    assert data.ncon == 0
    run(scene.model, data, 1.0)
    assert abs(data.qpos - start).max() < 1e-3


def test_an_open_gripper_lifts_nothing():
    model, data = grasp(0.04, 0.1)
    data.actuator("finger").ctrl[0] = 0.04
    run(model, data, 0.5)
    assert data.body("cube").xpos[2] < data.site("tool").xpos[2] - 0.3


def test_the_grasping_force_is_half_of_the_actuated_fingers():
    model, data = grasp(0.05, 0.1)
    pad, force, total = model.geom("finger_pad").id, np.zeros(6), 0.0
    for index in range(data.ncon):
        if pad in data.contact[index].geom:
            mujoco.mj_contactForce(model, data, index, force)
            total += force[0]
    assert total == pytest.approx(70, rel=0.05)
