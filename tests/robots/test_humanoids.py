"""The humanoids' specs against the models that MuJoCo compiles from their MJCF."""

from dataclasses import replace
from math import inf, nan

import mujoco
import numpy as np
import pytest

from hardware import load_robot, robot_names
from hardware.digest import digest_of
from hardware.spec import RobotSpec, TorqueSpeed

SPECS = [load_robot(name) for name in ("g1", "h1")]
humanoids = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)

# Links as in Unitree's URDF: mass in kg, height of the centre of mass in the link in m, inertia about y in kg m^2.
PUBLISHED = {
    "g1": {
        "pelvis": (3.814, -0.07603, 0.0093148),
        "left_knee_link": (1.932, -0.12074, 0.011277),
        "right_ankle_roll_link": (0.608, -0.016425, 0.0016161),
        "right_shoulder_yaw_link": (0.734, -0.072009, 0.0010618),
        "torso_link": (7.817, 0.18457, 0.10977),
    },
    "h1": {
        "left_hip_pitch_link": (4.953, -0.08267, 0.0953116),
        "right_knee_link": (2.824, -0.143702, 0.0245051),
        "left_ankle_link": (0.725, -0.041674, 0.0032961),
        "torso_link": (17.789, 0.20484, 0.40963),
    },
}


def on_floor(spec: RobotSpec) -> mujoco.MjModel:
    """The robot above a plane."""
    scene = mujoco.MjSpec.from_file(str(spec.mjcf))
    scene.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[10, 10, 0.1])
    return scene.compile()


def at_home(spec: RobotSpec, model: mujoco.MjModel) -> mujoco.MjData:
    """The robot in its home pose at its home height, its drives told to stay there."""
    data = mujoco.MjData(model)
    data.qpos[2] = spec.home_height_m
    data.qpos[7:] = data.ctrl[:] = spec.home
    mujoco.mj_forward(model, data)
    return data


def run(model: mujoco.MjModel, data: mujoco.MjData, seconds: float) -> None:
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)


def mirrored(spec: RobotSpec, joint_pos: np.ndarray) -> np.ndarray:
    """The pose seen in a mirror: sides swapped, rolls and yaws reversed (the torso joint of the H1 is a yaw)."""
    index = {joint.name: i for i, joint in enumerate(spec.joints)}
    swap = {"left": "right", "right": "left"}
    out = np.empty_like(joint_pos)
    for i, joint in enumerate(spec.joints):
        side, _, rest = joint.name.partition("_")
        sign = -1.0 if "roll" in joint.name or "yaw" in joint.name or joint.name == "torso_joint" else 1.0
        out[index[f"{swap[side]}_{rest}"] if side in swap else i] = sign * joint_pos[i]
    return out


@humanoids
def test_mass_is_the_sum_of_the_published_links(spec):
    model = on_floor(spec)
    assert mujoco.mj_getTotalmass(model) == pytest.approx(spec.mass_kg, abs=1e-3)
    for name, (mass_kg, centre_z_m, about_y) in PUBLISHED[spec.name].items():
        link = model.body(name)
        assert link.mass[0] == pytest.approx(mass_kg, abs=2e-3), name
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, link.iquat)
        tensor = axes.reshape(3, 3) @ np.diag(link.inertia) @ axes.reshape(3, 3).T
        assert link.ipos[2] == pytest.approx(centre_z_m, abs=1e-4), name
        assert tensor[1, 1] == pytest.approx(about_y, rel=2e-3), name


@humanoids
def test_joints_and_drives_are_those_of_the_spec_in_its_order(spec):
    model = on_floor(spec)
    assert len(spec.joints) == {"g1": 29, "h1": 19}[spec.name] == model.nu == model.njnt - 1
    assert spec.joint_of_channel == tuple(range(model.nu)) and spec.channel_names == spec.joint_names
    for i, (joint, channel) in enumerate(zip(spec.joints, spec.channels, strict=True)):
        assert model.joint(i + 1).name == model.actuator(i).name == joint.name
        assert model.actuator_trnid[i, 0] == i + 1
        assert model.jnt_range[i + 1] == pytest.approx([joint.low, joint.high], abs=1e-6)
        assert model.actuator_ctrlrange[i] == pytest.approx([channel.low, channel.high], abs=1e-6)
        assert model.actuator_forcerange[i] == pytest.approx([-joint.max_effort, joint.max_effort])
        assert model.actuator_gainprm[i, 0] == -model.actuator_biasprm[i, 1] == joint.stiffness > 0
        assert -model.actuator_biasprm[i, 2] == joint.damping > 0
        assert model.dof_armature[i + 6] == pytest.approx(joint.armature)
        assert model.dof_frictionloss[i + 6] == joint.friction
        assert model.dof_damping[i + 6] == pytest.approx(0.25 * joint.max_effort / joint.max_velocity, rel=6e-3)
        assert joint.low < joint.home < joint.high and joint.max_velocity > 0


