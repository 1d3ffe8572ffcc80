"""A robot that is not there: its place in MuJoCo, with its sensors, its link and its dead-man."""

from collections import deque
from dataclasses import dataclass

import mujoco
import numpy as np

from hardware.spec import SLIDE_LEVER_M, RobotSpec
from hardware.types import RobotState
from ros_nodes.mission.mission import Member
from ros_nodes.simulation.command_watchdog import make_dead_man
from sim.scenes.scene import GroupIndex


@dataclass(frozen=True, slots=True)
class Imperfection:
    """How sensors and link differ from the truth: standard deviations of white noise, and delays."""

    pos_m: float = 0.0
    angle_rad: float = 0.0
    lin_vel_m_s: float = 0.0
    ang_vel_rad_s: float = 0.0
    joint_pos_rad: float = 0.0  # of a slide times SLIDE_LEVER_M, as below
    joint_vel_rad_s: float = 0.0
    sensor_latency_s: float = 0.0  # from a measurement to its publication
    sensor_jitter_s: float = 0.0  # uniform, on top
    command_latency_s: float = 0.0  # from a command's arrival to the motors


class Sensors:
    """What makes a measurement of the truth."""

    def __init__(self, imperfection: Imperfection, seed: int):
        self.error, self._rng = imperfection, np.random.default_rng(seed)

    def blur(self, pos: np.ndarray, quat: np.ndarray, lin_vel: np.ndarray, ang_vel: np.ndarray) -> None:
        """Add noise to how a body is and moves."""
        error, noise = self.error, self._rng.standard_normal(12)
        tilt = np.array((1.0, *(0.5 * error.angle_rad * noise[:3])))
        mujoco.mju_mulQuat(quat, quat.copy(), tilt)
        mujoco.mju_normalize4(quat)
        pos += error.pos_m * noise[3:6]
        lin_vel += error.lin_vel_m_s * noise[6:9]
        ang_vel += error.ang_vel_rad_s * noise[9:]

    def blur_joints(self, pos: np.ndarray, vel: np.ndarray, lever: np.ndarray) -> None:
        """Add noise to joints, of which slides have a `lever` m per rad."""
        pos += self.error.joint_pos_rad * lever * self._rng.standard_normal(len(lever))
        vel += self.error.joint_vel_rad_s * lever * self._rng.standard_normal(len(lever))

    def delay_s(self) -> float:
        """From the next measurement to its publication."""
        return self.error.sensor_latency_s + self.error.sensor_jitter_s * self._rng.random()


class SimulatedRobot:
    """One robot of a simulated team, which steps the physics. Times are those of the team's clock, s.

    It stays where it starts, as on a stand, until its first command.
    """

    def __init__(self, member: Member, index: GroupIndex, data: mujoco.MjData, sensors: Sensors):
        """`index` is that of a group of one."""
        self.spec = index.robot
        self._start, self._index, self._data, self._sensors = member, index, data, sensors
        self._low, self._high = np.array(self.spec.command_low), np.array(self.spec.command_high)
        slides = {channel.name for channel in self.spec.channels if channel.unit == "m"}
        self._lever = np.array([SLIDE_LEVER_M if name in slides else 1.0 for name in self.spec.joint_names])
        self._dead_man = make_dead_man(self.spec)
        self._rest = rest_at(self.spec, member.joint_pos)
        self.target = self._rest.copy()  # (U,) what the drives were last told
        self._heard_s: float | None = None
        self._on_the_way: deque[tuple[float, np.ndarray]] = deque()
        self._put_on_stand()

    def receive(self, target: np.ndarray, now_s: float) -> bool:
        """A command (U,) has arrived; False, and nothing happens, when it is not finite."""
        if not np.isfinite(target).all():
            return False
        self._on_the_way.append((now_s + self._sensors.error.command_latency_s, target))
        return True

    def drive(self, now_s: float) -> None:
        """Set the drives for the time step that ends at `now_s`."""
        while self._on_the_way and self._on_the_way[0][0] <= now_s:
            self._heard_s, target = self._on_the_way.popleft()
            self.target = np.clip(target, self._low, self._high)
        if self._heard_s is None:
            self._put_on_stand()
            ctrl = self._rest
        else:
            joint_pos = self._data.qpos[self._index.joint_qpos[0]]
            ctrl = self._dead_man(self.target, now_s - self._heard_s, self.true_pose()[3:], joint_pos)
        self._data.ctrl[self._index.ctrl_index[0]] = ctrl

    def measure(self) -> RobotState:
        """What its sensors say now: the truth with noise; float64. Where a base is bolted is known."""
        state = self.true_state()
        if not self.spec.fixed_base:
            self._sensors.blur(state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel)
        self._sensors.blur_joints(state.joint_pos, state.joint_vel, self._lever)
        return state

    def true_state(self) -> RobotState:
        """How it really is; for the record only."""
        data, index = self._data, self._index
        base_vel = np.zeros(6) if self.spec.fixed_base else data.qvel[index.base_qvel[0]]
        joints = data.qpos[index.joint_qpos[0]], data.qvel[index.joint_qvel[0]]
        return RobotState(*joints, *in_body(self.true_pose(), base_vel), age=np.zeros(()))

    def true_pose(self) -> np.ndarray:
        """(7,): position m, quaternion wxyz of its base; for the record only."""
        return self._index.base_pose[0] if self.spec.fixed_base else self._data.qpos[self._index.base_qpos[0]]

    def _put_on_stand(self) -> None:
        data, index = self._data, self._index
        if not self.spec.fixed_base:
            data.qpos[index.base_qpos[0]] = self._start.base_pose
            data.qvel[index.base_qvel[0]] = 0.0
        data.qpos[index.joint_qpos[0]] = self._start.joint_pos
        data.qvel[index.joint_qvel[0]] = 0.0
        driven = index.act_index[0] >= 0
        data.act[index.act_index[0][driven]] = self._rest[driven]


def rest_at(spec: RobotSpec, joint_pos: np.ndarray) -> np.ndarray:
    """The command (U,) that keeps a robot with `joint_pos` (J,) as it is."""
    rest = np.array([joint_pos[joint] if joint >= 0 else 0.0 for joint in spec.joint_of_channel])
    if spec.flight is not None:
        rest[spec.channel_names.index("thrust")] = spec.flight.hover_thrust_n
    return rest


def in_body(pose: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position, quaternion, linear and angular velocity in the body of a pose and MuJoCo's velocity of it."""
    lin_vel, inverse = np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(inverse, pose[3:])
    mujoco.mju_rotVecQuat(lin_vel, velocity[:3], inverse)
    return pose[:3].copy(), pose[3:].copy(), lin_vel, velocity[3:].copy()
