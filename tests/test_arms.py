"""The arms' specs against the models that MuJoCo compiles, and against the vendors' Denavit-Hartenberg tables."""

from itertools import product

import mujoco
import numpy as np
import pytest

from hardware import load_robot
from hardware.spec import RobotSpec

ARMS = [load_robot(name) for name in ("panda", "ur5e")]
PANDA, UR5E = ARMS
CONTROL_S = 0.02
arms = pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)

# a (m), d (m), alpha (rad) of each row. Franka: modified convention, a and alpha before the joint; UR: standard.
PANDA_DH = [
    (0, 0.333, 0),
    (0, 0, -np.pi / 2),
    (0, 0.316, np.pi / 2),
    (0.0825, 0, np.pi / 2),
    (-0.0825, 0.384, -np.pi / 2),
    (0, 0, np.pi / 2),
    (0.088, 0, np.pi / 2),
]
UR5E_DH = [
    (0, 0.1625, np.pi / 2),
    (-0.425, 0, 0),
    (-0.3922, 0, 0),
    (0, 0.1333, np.pi / 2),
    (0, 0.0997, -np.pi / 2),
    (0, 0.0996, 0),
]


def load(arm: RobotSpec) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(arm.mjcf))


def at(arm: RobotSpec, model: mujoco.MjModel, joint_pos) -> mujoco.MjData:
    """At rest in `joint_pos`, and told to stay there; the mirrored finger as the equality wants it."""
    data = mujoco.MjData(model)
    for joint, value in zip(arm.joints, joint_pos, strict=True):
        data.joint(joint.name).qpos = value
        data.actuator(joint.name).ctrl = value
    if arm is PANDA:
        data.joint("finger_mirror").qpos = joint_pos[-1]
    mujoco.mj_forward(model, data)
    return data


def at_home(arm: RobotSpec, model: mujoco.MjModel) -> mujoco.MjData:
    return at(arm, model, [joint.home for joint in arm.joints])


def run(model: mujoco.MjModel, data: mujoco.MjData, seconds: float) -> None:
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)


def joint_pos(arm: RobotSpec, data: mujoco.MjData) -> np.ndarray:
    return np.array([data.joint(joint.name).qpos[0] for joint in arm.joints])


def screw(axis: str, angle: float, shift: float) -> np.ndarray:
    """Rotate about and move along `axis` x or z: 4 x 4."""
    c, s = np.cos(angle), np.sin(angle)
    if axis == "x":
        return np.array([[1, 0, 0, shift], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1.0]])
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, shift], [0, 0, 0, 1.0]])


def tool_from_table(arm: RobotSpec, q) -> np.ndarray:
    """Pose of the tool (4 x 4) in the base from the published table alone."""
    if arm is PANDA:
        pose = np.eye(4)
        for (a, d, alpha), theta in zip(PANDA_DH, q[:7], strict=True):
            pose = pose @ screw("x", alpha, a) @ screw("z", theta, d)
        return pose @ screw("z", -np.pi / 4, 0.107 + 0.1034)
    pose = screw("z", np.pi, 0.0)  # UR writes the table in a frame that looks backwards
    for (a, d, alpha), theta in zip(UR5E_DH, q, strict=True):
        pose = pose @ screw("z", theta, d) @ screw("x", alpha, a)
    return pose