def test_limits_are_the_published_ones_where_it_hurts_to_be_wrong():
    limits = {(s.name, j.name): (j.low, j.high, j.max_effort, j.max_velocity) for s in SPECS for j in s.joints}
    assert limits["g1", "left_knee_joint"] == (-0.087267, 2.8798, 139.0, 20.0)
    assert limits["g1", "right_hip_roll_joint"] == (-2.9671, 0.5236, 139.0, 20.0)
    assert limits["g1", "left_ankle_pitch_joint"] == (-0.87267, 0.5236, 35.0, 30.0)
    assert limits["g1", "right_wrist_yaw_joint"][2:] == (5.0, 22.0)
    assert limits["h1", "right_knee_joint"] == (-0.26, 2.05, 300.0, 14.0)
    assert limits["h1", "left_ankle_joint"] == (-0.87, 0.52, 40.0, 9.0)
    assert limits["h1", "right_shoulder_yaw_joint"] == (-4.45, 1.3, 18.0, 20.0)


def test_armature_follows_from_the_rotors_and_gears():
    """Two stages: J_rotor (N1 N2)^2 + J_1 N2^2 + J_2, with N = 1 + ring / sun where teeth are published."""
    armature = {joint.name: joint.armature for joint in SPECS[0].joints}
    arm = 0.139e-4 * (1 + 46 / 18) ** 2 * (1 + 56 / 16) ** 2 + 0.017e-4 * (1 + 56 / 16) ** 2 + 0.169e-4
    hip = 0.489e-4 * (4.5 * (1 + 48 / 22)) ** 2 + 0.098e-4 * (1 + 48 / 22) ** 2 + 0.533e-4
    knee = 0.489e-4 * (4.5 * 5) ** 2 + 0.109e-4 * 5**2 + 0.738e-4
    assert armature["left_elbow_joint"] == pytest.approx(arm, rel=1e-4)
    assert armature["left_hip_pitch_joint"] == pytest.approx(hip, rel=1e-4)
    assert armature["left_knee_joint"] == pytest.approx(knee, rel=1e-4)
    assert armature["left_ankle_roll_joint"] == pytest.approx(2 * arm, rel=1e-4)
    assert armature["left_wrist_yaw_joint"] == pytest.approx(0.068e-4 * 25**2, rel=1e-4)


@humanoids
def test_at_home_height_the_soles_touch_the_floor_and_no_part_another(spec):
    model = on_floor(spec)
    data = at_home(spec, model)
    data.qpos[2] -= 5e-4
    mujoco.mj_forward(model, data)
    pairs = {tuple(model.geom(g).name for g in contact.geom) for contact in data.contact[: data.ncon]}
    assert len(pairs) == 8 and all("floor" in pair for pair in pairs)
    assert all("heel" in "".join(pair) or "toe" in "".join(pair) for pair in pairs)
    assert np.abs(data.contact.dist + 5e-4).max() < 1e-3
    for foot in ("left_foot", "right_foot"):
        assert data.site(spec.frames[foot]).xpos[2] == pytest.approx(-5e-4, abs=1e-3)


