"""W worlds of N robots: what actuators really do with a command, and what sensors and the network really report."""

import torch

from hardware.rotation import multiply, rotate_inverse
from hardware.types import ActuatorCommand, Peers, RobotState
from sim.physics import Physics
from sim.physics.native import NativePhysics
from sim.scene import Scene
from sim.task import Noise, Start

Tensor = torch.Tensor
POS, QUAT, LIN, ANG = slice(0, 3), slice(3, 7), slice(7, 10), slice(10, 13)  # columns of the history
KEPT = ("strength", "actuator_delay", "sensor_delay", "network_delay", "history", "sent")  # beside the physics
HISTORY = 2  # control steps of history kept, which bounds sensor and network delays


class World:
    """Physics with delays, noise and per-world parameters around it. The truth and the measurement are kept apart."""

    def __init__(self, scene: Scene, num_worlds: int, control_dt_s: float, max_peers: int, peer_range_m: float):
        """`control_dt_s` must be a whole number of the model's time steps."""
        self.scene, self.num_worlds, self.num_robots = scene, num_worlds, scene.num_robots
        self.sim_dt = float(scene.model.opt.timestep)
        self.decimation = round(control_dt_s / self.sim_dt)
        if abs(self.decimation * self.sim_dt - control_dt_s) > 1e-9:
            raise ValueError(f"control period {control_dt_s} s is no multiple of the time step {self.sim_dt} s")
        self.max_delay_steps = self.decimation
        self.peer_range_m = peer_range_m
        self.num_peers = min(max_peers, self.num_robots - 1)
        self.physics: Physics = NativePhysics(scene, num_worlds, self.decimation)
        w, n, u = num_worlds, self.num_robots, len(scene.robot.channels)
        self.strength = torch.ones(w, n, u)
        self.actuator_delay = torch.zeros(w, dtype=torch.long)
        self.sensor_delay = torch.zeros(w, dtype=torch.long)
        self.network_delay = torch.zeros(w, dtype=torch.long)
        self.history = torch.zeros(w, HISTORY * self.decimation, n, 13)
        self._rest = torch.tensor(_rest_command(scene), dtype=torch.float32)
        self.sent = self._rest.expand(w, n, u).clone()
        self._ctrl = torch.zeros(w, self.decimation, scene.model.nu, dtype=torch.float64)
        self._ctrl_index = torch.from_numpy(scene.ctrl_index).flatten()
        self._pos = _spread(scene.qpos_adr, 7)
        self._vel = _spread(scene.qvel_adr, 6)
        self._substep = torch.arange(self.decimation).view(1, -1, 1, 1)
        self._low = torch.tensor(scene.robot.command_low)
        self._high = torch.tensor(scene.robot.command_high)

    def reset(self, worlds: Tensor, start: Start) -> None:
        """Put `worlds` (K,) at `start`, robots hovering: actuator states at rest command, no past."""
        model, k = self.scene.model, len(worlds)
        qpos = torch.zeros(k, model.nq, dtype=torch.float64)
        qvel = torch.zeros(k, model.nv, dtype=torch.float64)
        act = torch.zeros(k, model.na, dtype=torch.float64)
        qpos[:, self._pos] = torch.cat([start.pos, start.quat], dim=-1).double()
        qvel[:, self._vel[:, :3]] = start.lin_vel.double()
        act[:, torch.from_numpy(self.scene.act_index)] = self._rest.double()
        self.physics.reset(worlds, qpos, qvel, act)
        self.sent[worlds] = self._rest
        still = torch.zeros_like(start.pos)
        self.history[worlds] = torch.cat([start.pos, start.quat, start.lin_vel, still], dim=-1).unsqueeze(1)

    def step(self, command: ActuatorCommand) -> None:
        """One control step under `command.target` (W, N, U): it acts late by each world's actuator delay."""
        target = command.target.clamp(self._low, self._high)
        delay = self.actuator_delay.view(-1, 1, 1, 1)
        path = torch.where(
            self._substep < delay, self.sent.unsqueeze(1), target.unsqueeze(1)
        ) * self.strength.unsqueeze(1)
        self._ctrl[:, :, self._ctrl_index] = path.flatten(2).double()
        self.physics.step(self._ctrl)
        self.sent = target
        qpos, qvel = self.physics.trajectory()
        self.history = self.history.roll(-self.decimation, dims=1)
        new = self.history[:, -self.decimation :]
        new[..., :7] = qpos[:, :, self._pos].float()
        new[..., 7:] = qvel[:, :, self._vel].float()

    def truth(self) -> RobotState:
        """The true state of every robot, (W, N, ...), age 0."""
        return _to_state(self.history[:, -1], torch.zeros(self.num_worlds, self.num_robots))

    def measure(self, worlds: Tensor, noise: Noise, generator: torch.Generator) -> tuple[RobotState, Peers]:
        """What the robots of `worlds` (K,) sense and hear: late by each world's delays, with white noise."""
        k, n = len(worlds), self.num_robots
        own = self._delayed(worlds, self.sensor_delay)
        jitter = torch.randn(k, n, 18, generator=generator)
        own[..., POS] += noise.pos_m * jitter[..., 0:3]
        own[..., QUAT] = _tilt(own[..., QUAT], noise.angle_rad * jitter[..., 3:6])
        own[..., LIN] += noise.lin_vel_m_s * jitter[..., 6:9]
        own[..., ANG] += noise.ang_vel_rad_s * jitter[..., 9:12]
        age = (self.sensor_delay[worlds] * self.sim_dt).unsqueeze(-1).expand(k, n)
        state = _to_state(own, age)
        said = self._delayed(worlds, self.network_delay)
        said[..., POS] += noise.pos_m * jitter[..., 12:15]
        said[..., LIN] += noise.lin_vel_m_s * jitter[..., 15:18]
        return state, self._peers(state.base_pos, said, self.network_delay[worlds] * self.sim_dt)

    def _delayed(self, worlds: Tensor, delay: Tensor) -> Tensor:
        """Rows (K, N, 13) of the history, `delay` physics steps ago; a copy."""
        return self.history[worlds, self.history.shape[1] - 1 - delay[worlds]]

    def _peers(self, own_pos: Tensor, said: Tensor, age: Tensor) -> Peers:
        """For every robot the others' messages, nearest first, those out of range marked invalid."""
        k, n, p = len(own_pos), self.num_robots, self.num_peers
        gap = said[:, None, :, POS] - own_pos[:, :, None]
        distance = torch.linalg.vector_norm(gap, dim=-1) + torch.diag(torch.full((n,), torch.inf))
        near, order = distance.sort(dim=-1)
        row = torch.arange(k).view(-1, 1, 1)
        heard = said[row, order[..., :p]]
        valid = near[..., :p] < self.peer_range_m
        return Peers(heard[..., POS], heard[..., LIN], age.view(-1, 1, 1).expand(k, n, p), valid)

    def state_dict(self) -> dict:
        """Everything that a bitwise continuation needs."""
        return {name: getattr(self, name).clone() for name in KEPT} | {"physics": self.physics.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        """Restore `state_dict()`."""
        for name in KEPT:
            setattr(self, name, state[name].clone())
        self.physics.load_state_dict(state["physics"])


def _to_state(rows: Tensor, age: Tensor) -> RobotState:
    """History rows (..., 13) -> RobotState; MuJoCo gives linear velocity in the world, angular in the body."""
    quat = rows[..., QUAT]
    none = rows.new_zeros(*rows.shape[:-1], 0)
    return RobotState(none, none, rows[..., POS], quat, rotate_inverse(quat, rows[..., LIN]), rows[..., ANG], age)


def _tilt(quat: Tensor, angle: Tensor) -> Tensor:
    """`quat` turned by small rotation vectors (..., 3) rad, body."""
    turned = multiply(quat, torch.cat([torch.ones_like(angle[..., :1]), 0.5 * angle], dim=-1))
    return turned / torch.linalg.vector_norm(turned, dim=-1, keepdim=True)


def _rest_command(scene: Scene) -> list[float]:
    """The command that holds a robot where it is: hover thrust for a drone, zero elsewhere."""
    flight = scene.robot.flight
    return [flight.hover_thrust_n if flight and c.name == "thrust" else 0.0 for c in scene.robot.channels]


def _spread(addresses, width: int) -> Tensor:
    """(N,) first columns -> (N, width) columns."""
    return torch.from_numpy(addresses).long().unsqueeze(-1) + torch.arange(width)
