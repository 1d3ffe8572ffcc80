"""How hard a humanoid hits the ground that its shield damps: `python -m benchmarks.humanoid_impacts [--falls 72]`.

A robot stands by its fallback policy, and is pushed over from every side at 1.6 to 2.4 m/s. As the shield does it, what
the drives pulled with ends as damping begins ("damped"). Beside that it fades within a second ("fading"), the drives
are switched off ("limp"), or their last targets stay ("stiff"). Printed as JSON: the greatest force of the ground on
pelvis and torso in a physics step, and the fastest joint, each the mean over falls, with the force's standard error.
"""

import argparse
import json
from math import sqrt

import mujoco
import numpy as np

from deploy.shield import Context, JointShieldParams, Mode, Shield, make_shield_params
from deploy.shield.joints.fall import Fall
from deploy.shield.joints.humanoid import HumanoidFallback
from deploy.shield.joints.limits import joint_limits
from deploy.shield.types import NO_PEERS
from hardware import RobotSpec, RobotState, load_robot
from hardware.rotation import rotate_inverse
from policies.threads import single_threaded_torch

TRUNK = "pelvis", "torso_link"
HOWS = "damped", "fading", "limp", "stiff"
STANDS_S, FALLS_S = 1.0, 2.0
GOLDEN_RAD = np.pi * (3.0 - np.sqrt(5.0))  # turned by as much again and again, no two directions are near


class FadingFall(Fall):
    """What its drives pulled with fades within `damp_s`, as of one that is upright."""

    def targets(self, measured: np.ndarray, elapsed_s: float, is_upright: bool) -> tuple[np.ndarray, JointShieldParams]:
        return super().targets(measured, elapsed_s, is_upright=True)


def measure(model: mujoco.MjModel, data: mujoco.MjData, spec: RobotSpec) -> RobotState:
    """What the robot measures, without noise and at once."""
    joints = [model.joint(name) for name in spec.joint_names]
    quat, vel = data.qpos[3:7].copy(), data.qvel[:6].copy()
    return RobotState(
        np.array([data.qpos[joint.qposadr[0]] for joint in joints], np.float32),
        np.array([data.qvel[joint.dofadr[0]] for joint in joints], np.float32),
        data.qpos[:3].copy(),
        quat,
        rotate_inverse(quat, vel[:3]),
        vel[3:],
        np.zeros(()),
    )


def trunk_force_n(model: mujoco.MjModel, data: mujoco.MjData, trunk: set[int]) -> float:
    """The greatest of the contacts of bodies `trunk` now."""
    force, greatest = np.zeros(6), 0.0
    for index, contact in enumerate(data.contact):
        if trunk & set(model.geom_bodyid[contact.geom].tolist()):
            mujoco.mj_contactForce(model, data, index, force)
            greatest = max(greatest, float(np.linalg.norm(force[:3])))
    return greatest


def fall(name: str, how: str, number: int) -> tuple[float, float]:
    """Of fall `number` of a robot the greatest force, N, on its trunk, and its fastest joint, rad/s."""
    spec = load_robot(name)
    scene = mujoco.MjSpec.from_file(str(spec.mjcf))
    scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[10, 10, 0.1], pos=[0, 0, -0.001])
    model = scene.compile()
    data, trunk = mujoco.MjData(model), {model.body(body).id for body in TRUNK}
    for joint, angle in zip(spec.joint_names, spec.home, strict=True):
        data.joint(joint).qpos[0] = angle
    data.qpos[2:7] = spec.home_height_m, 1.0, 0.0, 0.0, 0.0
    mujoco.mj_forward(model, data)
    params = make_shield_params(spec)
    shield, dt_s = Shield(params, spec), params.control_dt_s
    if how == "fading":
        assert isinstance(shield.fallback, HumanoidFallback) and isinstance(params, JointShieldParams)
        shield.fallback._fall = FadingFall(params, joint_limits(params, spec))
    ctrl = [model.actuator(channel).id for channel in spec.channel_names]
    stands, force_n, fastest = round((STANDS_S + 0.1 * (number % 5)) / dt_s), 0.0, 0.0
    was_damped = False
    for period in range(stands + round(FALLS_S / dt_s)):
        if period == stands:
            direction, speed = GOLDEN_RAD * number, 1.6 + 0.2 * (7 * number % 5)
            data.qvel[:2] = speed * np.cos(direction), speed * np.sin(direction)
        context = Context(measure(model, data, spec), NO_PEERS)
        command, report = shield.step(100.0 + period * dt_s, context, None, 0.0)
        if how == "limp" and was_damped:
            model.actuator_gainprm[:] = model.actuator_biasprm[:] = 0.0
        elif how != "stiff" or not was_damped:
            data.ctrl[ctrl] = command.target
        was_damped = was_damped or report.mode is Mode.DAMP
        for _ in range(round(dt_s / model.opt.timestep)):
            mujoco.mj_step(model, data)
            if period >= stands:
                force_n = max(force_n, trunk_force_n(model, data, trunk))
                fastest = max(fastest, float(np.abs(data.qvel[6:]).max()))
    if not was_damped:
        raise RuntimeError(f"fall {number} of {name!r}: it was not damped")
    return force_n, fastest


@single_threaded_torch()
def impacts(name: str, how: str, falls: int) -> dict[str, object]:
    """What `__main__` prints of `falls` of a robot."""
    force_n, fastest = np.array([fall(name, how, number) for number in range(falls)]).T
    return {
        "robot": name,
        "how": how,
        "falls": falls,
        "trunk_kn": round(1e-3 * float(force_n.mean()), 2),
        "error_kn": round(1e-3 * float(force_n.std(ddof=1)) / sqrt(falls), 2),
        "fastest_rad_s": round(float(fastest.mean()), 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["g1", "h1"])
    parser.add_argument("--how", nargs="+", choices=HOWS, default=HOWS)
    parser.add_argument("--falls", type=int, default=72)
    args = parser.parse_args()
    for robot in args.robots:
        for how in args.how:
            print(json.dumps(impacts(robot, how, args.falls)), flush=True)
