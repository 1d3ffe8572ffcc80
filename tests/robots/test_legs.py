"""Where a robot on legs is, from its joints, against MuJoCo's own velocities."""

import mujoco
import numpy as np

from hardware import load_robot
from hardware.legs import LegOdometry
from hardware.rotation import rotate, rotate_inverse
from hardware.types import RobotState

G1 = load_robot("g1")
FEET = ("left_foot", "right_foot")


def test_height_and_velocity_are_those_over_the_lower_sole_that_stands():
    model = mujoco.MjModel.from_xml_path(str(G1.mjcf))
    data, rng = mujoco.MjData(model), np.random.default_rng(3)
    legs, stood = LegOdometry(G1, FEET), set()
    ids = [model.joint(name).id for name in G1.joint_names]
    qpos, qvel = model.jnt_qposadr[ids], model.jnt_dofadr[ids]
    for _ in range(6):
        quat = np.array([1.0, *rng.uniform(-0.3, 0.3, 3)])
        data.qpos[:7] = 1.0, 2.0, 0.9, *(quat / np.linalg.norm(quat))
        data.qpos[qpos] = [joint.home + rng.uniform(-0.2, 0.2) for joint in G1.joints]
        data.qvel[:3], data.qvel[3:6], data.qvel[qvel] = 0.0, rng.uniform(-1, 1, 3), rng.uniform(-2, 2, len(qvel))
        mujoco.mj_forward(model, data)
        lower = min(FEET, key=lambda name: data.site(name).xpos[2])
        slips = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, data.site(lower).id, slips, 0)
        data.qvel[:3] = -slips[3:]  # so that this sole is at rest
        turn = data.qpos[3:7].astype(np.float32)
        state = RobotState(
            data.qpos[qpos].astype(np.float32), data.qvel[qvel].astype(np.float32), np.zeros(3), turn, np.zeros(3),
            data.qvel[3:6].astype(np.float32), np.float32(0.0),
        )  # fmt: skip
        before = legs.pos.copy()
        legs.update(state, 0.01)
        np.testing.assert_allclose(legs.lin_vel, rotate_inverse(turn, data.qvel[:3]), atol=0.01)
        np.testing.assert_allclose(legs.pos[2], 0.9 - data.site(lower).xpos[2], atol=1e-4)
        np.testing.assert_allclose(legs.pos[:2], (before + 0.01 * rotate(turn, legs.lin_vel))[:2], atol=1e-6)
        stood.add(lower)
    assert stood == set(FEET)
