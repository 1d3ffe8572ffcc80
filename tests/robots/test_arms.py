"""The arms' specs against the models that MuJoCo compiles, and against the vendors' Denavit-Hartenberg tables."""

from itertools import product

import mujoco
import numpy as np
import pytest
from arm_models import ARMS, FR3, FRANKA, PANDA, UR5E, arms, at, at_home, load, random_poses

from deploy.shield.joints.params import make_joint_params
from hardware.spec import RobotSpec

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


def screw(axis: str, angle: float, shift: float) -> np.ndarray:
    """Rotate about and move along `axis` x or z: 4 x 4."""
    c, s = np.cos(angle), np.sin(angle)
    if axis == "x":
        return np.array([[1, 0, 0, shift], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1.0]])
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, shift], [0, 0, 0, 1.0]])


def tool_from_table(arm: RobotSpec, q) -> np.ndarray:
    """Pose of the tool (4 x 4) in the base from the published table alone."""
    if arm in FRANKA:
        pose = np.eye(4)
        for (a, d, alpha), theta in zip(PANDA_DH, q[:7], strict=True):
            pose = pose @ screw("x", alpha, a) @ screw("z", theta, d)
        return pose @ screw("z", -np.pi / 4, 0.107 + 0.1034)
    pose = screw("z", np.pi, 0.0)  # UR writes the table in a frame that looks backwards
    for (a, d, alpha), theta in zip(UR5E_DH, q, strict=True):
        pose = pose @ screw("z", theta, d) @ screw("x", alpha, a)
    return pose


@arms
def test_the_tool_is_where_the_published_table_puts_it(arm):
    model = load(arm)
    for q in [arm.home, *random_poses(arm, 20)]:
        tool, expected = at(arm, model, q).site(arm.frames["tool"]), tool_from_table(arm, q)
        assert tool.xpos == pytest.approx(expected[:3, 3], abs=1e-6)
        assert tool.xmat.reshape(3, 3) == pytest.approx(expected[:3, :3], abs=1e-6)


def test_the_arms_look_down_at_home():
    """By hand. Panda and FR3: upper arm 45 degrees backwards, forearm level; UR5e: upper arm upright, forearm level."""
    half = np.sqrt(0.5)
    panda, ur5e, fr3 = (at_home(arm, load(arm)).site("tool") for arm in ARMS)
    reach, height = 0.384 + 0.088 - (0.316 - 0.0825) * half, 0.333 + (0.316 + 0.0825) * half + 0.0825 - 0.107 - 0.1034
    assert panda.xpos == pytest.approx([reach, 0, height], abs=1e-6)
    assert fr3.xpos == pytest.approx(panda.xpos)
    assert ur5e.xpos == pytest.approx([0.3922 + 0.0997, 0.1333, 0.1625 + 0.425 - 0.0996], abs=1e-6)
    for tool in (panda, ur5e, fr3):
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
    masses = [2.3966, 2.927465, 2.935537, 2.244901, 2.615596, 2.327121, 1.817038, 0.627143]
    assert [load(FR3).body(f"link{i}").mass[0] for i in range(8)] == pytest.approx(masses, rel=1e-6)
    links = ("shoulder", "upper_arm", "forearm", "wrist_1", "wrist_2", "wrist_3")
    assert [ur5e.body(name).mass[0] for name in links] == pytest.approx([3.761, 8.058, 2.846, 1.37, 1.3, 0.365])
    assert max(ur5e.body("upper_arm").inertia) == pytest.approx(0.33388, rel=1e-3)
    assert [j.max_effort for j in PANDA.joints[:7]] == [87] * 4 + [12] * 3
    assert [j.max_effort for j in FR3.joints[:7]] == [87] * 4 + [12] * 3
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


def test_the_fr3_is_the_panda_but_for_inertias_and_limits():
    """Its model repeats the other's lengths, shapes, drives and contacts."""
    one, two = load(PANDA), load(FR3)
    same = """
        body_pos body_quat body_gravcomp geom_type geom_size geom_pos geom_quat geom_friction geom_priority geom_solimp
        dof_armature dof_frictionloss jnt_actfrcrange jnt_actgravcomp actuator_gainprm actuator_biasprm
        actuator_forcerange site_pos eq_data eq_solref eq_solimp exclude_signature
    """
    for name in same.split():
        np.testing.assert_array_equal(getattr(two, name), getattr(one, name), name)
    assert (two.opt.timestep, two.opt.integrator) == (one.opt.timestep, one.opt.integrator)


def test_a_shield_brakes_an_fr3_within_the_speed_that_it_allows_near_the_end_of_its_range():
    """Franka's limit (rate_limiting.h of libfranka, computeUpperLimitsJointVelocity): sqrt(b (end - q)) - a rad/s."""
    a, b, end = np.array(
        [
            (0.30, 12.0, 2.7501),
            (0.20, 5.17, 1.7918),
            (0.20, 7.0, 2.9065),
            (0.30, 8.0, -0.1458),
            (0.35, 34.0, 2.8101),
            (0.35, 11.0, 4.5205),
            (0.35, 34.0, 3.0196),
        ]
    ).T
    params = make_joint_params(FR3)
    low, high, speed, acceleration = np.array(
        [(j.low, j.high, j.max_velocity, j.max_acceleration) for j in FR3.joints[:7]]
    ).T
    stop = high - params.range_margin * (high - low)
    for short in np.linspace(0.0, 1.0, 500):  # rad, of where the shield's braking ends
        braking = np.minimum(params.speed_share * speed, np.sqrt(2 * params.brake_share * acceleration * short))
        assert (braking <= np.sqrt(b * (end - stop + short)) - a).all()