def random_poses(arm: RobotSpec, number: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform([j.low for j in arm.joints], [j.high for j in arm.joints], (number, len(arm.joints)))


@arms
def test_the_tool_is_where_the_published_table_puts_it(arm):
    model = load(arm)
    for q in [[j.home for j in arm.joints], *random_poses(arm, 20)]:
        tool, expected = at(arm, model, q).site(arm.frames["tool"]), tool_from_table(arm, q)
        assert tool.xpos == pytest.approx(expected[:3, 3], abs=1e-6)
        assert tool.xmat.reshape(3, 3) == pytest.approx(expected[:3, :3], abs=1e-6)


def test_both_arms_look_down_at_home():
    """By hand. Panda: upper arm 45 degrees backwards, forearm level; UR5e: upper arm upright, forearm level."""
    half = np.sqrt(0.5)
    panda, ur5e = (at_home(arm, load(arm)).site("tool") for arm in ARMS)
    reach, height = 0.384 + 0.088 - (0.316 - 0.0825) * half, 0.333 + (0.316 + 0.0825) * half + 0.0825 - 0.107 - 0.1034
    assert panda.xpos == pytest.approx([reach, 0, height], abs=1e-6)
    assert ur5e.xpos == pytest.approx([0.3922 + 0.0997, 0.1333, 0.1625 + 0.425 - 0.0996], abs=1e-6)
    for tool in (panda, ur5e):
        assert tool.xmat.reshape(3, 3)[:, 2] == pytest.approx([0, 0, -1], abs=1e-6)


@arms
def test_the_spec_says_what_the_model_does(arm):
    model = load(arm)
    assert model.body(arm.base_body).parentid == 0 and model.body(arm.base_body).dofnum == 0 and arm.fixed_base
    assert model.body(arm.base_body).pos == pytest.approx([0, 0, 0])
    assert mujoco.mj_getTotalmass(model) == pytest.approx(arm.mass_kg, abs=1e-6)
    for joint, channel in zip(arm.joints, arm.channels, strict=True):
        in_model, servo = model.joint(joint.name), model.actuator(channel.name)
        dof = in_model.dofadr[0]
        assert servo.trnid[0] == in_model.id
        assert in_model.range == pytest.approx([joint.low, joint.high])
        assert (channel.low, channel.high) == (joint.low, joint.high)
        assert servo.ctrlrange == pytest.approx([joint.low, joint.high])
        assert servo.forcerange == pytest.approx([-joint.max_effort, joint.max_effort])
        assert servo.gainprm[0] == -servo.biasprm[1] == joint.stiffness and -servo.biasprm[2] == joint.damping
        assert model.dof_armature[dof] == pytest.approx(joint.armature)
        assert model.dof_frictionloss[dof] == pytest.approx(joint.friction)
        assert joint.low <= joint.home <= joint.high
    assert len(arm.sources) >= 12


def test_masses_and_limits_are_the_published_ones():
    panda, ur5e = load(PANDA), load(UR5E)
    masses = [0.629769, 4.970684, 0.646926, 3.228604, 3.587895, 1.225946, 1.666555, 0.735522]
    assert [panda.body(f"link{i}").mass[0] for i in range(8)] == pytest.approx(masses)
    assert sorted(panda.body("link3").inertia) == pytest.approx(
        np.linalg.eigvalsh(
            [[0.037242, -0.004761, -0.011396], [-0.004761, 0.036155, -0.012805], [-0.011396, -0.012805, 0.010830]]
        )
    )
    links = ("shoulder", "upper_arm", "forearm", "wrist_1", "wrist_2", "wrist_3")
    assert [ur5e.body(name).mass[0] for name in links] == pytest.approx([3.761, 8.058, 2.846, 1.37, 1.3, 0.365])
    assert max(ur5e.body("upper_arm").inertia) == pytest.approx(0.33388, rel=1e-3)
    assert [j.max_effort for j in PANDA.joints[:7]] == [87] * 4 + [12] * 3
    assert [j.max_effort for j in UR5E.joints] == [150] * 3 + [28] * 3


def test_the_centres_of_mass_of_the_ur5e_are_the_published_ones():
    """UR gives them in the frame at the far end of the link: walk the table and compare in the world."""
    published = [(0, -0.02561, 0.00193), (0.2125, 0, 0.11336), (0.15, 0, 0.0265), (0, -0.0018, 0.01634)]
    published += [(0, 0.0018, 0.01634), (0, 0, -0.001159)]
    model = load(UR5E)
    for q in random_poses(UR5E, 5):
        data, pose = at(UR5E, model, q), screw("z", np.pi, 0.0)
        bodies = ("shoulder", "upper_arm", "forearm", "wrist_1", "wrist_2", "wrist_3")
        for (a, d, alpha), theta, com, body in zip(UR5E_DH, q, published, bodies, strict=True):
            pose = pose @ screw("z", theta, d) @ screw("x", alpha, a)
            assert data.body(body).xipos == pytest.approx((pose @ [*com, 1])[:3], abs=1e-5)


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
def test_neighbouring_links_never_touch(arm):
    model = load(arm)
    hand_side = {"flange", "hand", "finger", "finger_mirror"}
    order = [model.body(i).name for i in range(1, model.nbody) if model.body(i).name not in hand_side]
    for q in random_poses(arm, 400):
        data = at(arm, model, q)
        for contact in data.contact[: data.ncon]:
            one, two = (model.body(model.geom_bodyid[g]).name for g in contact.geom)
            assert not (one in order and two in order and abs(order.index(one) - order.index(two)) == 1)
            assert {one, two} not in ({"link7", "hand"}, {"hand", "finger"}, {"finger", "finger_mirror"})


@arms
def test_no_part_leaves_its_radius(arm):
    model = load(arm)
    corners = np.array(list(product((-1, 1), repeat=3)))
    for q in random_poses(arm, 300):
        data = at(arm, model, q)
        local = model.geom_aabb[:, None, :3] + corners * model.geom_aabb[:, None, 3:]
        world = np.einsum("gij,gcj->gci", data.geom_xmat.reshape(-1, 3, 3), local) + data.geom_xpos[:, None]
        assert np.linalg.norm(world, axis=-1).max() < arm.radius_m


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
def test_max_acceleration_is_what_the_torque_brakes_in_any_pose(arm):
    """One joint at a time: inertia times deceleration, and gravity on top, within the joint's limit."""
    model = load(arm)
    for q in random_poses(arm, 500):
        data = at(arm, model, q)
        inertia = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, inertia)
        for joint in arm.joints:
            dof = model.joint(joint.name).dofadr[0]
            load_nm = abs(data.qfrc_gravcomp[dof])
            assert inertia[dof, dof] * joint.max_acceleration + load_nm <= joint.max_effort


