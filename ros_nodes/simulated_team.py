"""Robots that are not there: native MuJoCo in place of the hardware, with its sensors, its link and its dead-man."""

from collections import deque
from dataclasses import dataclass

import mujoco
import numpy as np

from hardware.spec import RobotSpec
from hardware.types import RobotState
from sim.scene import build_scene

LEVEL_GAIN = 4.0  # 1/s, body rate per radian of tilt while levelling
LEVEL_AFTER_S = 0.5  # Crazyflie firmware: without a command for this long it levels ...
OFF_AFTER_S = 2.0  # ... and for this long its motors stop
RAMP_S = 0.3  # in which they stop


@dataclass(frozen=True, slots=True)
class Imperfection:
    """How sensors and link differ from the truth: standard deviations of white noise, and delays."""

    pos_m: float
    angle_rad: float
    lin_vel_m_s: float
    ang_vel_rad_s: float
    sensor_latency_s: float  # from a measurement to its publication
    sensor_jitter_s: float  # uniform, on top
    command_latency_s: float  # from a command's arrival to the motors


class SimulatedTeam:
    """N robots of one kind in one scene, stepped by whoever owns the clock. Times are that clock's, s."""

    def __init__(self, spec: RobotSpec, starts: np.ndarray, imperfection: Imperfection, timestep_s: float, seed: int):
        """`starts` (N, 4): x, y, z in m and yaw in rad. A robot stays there, as on a stand, until its first command."""
        self.spec = spec
        self.num_robots = len(starts)
        self.imperfection = imperfection
        self._scene = build_scene(spec, self.num_robots, timestep_s)
        self._data = mujoco.MjData(self._scene.model)
        self._rng = np.random.default_rng(seed)
        self._low, self._high = np.array(spec.command_low), np.array(spec.command_high)
        self._rest = np.zeros(len(spec.channels))
        self._thrust, self._roll, self._pitch = map(spec.channel_names.index, ("thrust", "roll_rate", "pitch_rate"))
        if spec.flight is not None:
            self._rest[self._thrust] = spec.flight.hover_thrust_n
        self._target = np.tile(self._rest, (self.num_robots, 1))
        self._heard_s: list[float | None] = [None] * self.num_robots
        self._on_the_way: list[deque[tuple[float, np.ndarray]]] = [deque() for _ in range(self.num_robots)]
        self._starts = np.zeros((self.num_robots, 7))
        self._starts[:, :3] = starts[:, :3]
        self._starts[:, 3], self._starts[:, 6] = np.cos(starts[:, 3] / 2), np.sin(starts[:, 3] / 2)
        for robot in range(self.num_robots):
            self._hold(robot)
        mujoco.mj_forward(self._scene.model, self._data)

    def receive(self, robot: int, target: np.ndarray, now_s: float) -> bool:
        """A command (U,) for `robot` has arrived; False, and nothing happens, when it is not finite."""
        if not np.isfinite(target).all():
            return False
        self._on_the_way[robot].append((now_s + self.imperfection.command_latency_s, target))
        return True

    def step(self, now_s: float) -> None:
        """Advance all robots by one time step, which ends at `now_s`."""
        for robot in range(self.num_robots):
            queue = self._on_the_way[robot]
            while queue and queue[0][0] <= now_s:
                self._heard_s[robot], self._target[robot] = queue.popleft()
            heard_s = self._heard_s[robot]
            if heard_s is None:
                self._hold(robot)
            self._data.ctrl[self._scene.ctrl_index[robot]] = self._actuate(
                robot, 0.0 if heard_s is None else now_s - heard_s
            )
        mujoco.mj_step(self._scene.model, self._data)

    def measure(self, robot: int) -> RobotState:
        """What the sensors of `robot` say now: the truth with noise; float64."""
        qpos, qvel, error = self._qpos(robot), self._qvel(robot), self.imperfection
        tilt, quat, lin_vel, inverse = np.zeros(4), np.zeros(4), np.zeros(3), np.zeros(4)
        noise = self._rng.standard_normal(12)
        tilt[0], tilt[1:] = 1.0, 0.5 * error.angle_rad * noise[:3]
        mujoco.mju_mulQuat(quat, qpos[3:7], tilt)
        mujoco.mju_normalize4(quat)
        mujoco.mju_negQuat(inverse, qpos[3:7])
        mujoco.mju_rotVecQuat(lin_vel, qvel[:3], inverse)
        return RobotState(
            joint_pos=np.empty(0),
            joint_vel=np.empty(0),
            base_pos=qpos[:3] + error.pos_m * noise[3:6],
            base_quat=quat,
            base_lin_vel=lin_vel + error.lin_vel_m_s * noise[6:9],
            base_ang_vel=qvel[3:6] + error.ang_vel_rad_s * noise[9:],
            age=np.zeros(()),
        )

    def sensor_delay_s(self) -> float:
        """Delay of the next measurement's publication, s."""
        return self.imperfection.sensor_latency_s + self.imperfection.sensor_jitter_s * self._rng.random()

    def true_poses(self) -> np.ndarray:
        """(N, 7): position m, quaternion wxyz; for the record only."""
        return np.stack([self._qpos(robot) for robot in range(self.num_robots)])

    def _actuate(self, robot: int, silence_s: float) -> np.ndarray:
        """Set-points (U,) of the on-board loops: the last command, or what the firmware does without one."""
        target = np.clip(self._target[robot], self._low, self._high)
        if silence_s < LEVEL_AFTER_S:
            return target
        level = np.zeros_like(target)
        level[self._thrust] = target[self._thrust] * np.clip(1.0 - (silence_s - OFF_AFTER_S) / RAMP_S, 0.0, 1.0)
        if silence_s < OFF_AFTER_S + RAMP_S:
            w, x, y, z = self._qpos(robot)[3:7]
            up_b = 2 * (x * z - w * y), 2 * (y * z + w * x)  # horizontal part of the world's up in the body
            level[self._roll], level[self._pitch] = -LEVEL_GAIN * up_b[1], LEVEL_GAIN * up_b[0]
        return level

    def _hold(self, robot: int) -> None:
        self._qpos(robot)[:] = self._starts[robot]
        self._qvel(robot)[:] = 0.0
        self._data.act[self._scene.act_index[robot]] = self._rest

    def _qpos(self, robot: int) -> np.ndarray:
        start = self._scene.qpos_adr[robot]
        return self._data.qpos[start : start + 7]

    def _qvel(self, robot: int) -> np.ndarray:
        start = self._scene.qvel_adr[robot]
        return self._data.qvel[start : start + 6]
