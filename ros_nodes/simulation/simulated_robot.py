"""A simulated robot: its part of a MuJoCo model, with sensors, drives and a command watchdog."""

from collections import deque
from collections.abc import Callable

import mujoco
import numpy as np

from hardware.types import RobotState
from ros_nodes.mission.ground_truth import split_base
from ros_nodes.plans.mission import Member
from ros_nodes.simulation.command_watchdog import make_command_watchdog
from sim.noise import Noise, error_scale
from sim.scenes.scene import GroupIndex, rest_command

AT_WORK_S = 1.0  # after a command
Disturb = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (row (13 + 2 J,), spread (12 + 2 J,)) -> row with errors


class SimulatedRobot:
    """One robot of a simulated team, which steps the physics. Times are those of the team's clock, s.

    It stays where it starts, as on a stand, until its first command.
    """

    def __init__(
        self, member: Member, index: GroupIndex, data: mujoco.MjData, noise: Noise, disturb: Disturb, latency_s: float
    ):
        """`index` is that of a group of one; commands act `latency_s` after they arrive."""
        self.spec = index.robot
        self._start, self._index, self._data, self._disturb = member, index, data, disturb
        self._low, self._high = np.array(self.spec.command_low), np.array(self.spec.command_high)
        self._spread = np.array(error_scale(self.spec)) * noise.per_column(len(self.spec.joints))
        self._latency_s = latency_s
        self._watchdog = make_command_watchdog(self.spec)
        self._rest = np.array(rest_command(self.spec, member.joint_pos.tolist()))
        self.target = self._rest.copy()  # (U,) set-points that the drives got last
        self.worked_s = self._driven_s = 0.0  # how long it has been at work, for its battery; the last time step
        self._received_s: float | None = None
        self._in_flight: deque[tuple[float, np.ndarray]] = deque()
        self._put_on_stand()

    def receive(self, target: np.ndarray, now_s: float) -> bool:
        """A command (U,) has arrived; False, and nothing happens, when it is not finite."""
        if not np.isfinite(target).all():
            return False
        self._in_flight.append((now_s + self._latency_s, target))
        return True

    def drive(self, now_s: float) -> None:
        """Set the drives for the time step that ends at `now_s`; what is earlier than the step before began again."""
        if now_s < self._driven_s:  # or no command would count, and the last one hold, until the time of before
            self._in_flight = deque((min(due_s, now_s + self._latency_s), target) for due_s, target in self._in_flight)
            self._received_s, self._driven_s = None if self._received_s is None else now_s, now_s
        while self._in_flight and self._in_flight[0][0] <= now_s:
            self._received_s, target = self._in_flight.popleft()
            self.target = np.clip(target, self._low, self._high)
        if self._received_s is None:
            self._put_on_stand()
            ctrl = self._rest
        else:
            if now_s - self._received_s < AT_WORK_S:
                self.worked_s += (now_s - self._driven_s) * self._power()
            joint_pos = self._data.qpos[self._index.joint_qpos[0]]
            ctrl = self._watchdog(self.target, now_s - self._received_s, self.true_pose()[3:], joint_pos)
        self._driven_s = now_s
        self._data.ctrl[self._index.ctrl_index[0]] = ctrl

    def measure(self) -> RobotState:
        """What its sensors measure now: the true state with noise; float64. The pose of a fixed base is known."""
        row = self._disturb(self.true_row(), self._spread)
        joint_pos, joint_vel = np.split(row[13:], 2)
        return RobotState(joint_pos, joint_vel, *split_base(row), age=np.zeros(()))

    def plant(self) -> dict[str, float]:
        """What its model has, by the names of `hardware.plant`: as a driver would report it."""
        model, index, joints = self._data.model, self._index, self.spec.joints
        dof = index.joint_qvel[0]
        found = {"mass_kg": model.body_mass[index.bodies[0]].sum()}
        for joint, column in zip(joints, dof, strict=True):
            found[f"{joint.name}.armature"] = model.dof_armature[column]
            found[f"{joint.name}.friction"] = model.dof_frictionloss[column]
        for actuator, number in zip(index.ctrl_index[0], self.spec.joint_of_channel, strict=True):
            if number >= 0:
                name = joints[number].name
                found[f"{name}.stiffness"] = model.actuator_gainprm[actuator, 0]
                found[f"{name}.damping"] = -model.actuator_biasprm[actuator, 2]
                found[f"{name}.max_effort"] = model.actuator_forcerange[actuator, 1]
        return {name: float(value) for name, value in found.items()}

    def true_row(self) -> np.ndarray:
        """(13 + 2 J,) how it really is: base pose and velocities in the body, joint positions and velocities."""
        data, index = self._data, self._index
        base_vel = np.zeros(6) if self.spec.fixed_base else data.qvel[index.base_qvel[0]]
        base = body_row(self.true_pose(), base_vel)
        return np.concatenate([base, data.qpos[index.joint_qpos[0]], data.qvel[index.joint_qvel[0]]])

    def true_pose(self) -> np.ndarray:
        """(7,): position m, quaternion wxyz of its base; for the record only."""
        return self._index.base_pose[0] if self.spec.fixed_base else self._data.qpos[self._index.base_qpos[0]]

    def _power(self) -> float:
        """What it takes from its battery, as a share of what that lasts for as long as the maker says.

        Of a drone that is hovering, and the power of rotors goes with thrust^1.5 (momentum theory: Leishman, Principles
        of Helicopter Aerodynamics, chapter 2).
        """
        flight = self.spec.flight
        return 1.0 if flight is None else float(max(self.target[0], 0.0) / flight.hover_thrust_n) ** 1.5

    def _put_on_stand(self) -> None:
        data, index = self._data, self._index
        if not self.spec.fixed_base:
            data.qpos[index.base_qpos[0]] = self._start.base_pose
            data.qvel[index.base_qvel[0]] = 0.0
        data.qpos[index.joint_qpos[0]] = self._start.joint_pos
        data.qvel[index.joint_qvel[0]] = 0.0
        driven = index.act_index[0] >= 0
        data.act[index.act_index[0][driven]] = self._rest[driven]


def body_row(pose: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """(13,) pose, linear and angular velocity in the body, of a pose (7,) and MuJoCo's velocity (6,) of it."""
    row = np.empty(13)
    row[:7], row[10:] = pose, velocity[3:]
    back = np.empty(4)
    mujoco.mju_negQuat(back, row[3:7])
    mujoco.mju_rotVecQuat(row[7:10], velocity[:3], back)
    return row
