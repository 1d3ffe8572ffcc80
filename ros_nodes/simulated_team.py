"""Robots that are not there: native MuJoCo in place of the hardware, with its sensors, its link and its dead-man."""

from collections import deque
from dataclasses import dataclass

import mujoco
import numpy as np

from hardware import load_robot
from hardware.spec import SLIDE_LEVER_M
from hardware.types import ObjectState, RobotState
from ros_nodes.dead_man import make_dead_man
from ros_nodes.mission import Mission, yaw_of
from sim.scene import Scene, build_scene


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


class SimulatedTeam:
    """The robots and the scene of a mission, stepped by whoever owns the clock. Times are that clock's, s.

    A robot stays where it starts, as on a stand, until its first command.
    """

    def __init__(self, mission: Mission, imperfection: Imperfection, timestep_s: float, seed: int):
        """ValueError for a robot, scene or object that is not there."""
        self.spec = load_robot(mission.robot)
        self.num_robots = len(mission.names)
        self.imperfection = imperfection
        self._scene = _scene(mission, timestep_s)
        self._index = self._scene.group
        self._data = mujoco.MjData(self._scene.model)
        self._rng = np.random.default_rng(seed)
        self._low, self._high = np.array(self.spec.command_low), np.array(self.spec.command_high)
        slides = {channel.name for channel in self.spec.channels if channel.unit == "m"}
        self._lever = np.array([SLIDE_LEVER_M if name in slides else 1.0 for name in self.spec.joint_names])
        self._dead_man = make_dead_man(self.spec)
        self._mission = mission
        self._rest = np.stack([self._rest_at(joint_pos) for joint_pos in mission.joint_pos])
        self.target = self._rest.copy()  # (N, U) what the drives were last told
        self._heard_s: list[float | None] = [None] * self.num_robots
        self._on_the_way: list[deque[tuple[float, np.ndarray]]] = [deque() for _ in range(self.num_robots)]
        for robot in range(self.num_robots):
            self._put_on_stand(robot)
        for tracked in self._scene.objects:
            if tracked.name not in mission.objects:
                has = f"the scene of {mission.scene!r} has {tracked.name!r}"
                raise ValueError(f"{has}; the mission says nothing of where it starts")
            self._data.qpos[tracked.qpos] = mission.objects[tracked.name]
        _close_loops(self._scene.model, self._data.qpos)
        mujoco.mj_forward(self._scene.model, self._data)

    def receive(self, robot: int, target: np.ndarray, now_s: float) -> bool:
        """A command (U,) for `robot` has arrived; False, and nothing happens, when it is not finite."""
        if not np.isfinite(target).all():
            return False
        self._on_the_way[robot].append((now_s + self.imperfection.command_latency_s, target))
        return True

    def step(self, now_s: float) -> None:
        """Advance everything by one time step, which ends at `now_s`."""
        for robot in range(self.num_robots):
            queue = self._on_the_way[robot]
            while queue and queue[0][0] <= now_s:
                self._heard_s[robot], target = queue.popleft()
                self.target[robot] = np.clip(target, self._low, self._high)
            heard_s = self._heard_s[robot]
            if heard_s is None:
                self._put_on_stand(robot)
                ctrl = self._rest[robot]
            else:
                base, joint_pos = self._base(robot)[0], self._data.qpos[self._index.joint_qpos[robot]]
                ctrl = self._dead_man(self.target[robot], now_s - heard_s, base[3:], joint_pos)
            self._data.ctrl[self._index.ctrl_index[robot]] = ctrl
        mujoco.mj_step(self._scene.model, self._data)

    def measure(self, robot: int) -> RobotState:
        """What the sensors of `robot` say now: the truth with noise; float64. Where a base is bolted is known."""
        state, error = self.true_state(robot), self.imperfection
        if not self.spec.fixed_base:
            self._blur(state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel)
        state.joint_pos += error.joint_pos_rad * self._lever * self._rng.standard_normal(len(self._lever))
        state.joint_vel += error.joint_vel_rad_s * self._lever * self._rng.standard_normal(len(self._lever))
        return state

    def measure_object(self, name: str) -> ObjectState:
        """What a tracker says now of the object `name`."""
        state = self.true_object(name)
        self._blur(state.pos, state.quat, state.lin_vel, state.ang_vel)
        return state

    def sensor_delay_s(self) -> float:
        """Delay of the next measurement's publication, s."""
        return self.imperfection.sensor_latency_s + self.imperfection.sensor_jitter_s * self._rng.random()

    def true_state(self, robot: int) -> RobotState:
        """How `robot` really is; for the record only."""
        joint_pos = self._data.qpos[self._index.joint_qpos[robot]]
        joint_vel = self._data.qvel[self._index.joint_qvel[robot]]
        return RobotState(joint_pos, joint_vel, *_in_body(*self._base(robot)), age=np.zeros(()))

    def true_object(self, name: str) -> ObjectState:
        """How the object `name` really is; for the record only."""
        tracked = next(tracked for tracked in self._scene.objects if tracked.name == name)
        return ObjectState(*_in_body(self._data.qpos[tracked.qpos], self._data.qvel[tracked.qvel]), age=np.zeros(()))

    @property
    def qpos(self) -> np.ndarray:
        """(nq,) coordinates of everything, as MuJoCo has them; for the record only."""
        return self._data.qpos

    def true_poses(self) -> np.ndarray:
        """(N, 7): position m, quaternion wxyz of the bases; for the record only."""
        return np.stack([self._base(robot)[0] for robot in range(self.num_robots)])

    def _base(self, robot: int) -> tuple[np.ndarray, np.ndarray]:
        """Pose (7,), and velocity (6,): linear in the world, angular in the body."""
        if self.spec.fixed_base:
            return self._index.base_pose[robot], np.zeros(6)
        return self._data.qpos[self._index.base_qpos[robot]], self._data.qvel[self._index.base_qvel[robot]]

    def _blur(self, pos: np.ndarray, quat: np.ndarray, lin_vel: np.ndarray, ang_vel: np.ndarray) -> None:
        error, noise = self.imperfection, self._rng.standard_normal(12)
        tilt = np.array((1.0, *(0.5 * error.angle_rad * noise[:3])))
        mujoco.mju_mulQuat(quat, quat.copy(), tilt)
        mujoco.mju_normalize4(quat)
        pos += error.pos_m * noise[3:6]
        lin_vel += error.lin_vel_m_s * noise[6:9]
        ang_vel += error.ang_vel_rad_s * noise[9:]

    def _rest_at(self, joint_pos: np.ndarray) -> np.ndarray:
        """The command (U,) that keeps a robot with `joint_pos` (J,) as it is."""
        rest = np.zeros(len(self.spec.channels))
        for channel, joint in enumerate(self.spec.joint_of_channel):
            if joint >= 0:
                rest[channel] = joint_pos[joint]
        if self.spec.flight is not None:
            rest[self.spec.channel_names.index("thrust")] = self.spec.flight.hover_thrust_n
        return rest

    def _put_on_stand(self, robot: int) -> None:
        index, data = self._index, self._data
        if not self.spec.fixed_base:
            data.qpos[index.base_qpos[robot]] = self._mission.base_pose[robot]
            data.qvel[index.base_qvel[robot]] = 0.0
        data.qpos[index.joint_qpos[robot]] = self._mission.joint_pos[robot]
        data.qvel[index.joint_qvel[robot]] = 0.0
        driven = index.act_index[robot] >= 0
        data.act[index.act_index[robot][driven]] = self._rest[robot][driven]


