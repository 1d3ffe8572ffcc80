"""W worlds of one scene: physics, the robots in it, and what they see of the things around them."""

from collections.abc import Mapping

import torch

from hardware.rotation import rotate_inverse
from hardware.types import ActuatorCommand, ObjectState, Peers, RobotState
from sim.group import ANG, LIN, POS, QUAT, Noise, RobotGroup, tilted
from sim.physics import Physics
from sim.physics.native import NativePhysics
from sim.scene import Scene, Tracked
from sim.task import Start

Tensor = torch.Tensor


class World:
    """Physics with the imperfections of robots around it. The truth and the measurement are kept apart."""

    def __init__(self, scene: Scene, num_worlds: int, control_dt_s: float):
        """`control_dt_s` must be a whole number of the model's time steps."""
        self.scene, self.num_worlds = scene, num_worlds
        self.sim_dt, self.control_dt = float(scene.model.opt.timestep), control_dt_s
        self.decimation = round(control_dt_s / self.sim_dt)
        if abs(self.decimation * self.sim_dt - control_dt_s) > 1e-9:
            raise ValueError(f"control period {control_dt_s} s is no multiple of the time step {self.sim_dt} s")
        self.max_delay_steps = 2 * self.decimation - 1
        self.physics: Physics = NativePhysics(scene, num_worlds, self.decimation)
        self.robots = RobotGroup(scene.group, self.physics, self.decimation)
        self.num_robots = scene.group.num_robots
        self.force: Tensor | None = None  # (W, N, 3) N, world, on every free base: wind
        self._ctrl = torch.zeros(num_worlds, self.decimation, scene.model.nu, dtype=torch.float64)
        self._force_columns = torch.from_numpy(scene.group.base_qvel[:, :3]).flatten()
        self._objects = {tracked.name: _columns(tracked, scene.model.nq) for tracked in scene.objects}

    def reset(self, worlds: Tensor, start: Start) -> None:
        """Put `worlds` (K,) at `start`, drives holding what they hold there, with no past."""
        model, index, k = self.scene.model, self.scene.group, len(worlds)
        qpos = torch.from_numpy(model.qpos0).expand(k, -1).clone()
        qvel = torch.zeros(k, model.nv, dtype=torch.float64)
        act = torch.zeros(k, model.na, dtype=torch.float64)
        joint_pos = start.joint_pos if start.joint_pos is not None else self.home().expand(k, -1, -1)
        if not index.robot.fixed_base:
            assert start.pos is not None and start.quat is not None and start.lin_vel is not None
            qpos[:, torch.from_numpy(index.base_qpos)] = torch.cat([start.pos, start.quat], dim=-1).double()
            qvel[:, torch.from_numpy(index.base_qvel[:, :3])] = start.lin_vel.double()
        if index.robot.joints:
            qpos[:, torch.from_numpy(index.joint_qpos)] = joint_pos.double()
            self._close_loops(qpos)
        for tracked in self.scene.objects:
            qpos[:, torch.from_numpy(tracked.qpos)] = torch.cat(start.objects[tracked.name], dim=-1).double()
        driven = torch.from_numpy(index.act_index) >= 0
        act[:, torch.from_numpy(index.act_index)[driven]] = self.robots.rest_at(joint_pos)[:, driven].double()
        self.physics.reset(worlds, qpos, qvel, act)
        self.robots.restart(worlds, joint_pos)
        if self.force is not None:
            self.force[worlds] = 0.0

    def home(self) -> Tensor:
        """Joint positions (N, J) of the robots' home pose."""
        return torch.tensor([joint.home for joint in self.robots.robot.joints]).expand(self.num_robots, -1)

    def step(self, command: ActuatorCommand) -> None:
        """One control step under `command.target` (W, N, U)."""
        self.robots.write(self._ctrl, command.target)
        force = None
        if self.force is not None:
            force = torch.zeros(self.num_worlds, self.scene.model.nv, dtype=torch.float64)
            force[:, self._force_columns] = self.force.flatten(1).double()
        self.physics.step(self._ctrl, force)

    def truth(self) -> RobotState:
        """The true state of every robot, (W, N, ...), age 0."""
        return self.robots.truth()

    def true_objects(self) -> dict[str, ObjectState]:
        """The true state of every tracked object, (W, 1, ...), age 0."""
        rows = {name: self.physics.now(columns).unsqueeze(1) for name, columns in self._objects.items()}
        return {name: _object(row, row.new_zeros(row.shape[:-1])) for name, row in rows.items()}

    def measure(
        self, worlds: Tensor, noise: Noise, generator: torch.Generator, num_peers: int, peer_range_m: float
    ) -> tuple[RobotState, Peers, dict[str, ObjectState]]:
        """What the robots of `worlds` (K,) sense of themselves, hear of the team, and see of the objects."""
        state = self.robots.sense(worlds, noise, generator)
        peers = self.robots.hear(worlds, state.base_pos, num_peers, peer_range_m, noise, generator)
        return state, peers, self._see(worlds, noise, generator)

    def _see(self, worlds: Tensor, noise: Noise, generator: torch.Generator) -> dict[str, ObjectState]:
        """Objects (K, N, ...), as late as each robot's own state."""
        seen = {}
        delay = self.robots.sensor_delay[worlds]
        for name, columns in self._objects.items():
            row = self.physics.recall(worlds, delay, columns.expand(self.num_robots, -1))
            if noise:
                error = noise.per_column(0) * torch.randn(*row.shape[:2], 12, generator=generator)
                row[..., POS] += error[..., 0:3]
                row[..., QUAT] = tilted(row[..., QUAT], error[..., 3:6])
                row[..., 7:] += error[..., 6:]
            seen[name] = _object(row, delay * self.sim_dt)
        return seen

    def _close_loops(self, qpos: Tensor) -> None:
        """Let joints that mirror another one (MuJoCo's joint equality, offset and slope) start where they belong."""
        model = self.scene.model
        for equality in range(model.neq):
            if model.eq_type[equality] == 2 and model.eq_obj2id[equality] >= 0:  # mjEQ_JOINT
                first, second = (model.jnt_qposadr[ids[equality]] for ids in (model.eq_obj1id, model.eq_obj2id))
                offset, slope = model.eq_data[equality, :2]
                qpos[:, first] = offset + slope * qpos[:, second]

    def state_dict(self) -> dict:
        """Everything that a bitwise continuation needs."""
        force = None if self.force is None else self.force.clone()
        return {"force": force, "robots": self.robots.state_dict(), "physics": self.physics.state_dict()}

    def load_state_dict(self, state: Mapping) -> None:
        """Restore `state_dict()`."""
        self.force = state["force"]
        self.robots.load_state_dict(state["robots"])
        self.physics.load_state_dict(state["physics"])


def _columns(tracked: Tracked, nq: int) -> Tensor:
    """(13,) columns of [qpos, qvel]: pose, then velocities."""
    return torch.cat([torch.from_numpy(tracked.qpos), nq + torch.from_numpy(tracked.qvel)])


def _object(rows: Tensor, age: Tensor) -> ObjectState:
    """Rows (..., 13) -> ObjectState; MuJoCo gives linear velocity in the world, angular in the body."""
    quat = rows[..., QUAT]
    return ObjectState(rows[..., POS], quat, rotate_inverse(quat, rows[..., LIN]), rows[..., ANG], age)