def braking_torque(arm: RobotSpec, model: mujoco.MjModel, q: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Torque (J,) that stops all joints at once from full speed: inertia, Coriolis forces and gravity."""
    data = at(arm, model, q)
    for joint, sign in zip(arm.joints, direction, strict=True):
        data.joint(joint.name).qvel = sign * joint.max_velocity
        data.joint(joint.name).qacc = -sign * joint.max_acceleration
    torque = np.zeros(model.nv)
    mujoco.mj_fwdVelocity(model, data)
    mujoco.mj_rne(model, data, 1, torque)
    dofs = [model.joint(joint.name).dofadr[0] for joint in arm.joints]
    armature = model.dof_armature[dofs] * [joint.max_acceleration for joint in arm.joints]
    return torque[dofs] - direction * armature


def test_the_ur5e_brakes_all_joints_at_once_from_full_speed_in_any_pose():
    model, rng, limit = load(UR5E), np.random.default_rng(1), [joint.max_effort for joint in UR5E.joints]
    for q in random_poses(UR5E, 300):
        direction = rng.choice([-1.0, 1.0], len(q))
        assert (-direction * braking_torque(UR5E, model, q, direction) <= limit).all()


@arms
def test_gravity_counts_against_the_torque_limit(arm):
    """Stretched out, an arm that may use less than its own weight in its shoulder sinks, as the real one would."""
    model = load(arm)
    stretched = [0, np.pi / 2, 0, -0.1, 0, np.pi / 2, 0, 0.04] if arm is PANDA else [0.0] * 6
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
    mass_kg, flange = (3.0, "hand") if arm is PANDA else (5.0, "wrist_3")
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
    from sim.scene import build_scene

    scene = build_scene(PANDA, 2)
    data = mujoco.MjData(scene.model)
    data.qpos[scene.group.joint_qpos] = data.ctrl[scene.group.ctrl_index] = [joint.home for joint in PANDA.joints]
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