def _scene(mission: Mission, timestep_s: float) -> Scene:
    spec = load_robot(mission.robot)
    bases = np.array([yaw_of(pose) for pose in mission.base_pose])
    if not mission.scene:
        return build_scene(spec, len(mission.names), timestep_s, bases=bases)
    from sim.tasks import load_task  # torch comes with it: only for what needs it

    around = load_task(mission.scene).scene
    return build_scene(spec, len(mission.names), timestep_s, False, bases, around.props, around.objects)


def _in_body(pose: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position, quaternion, linear and angular velocity in the body of a pose and MuJoCo's velocity of it."""
    lin_vel, inverse = np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(inverse, pose[3:])
    mujoco.mju_rotVecQuat(lin_vel, velocity[:3], inverse)
    return pose[:3].copy(), pose[3:].copy(), lin_vel, velocity[3:].copy()


def _close_loops(model: mujoco.MjModel, qpos: np.ndarray) -> None:
    """Let joints that mirror another one start where they belong."""
    for equality in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_JOINT):
        if model.eq_obj2id[equality] >= 0:
            first, second = (model.jnt_qposadr[ids[equality]] for ids in (model.eq_obj1id, model.eq_obj2id))
            offset, slope = model.eq_data[equality, :2]  # of differences from the reference positions
            qpos[first] = model.qpos0[first] + offset + slope * (qpos[second] - model.qpos0[second])