@pytest.mark.parametrize("push_m_s", [0.0, 0.1, -0.1])
def test_holding_the_home_targets_an_h1_with_stiff_legs_stands(push_m_s):
    """Ten seconds, even after a nudge forwards or backwards, with soles that do not sink in: it is in balance at home.

    With its own drives, which are soft, it takes a policy.
    """
    spec = load_robot("h1")
    model = on_floor(spec)
    legs = [n for n in range(model.nu) if any(part in model.actuator(n).name for part in ("hip", "knee", "ankle"))]
    model.actuator_gainprm[legs, 0] = 600.0  # N m/rad
    model.actuator_biasprm[legs, 1:3] = -600.0, -12.0
    data = at_home(spec, model)
    data.qvel[0] = push_m_s
    run(model, data, 10.0)
    upright = 1 - 2 * (data.qpos[4] ** 2 + data.qpos[5] ** 2)
    assert data.qpos[2] > spec.home_height_m - 0.02 and upright > 0.98
    assert np.abs(data.qvel).max() < 0.1 and np.abs(data.qpos[:2]).max() < 0.2
    feet = {model.geom(max(contact.geom1, contact.geom2)).name.split("_")[0] for contact in data.contact[: data.ncon]}
    assert data.ncon >= 4 and feet == {"left", "right"} and data.contact.dist.min() > -2e-3
    assert np.abs(data.qpos[7:] - data.ctrl).max() < 0.1
    assert np.all(np.abs(data.actuator_force) < 0.8 * model.actuator_forcerange[:, 1])


@humanoids
@pytest.mark.parametrize("seed", range(5))
def test_thrashing_over_the_whole_range_stays_finite(spec, seed):
    """Targets drawn again every 20 ms from end stop to end stop: what a policy does at its very worst."""
    model = on_floor(spec)
    data = at_home(spec, model)
    rng = np.random.default_rng(seed)
    low, high = model.actuator_ctrlrange.T
    for _ in range(150):
        data.ctrl[:] = rng.uniform(low, high)
        run(model, data, 0.02)
        assert np.all(np.isfinite(data.qpos)) and np.abs(data.qvel).max() < 200
    assert sum(warning.number for warning in data.warning) == 0


@humanoids
@pytest.mark.parametrize("seed", range(5))
def test_random_targets_around_home_stay_within_the_joints_and_their_speeds(spec, seed):
    model = on_floor(spec)
    data = at_home(spec, model)
    rng = np.random.default_rng(seed)
    low, high = model.actuator_ctrlrange.T
    home = data.ctrl.copy()
    # as far as a policy usually reaches: a quarter of what saturates the drive
    reach = [0.25 * joint.max_effort / joint.stiffness for joint in spec.joints]
    for _ in range(150):
        data.ctrl[:] = np.clip(home + rng.normal(size=model.nu) * reach, low, high)
        run(model, data, 0.02)
        assert np.all(data.qpos[7:] > low - 0.05) and np.all(data.qpos[7:] < high + 0.05)
        # the floor may hit a falling robot's arm faster than its drive could turn it
        assert np.all(np.abs(data.qvel[6:]) < [1.25 * joint.max_velocity for joint in spec.joints])


@humanoids
def test_the_drives_follow_a_slow_target_in_the_air(spec):
    model = on_floor(spec)
    model.opt.gravity[:] = 0
    data = at_home(spec, model)
    data.qpos[2] += 2.0
    home = data.ctrl.copy()
    for _ in range(round(2.0 / model.opt.timestep)):
        data.ctrl[:] = home + 0.1 * np.sin(2 * np.pi * 0.5 * data.time)
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos[7:] - data.ctrl).max() < 0.05


@humanoids
def test_left_is_the_mirror_image_of_right(spec):
    model = on_floor(spec)
    data, image = mujoco.MjData(model), mujoco.MjData(model)
    rng = np.random.default_rng(0)
    low, high = model.jnt_range[1:].T
    assert mirrored(spec, np.array(spec.home)) == pytest.approx(spec.home)
    for _ in range(20):
        data.qpos[7:] = rng.uniform(low, high)
        image.qpos[7:] = mirrored(spec, data.qpos[7:])
        mujoco.mj_forward(model, data)
        mujoco.mj_forward(model, image)
        for part in ("foot", "hand"):
            there = data.site(spec.frames[f"left_{part}"]).xpos * [1, -1, 1]
            assert image.site(spec.frames[f"right_{part}"]).xpos == pytest.approx(there, abs=2e-4)
        for geom in range(model.ngeom):
            name = model.geom(geom).name
            if name.startswith("left_"):
                twin = image.geom("right_" + name[5:])
                # a sole's spheres are named by their side of the foot, and the mirror swaps those as well
                if name.endswith(("_left", "_right")) and ("heel" in name or "toe" in name):
                    other = "right" if name.endswith("_left") else "left"
                    twin = image.geom("right_" + name[5:].rsplit("_", 1)[0] + "_" + other)
                assert twin.xpos == pytest.approx(data.geom_xpos[geom] * [1, -1, 1], abs=2e-4), name
        assert image.subtree_com[0] == pytest.approx(data.subtree_com[0] * [1, -1, 1], abs=4e-3)


