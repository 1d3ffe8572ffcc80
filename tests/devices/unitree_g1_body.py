"""A G1's motors and body in MuJoCo at 500 Hz; each motor gives kp (q* - q) + kd (dq* - dq) + tau up to its peak torque.

Motors by number: unitree_sdk2, example/g1/low_level/g1_ankle_swing_example.cpp, enum G1JointIndex.
"""

import math

import mujoco
import numpy as np

from hardware import load_robot
from sim.scenes.scene import Members, compose_scene

DT_S = 0.002
LEG = ("HipPitch", "HipRoll", "HipYaw", "Knee", "AnklePitch", "AnkleRoll")
ARM = ("ShoulderPitch", "ShoulderRoll", "ShoulderYaw", "Elbow", "WristRoll", "WristPitch", "WristYaw")
NAMES = [f"Left{name}" for name in LEG] + [f"Right{name}" for name in LEG] + ["WaistYaw", "WaistRoll", "WaistPitch"]
NAMES += [f"Left{name}" for name in ARM] + [f"Right{name}" for name in ARM]


def joint_of(name: str) -> str:
    """LeftHipPitch is left_hip_pitch_joint of the URDF."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:] + "_joint"


class Body:
    """Stands in its home pose, its pelvis `held` by a gantry until it is let go."""

    def __init__(self) -> None:
        spec = load_robot("g1")
        scene = compose_scene([Members(spec, 1)], DT_S)
        self._model, self._data = scene.model, mujoco.MjData(scene.model)
        order = [spec.joint_names.index(joint_of(name)) for name in NAMES]
        group = scene.groups[0]
        self._qpos, self._qvel = group.joint_qpos[0][order], group.joint_qvel[0][order]
        channel = [spec.channel_names.index(joint_of(name)) for name in NAMES]
        self._motors = group.ctrl_index[0][channel]
        self._model.actuator_ctrllimited[self._motors] = 0
        self._model.actuator_gainprm[self._motors, 0] = 1.0
        self._limits = np.array([[spec.joints[index].low, spec.joints[index].high] for index in order])
        self._home = np.array([spec.joints[index].home for index in order])
        self._held_at = np.array([0.0, 0.0, spec.home_height_m, 1.0, 0.0, 0.0, 0.0])
        self._data.qpos[group.base_qpos[0]] = self._held_at
        self._data.qpos[self._qpos] = self._home
        self.held, self.out_of_range, self.damped = True, 0, False
        self.lowest_m, self._push = math.inf, [0.0, 0.0]
        self.command([[0, 0.0, 0.0, 0.0, 0.0, 0.0]] * 29)

    def command(self, motors: list) -> None:
        """Mode, q, dq, tau, kp and kd of each motor, held until the next ones."""
        _, q, dq, tau, kp, kd = np.array(motors).T * np.array([m[0] for m in motors])
        self._model.actuator_biasprm[self._motors, 0] = 0.0
        self._model.actuator_biasprm[self._motors, 1] = -kp
        self._model.actuator_biasprm[self._motors, 2] = -kd
        self._data.ctrl[self._motors] = kp * q + kd * dq + tau
        low, high = self._limits.T
        self.out_of_range += bool(((kp > 0) & ((q < low - 1e-4) | (q > high + 1e-4))).any())
        self.damped = bool((kp == 0).all() and (kd > 0).all())
        self.stiff = bool((kp > 0).all())

    @property
    def push(self) -> list:
        """What was added to its velocity last, m/s along the world's x and y."""
        return self._push

    @push.setter
    def push(self, by_m_s: list) -> None:
        self._push = by_m_s
        self._data.qvel[:2] += by_m_s

    @property
    def walks(self) -> list:
        """How fast it walks ahead and to its left, m/s, and turns left, rad/s."""
        w, x, y, z = self._data.qpos[3:7]
        yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        (vx, vy), up_b = (
            self._data.qvel[:2],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        )
        ahead, left = math.cos(yaw) * vx + math.sin(yaw) * vy, math.cos(yaw) * vy - math.sin(yaw) * vx
        return [float(ahead), float(left), float(np.dot(up_b, self._data.qvel[3:6]))]

    def step(self) -> None:
        """One period."""
        mujoco.mj_step(self._model, self._data)
        if self.held:
            self._data.qpos[:7], self._data.qvel[:6] = self._held_at, 0.0
        self.lowest_m = min(self.lowest_m, float(self._data.qpos[2]))

    def measured(self) -> tuple[list, list, list, list, list]:
        """Quaternion wxyz of the pelvis, its rates rad/s, and q rad, dq rad/s and torque N m of each motor."""
        data = self._data
        numbers = data.qpos[3:7], data.qvel[3:6], data.qpos[self._qpos], data.qvel[self._qvel]
        return (*(each.tolist() for each in numbers), data.actuator_force[self._motors].tolist())

    def report(self) -> dict:
        """How it really is."""
        _, x, y, _ = self._data.qpos[3:7]
        return {
            "position": self._data.qpos[:3].tolist(),
            "velocity": self._data.qvel[:3].tolist(),
            "tilt": math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y)))),
            "q": self._data.qpos[self._qpos].tolist(),
            "lowest_m": self.lowest_m,
            "walks": self.walks,
            "damped": self.damped,
            "stiff": self.stiff,
            "out_of_range": self.out_of_range,
        }
