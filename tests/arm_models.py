"""The arms and the models that MuJoCo compiles of them, in a given position."""

import mujoco
import numpy as np
import pytest

from hardware import load_robot
from hardware.spec import RobotSpec

ARMS = [load_robot(name) for name in ("panda", "ur5e", "fr3")]
PANDA, UR5E, FR3 = ARMS
FRANKA = (PANDA, FR3)
CONTROL_S = 0.02
arms = pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)


def load(arm: RobotSpec) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(arm.mjcf))


def at(arm: RobotSpec, model: mujoco.MjModel, joint_pos) -> mujoco.MjData:
    """At rest in `joint_pos`, and told to stay there; the mirrored finger as the equality wants it."""
    data = mujoco.MjData(model)
    for joint, value in zip(arm.joints, joint_pos, strict=True):
        data.joint(joint.name).qpos = value
        data.actuator(joint.name).ctrl = value
    if arm in FRANKA:
        data.joint("finger_mirror").qpos = joint_pos[-1]
    mujoco.mj_forward(model, data)
    return data


def at_home(arm: RobotSpec, model: mujoco.MjModel) -> mujoco.MjData:
    return at(arm, model, arm.home)


def run(model: mujoco.MjModel, data: mujoco.MjData, seconds: float) -> None:
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)


def joint_pos(arm: RobotSpec, data: mujoco.MjData) -> np.ndarray:
    return np.array([data.joint(joint.name).qpos[0] for joint in arm.joints])


def random_poses(arm: RobotSpec, number: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform([j.low for j in arm.joints], [j.high for j in arm.joints], (number, len(arm.joints)))