@humanoids
def test_a_drive_can_brake_as_hard_as_the_spec_says(spec):
    """Feet in the air, pelvis upright: torque left over from the weight, over the inertia of what the joint carries."""
    model = on_floor(spec)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    low, high = model.jnt_range[1:].T
    inertia = np.zeros((model.nv, model.nv))
    for _ in range(3000):
        ends = np.where(rng.uniform(size=model.nu) < 0.5, low, high)
        data.qpos[:7] = 0, 0, 5, 1, 0, 0, 0
        data.qpos[7:] = np.where(rng.uniform(size=model.nu) < 0.5, rng.uniform(low, high), ends)
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, inertia)
        torque = model.actuator_forcerange[:, 1] - np.abs(data.qfrc_bias[6:])
        brake = torque / np.diag(inertia)[6:]
        assert np.all(brake > [joint.max_acceleration for joint in spec.joints])


@humanoids
def test_no_part_leaves_its_radius(spec):
    """The straightened chain from the base to each shape, so that it holds in every pose."""
    model = on_floor(spec)
    for geom in range(model.ngeom):
        body = model.geom_bodyid[geom]
        size = model.geom_size[geom]
        reach = np.linalg.norm(model.geom_pos[geom]) + size[0]
        reach += size[1] if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0
        while body > 1:
            reach += np.linalg.norm(model.body_pos[body])
            body = model.body_parentid[body]
        assert model.geom(geom).name == "floor" or reach <= spec.radius_m


@humanoids
def test_it_is_a_humanoid_with_a_source_for_every_number(spec):
    assert (spec.kind, spec.fallback, spec.fixed_base, spec.base_body) == ("humanoid", "damp", False, "pelvis")
    assert set(spec.frames) >= {"left_foot", "right_foot", "left_hand", "right_hand"}
    assert len(spec.sources) >= 12 and spec.name in robot_names()


@humanoids
def test_a_motors_curve_fits_the_limits_of_its_joint(spec):
    """The URDF's greatest speed is one at which the motor gives a part of its torque; its effort is never less."""
    known = [joint for joint in spec.joints if joint.torque_speed]
    assert {"hip", "knee"} <= {part for joint in known for part in joint.name.split("_")}
    for joint in known:
        curve = joint.torque_speed
        assert curve.corner_speed < joint.max_velocity < curve.no_load_speed, joint.name
        assert 0.7 * joint.max_effort < curve.driving_effort < joint.max_effort, joint.name


@humanoids
def test_nodes_take_a_robot_whose_curves_are_not_stated_for_the_same_one(spec):
    bare = replace(spec, joints=tuple(replace(joint, torque_speed=None) for joint in spec.joints))
    assert digest_of(bare) == digest_of(spec)
    weaker = replace(spec, joints=tuple(replace(joint, max_effort=1.0) for joint in spec.joints))
    assert digest_of(weaker) != digest_of(spec)


@pytest.mark.parametrize(
    "numbers",
    [
        *((14.0, 14.0, 150.0, 182.8), (25.6, 14.0, 150.0, 182.8), (0.0, 25.6, 150.0, 182.8)),
        *((14.0, 25.6, 150.0, 102.8), (14.0, 25.6, 0.0, 182.8)),
        *((14.0, inf, 150.0, 182.8), (14.0, 25.6, 150.0, inf), (nan, 25.6, 150.0, 182.8), (14.0, 25.6, nan, 182.8)),
    ],
)
def test_a_curve_that_no_motor_has_is_refused(numbers):
    with pytest.raises(ValueError, match=r"^torque-speed curve \(.*the third no more than the fourth$"):
        TorqueSpeed(*numbers)
