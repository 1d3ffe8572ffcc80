"""A group of like robots in W worlds: what their actuators make of a command, what they sense, send and receive."""

import numpy as np
import torch

from hardware.rotation import rotate_inverse, up_w
from hardware.types import Peers, RobotState
from sim.envs.cameras import Cameras
from sim.envs.rate_loop import RateLoops
from sim.noise import Noise, add_error, error_scale
from sim.physics import Physics
from sim.scenes.scene import GroupIndex, rest_command
from sim.scenes.terrain import Ground, level_ground
from sim.task import Start
from sim.tracing import is_tracing, may_hold, untraceable
from sim.vectors import length

Tensor = torch.Tensor
POS, QUAT, LIN, ANG = slice(0, 3), slice(3, 7), slice(7, 10), slice(10, 13)  # of a row: base, then joints
GAINS = ("actuator_gainprm", "actuator_biasprm")
AT_ONCE = 64  # worlds whose ground is laid in one go: a few MB of nodes each
OLDEST_S = 1e3  # a message that is lost before any came in is received all the same
DELAYS = ("actuator_delay", "sensor_delay", "network_delay")  # the attributes, in the order of `jitter`


class RobotGroup:
    """N robots of one `GroupIndex` in W worlds. Rows are (13 + 2 J,): base pose and velocities, joint pos and vel.

    What changes from step to step are the attributes that `RobotsState` names.
    """

    def __init__(
        self,
        group: GroupIndex,
        physics: Physics,
        decimation: int,
        first: int,
        team: int,
        rate_loops: RateLoops | None = None,
        periods: int = 2,
    ):
        """Robots `first` and up of the `team` that hears each other; no delays, actuators at their nominal strength.

        With `rate_loops` those turn commands into forces, in the place of the model's actuators. Physics remembers
        `periods` control steps.
        """
        self.group, self.robot, self.physics = group, group.robot, physics
        self.decimation, self.num_robots = decimation, group.num_robots
        self.max_delay_steps = 2 * decimation - 1  # of a robot's own state, and of what it is sent
        self.dt = float(physics.scene.model.opt.timestep)
        w, n, u, j = physics.num_worlds, self.num_robots, len(self.robot.channels), len(self.robot.joints)
        self.num_joints = j
        self.strength = torch.ones(w, n, u)  # set-points that are forces come out as this share of what was asked
        self.dead = torch.zeros(w, n, dtype=torch.bool)  # robots whose drives have stopped
        self.curve = torch.ones(w, n, 1)  # exponent of the thrust curve: real = high * (asked / high) ** curve
        self.actuator_delay = torch.zeros(w, n, dtype=torch.long)  # physics steps
        self.sensor_delay = torch.zeros(w, n, dtype=torch.long)
        self.network_delay = torch.zeros(w, n, dtype=torch.long)
        self.jitter = torch.zeros(w, n, len(DELAYS), dtype=torch.long)  # the part of them that changes with time
        # Physics steps that what each robot measured, and said, last was old: what comes next is never older than it.
        self.measured_ago = torch.full((w, n), self.max_delay_steps)
        self.said_ago = torch.full((w, n), self.max_delay_steps)
        self.held_states = torch.zeros(w, n, dtype=torch.long)  # control steps for which what is known stays as it was
        self.lost = torch.zeros(w, n, dtype=torch.bool)  # robots that the next command does not reach
        self.rate_loops = rate_loops
        self.dropout = torch.zeros(w)  # share of messages between robots that are lost
        self.bias = torch.zeros(w, n, 12 + 2 * j)  # rad, m, ...: as Noise.per_column
        objects, most_delay = len(physics.scene.objects), (periods - 2) * decimation
        self.cameras = Cameras(w, n, objects, decimation * self.dt, most_delay)
        home = self.robot.home
        self._home, self.rest = torch.tensor(home), torch.tensor(rest_command(self.robot, home))
        self.sent = self.rest.expand(w, n, u).clone()
        self.received = torch.zeros(w, n, team, 7)  # what robot i last received of j: position, velocity, age s
        self.force = torch.zeros(w, n, 3)  # N, world, on every base: wind
        self.difficulty = torch.ones(w)  # 0 to 1, of each world's present episode, from the curriculum
        self.ground = level_ground(physics.scene.model, w)  # None for a plain floor
        if self.ground is not None and n < team:
            raise ValueError("uneven ground is for robots that are all alike")
        self._self = torch.zeros(n, team)
        self._self[torch.arange(n), first + torch.arange(n)] = torch.inf  # no robot is its own peer
        self._low, self._high = torch.tensor(self.robot.command_low), torch.tensor(self.robot.command_high)
        forces = [channel.unit == "N" for channel in self.robot.channels]
        self._forces, self._forces_any = torch.tensor(forces), any(forces)
        self._substep = torch.arange(decimation).view(1, -1, 1, 1)
        self._ctrl_index = torch.as_tensor(group.ctrl_index).flatten()
        self._path = self.sent.unsqueeze(1)  # (W, n, N, U) set-points of this control step, late as they are
        self._columns = torch.as_tensor(_columns(group, physics.scene.model.nq))
        self._base_qvel = torch.as_tensor(group.base_qvel).flatten()
        self._fixed = torch.as_tensor(group.base_pose).float()
        joints = torch.tensor(self.robot.joint_of_channel)
        self._positioning = (joints >= 0).nonzero().squeeze(-1)  # channels that set a joint's position ...
        self._positioned = joints[self._positioning]  # ... and those joints
        self._error_scale = torch.tensor(error_scale(self.robot))
        self._broadcast = torch.tensor([0, 1, 2, 6, 7, 8])  # errors of position and velocity
        self._spreads: dict[tuple[Noise, int], Tensor] = {}

    @property
    def loop_state(self) -> dict[str, Tensor]:
        """What rate loops remember, by name, (W, N, ...); empty without them."""
        return {} if self.rate_loops is None else self.rate_loops.state

    @loop_state.setter
    def loop_state(self, state: dict[str, Tensor]) -> None:
        if self.rate_loops is not None:
            self.rate_loops.state = state

    @property
    def camera_state(self) -> dict[str, Tensor]:
        """How these robots see objects and what they saw last, by name, (W, N, ...)."""
        return self.cameras.state

    @camera_state.setter
    def camera_state(self, state: dict[str, Tensor]) -> None:
        self.cameras.state = state

    def place(self, worlds: Tensor, start: Start, qpos: Tensor, qvel: Tensor, act: Tensor) -> None:
        """Write a start into qpos (K, nq), qvel (K, nv) and act (K, na): at home and at rest where nothing is said.

        What was sent and received in `worlds` (K,) is forgotten: drives are whole again and hold their joints.
        """
        index = self.group
        joint_pos = self._home.expand(len(worlds), self.num_robots, -1) if start.joint_pos is None else start.joint_pos
        if not self.robot.fixed_base:
            if start.pos is None or start.quat is None:
                raise ValueError(f"a start needs the position and attitude of every {self.robot.name}")
            qpos[:, torch.as_tensor(index.base_qpos)] = torch.cat([start.pos, start.quat], dim=-1).double()
            if start.lin_vel is not None:
                qvel[:, torch.as_tensor(index.base_qvel[:, :3])] = start.lin_vel.double()
        qpos[:, torch.as_tensor(index.joint_qpos)] = joint_pos.double()
        robot, channel = (torch.as_tensor(found) for found in (index.act_index >= 0).nonzero())
        rest = self._rest_at(joint_pos)
        act[:, torch.as_tensor(index.act_index)[robot, channel]] = rest[:, robot, channel].double()
        self.strength[worlds] = 1.0
        self._mend_drives(worlds)
        self.sent[worlds] = rest
        self.received[worlds] = torch.inf
        self.force[worlds] = 0.0
        self.lost[worlds] = False
        self._forget_delays(worlds)
        self.cameras.start(worlds)
        if self.rate_loops is not None:
            self.rate_loops.start(worlds)

    def _forget_delays(self, worlds: Tensor) -> None:
        """Jitter, drop-outs and drift of `worlds` (K,) before their new start, and what was measured, are over."""
        for index, name in enumerate(DELAYS):
            getattr(self, name)[worlds] -= self.jitter[worlds, :, index]
        self.jitter[worlds] = 0
        self.measured_ago[worlds] = self.max_delay_steps
        self.said_ago[worlds] = self.max_delay_steps
        self.held_states[worlds] = 0
        self.bias[worlds] = 0.0

    def add_force(self, force: Tensor | None) -> Tensor | None:
        """`force` (W, nv) with what blows on these robots; None as long as nothing does."""
        if self.robot.fixed_base or not may_hold(self.force):
            return force
        if force is None:
            force = torch.zeros(self.physics.num_worlds, self.physics.scene.model.nv, dtype=torch.float64)
        force[:, torch.as_tensor(self.group.base_qvel[:, :3]).flatten()] = self.force.flatten(1).double()
        return force

    def thrust(self) -> Tensor:
        """Thrust (W, N) N of the drives: of the rotors now; without a rate loop what was sent last, without lag."""
        if self.rate_loops is not None:
            return torch.where(self.dead, 0.0, self.rate_loops.thrust())
        given = self._bent(self.sent.unsqueeze(1)).squeeze(1) * self.strength
        return torch.where(self._forces & ~self.dead.unsqueeze(-1), given, 0.0).sum(-1)

    def write(self, ctrl: Tensor, target: Tensor) -> None:
        """Put set-points for `target` (W, N, U) into ctrl (W, n, nu): late by the delay, as strong as drives are."""
        target = target.clamp(self._low, self._high)
        if may_hold(self.lost):
            target = torch.where(self.lost.unsqueeze(-1), self.sent, target)
        delay = self.actuator_delay[:, None, :, None]
        path = torch.where(self._substep < delay, self.sent.unsqueeze(1), target.unsqueeze(1))
        self._path, self.sent = path, target
        if self.rate_loops is not None:
            self._fixed_loop = self.rate_loops.fixed(self.strength[..., :1], self.curve)
            self._all_alive = not may_hold(self.dead)
        else:
            path = self._bent(path) * self.strength.unsqueeze(1)
            ctrl.index_copy_(2, self._ctrl_index, path.flatten(2).double())

    def add_wrench(self, force: Tensor, substep: int) -> None:
        """Add to `force` (W, nv) what rate loops make of the command in physics step `substep` of this control step."""
        if self.rate_loops is None:
            return
        rows = self.physics.now(self._columns)
        path = self._path[:, substep]
        wrench = self.rate_loops.step_fixed(path, rows[..., ANG], self._fixed_loop)
        if not self._all_alive:
            wrench = torch.where(self.dead.unsqueeze(-1), 0.0, wrench)
        both = self.rate_loops.force(wrench, up_w(rows[..., QUAT]), rows[..., LIN])
        force.index_add_(1, self._base_qvel, both.flatten(1).double())

    def _bent(self, path: Tensor) -> Tensor:
        """Forces as the thrust curve gives them, path (W, n, N, U)."""
        if self._forces_any and may_hold(self.curve != 1.0):
            share = (path / self._high).clamp(min=0.0) ** self.curve.unsqueeze(1)
            return torch.where(self._forces, self._high * share, path)
        return path

    def truth(self) -> RobotState:
        """The true state of every robot, (W, N, ...), age 0."""
        rows = self._with_base(self.physics.now(self._columns))
        return self._state(rows, rows.new_zeros(rows.shape[:2]))

    def sense(self, worlds: Tensor, noise: Noise, generator: torch.Generator) -> RobotState:
        """What the robots of `worlds` (K,) measure: late by their delay, with noise and bias."""
        delay = torch.minimum(self.sensor_delay[worlds], self.measured_ago[worlds] + self.decimation)
        self.measured_ago[worlds] = delay
        rows = self._with_base(self.physics.recall(worlds, delay, self._columns))
        error = self.bias[worlds]
        if noise:
            spread = self._spread(noise, self.num_joints)
            error = error + spread * torch.randn(error.shape, generator=generator)
        add_error(rows, error * self._error_scale)
        return self._state(rows, delay * self.dt)

    def _spread(self, noise: Noise, joints: int) -> Tensor:
        """`Noise.per_column` as a tensor, made once; not in a trace, where it would not last."""
        found = self._spreads.get((noise, joints))
        if found is None:
            found = torch.tensor(noise.per_column(joints))
            if not is_tracing():
                self._spreads[noise, joints] = found
        return found

    def broadcast(self, worlds: Tensor, noise: Noise, generator: torch.Generator) -> Tensor:
        """What the robots of `worlds` (K,) send to the team, (K, N, 7): position and velocity in the world, age s."""
        delay = torch.minimum(self.network_delay[worlds], self.said_ago[worlds] + self.decimation)
        self.said_ago[worlds] = delay
        rows = self._with_base(self.physics.recall(worlds, delay, self._columns))
        sent = torch.cat([rows[..., POS], rows[..., LIN]], dim=-1)
        if noise:
            spread = self._spread(noise, 0)[self._broadcast]
            sent = sent + spread * torch.randn(sent.shape, generator=generator)
        return torch.cat([sent, (delay * self.dt).unsqueeze(-1)], dim=-1)

    def receive(self, worlds: Tensor, messages: Tensor, generator: torch.Generator) -> Tensor:
        """What each robot knows of the team of M after its `messages` (K, M, 7): (K, N, M, 7).

        A message that is lost leaves the last one standing, a control step older.
        """
        new = messages.unsqueeze(1).expand(-1, self.num_robots, -1, -1)
        if may_hold(self.dropout):
            lost = torch.rand(*new.shape[:3], 1, generator=generator) < self.dropout[worlds].view(-1, 1, 1, 1)
            old = self.received[worlds]
            old[..., 6] += self.decimation * self.dt
            new = torch.where(lost & (old[..., 6:] < OLDEST_S), old, new)
            self.received[worlds] = new
        return new

    def nearest(self, known: Tensor, own_pos: Tensor, num_peers: int, range_m: float = torch.inf) -> Peers:
        """The nearest `num_peers` to robots at `own_pos` (K, N, 3) of what is `known` (K, N, M, 7) of a team of M.

        Those out of range are not valid.
        """
        gap = known[..., POS] - own_pos.unsqueeze(-2)
        near, order = (length(gap) + self._self).topk(num_peers, dim=-1, largest=False)
        received = known.gather(2, order.unsqueeze(-1).expand(-1, -1, -1, 7))
        return Peers(received[..., 0:3], received[..., 3:6], received[..., 6], near < range_m)

    def set_ground(self, ground: Ground, worlds: Tensor) -> None:
        """Use `ground`, which is a new one in `worlds` (K,)."""
        untraceable("terrain randomisation")
        self.ground = ground
        for some in worlds.split(AT_ONCE):
            self.physics.set_heights(some, ground.shares(some))

    def stop_drives(self, worlds: Tensor, robot: Tensor) -> None:
        """Let the drives of one `robot` (K,) in each of `worlds` (K,) give nothing more until the world restarts."""
        untraceable("motor failure")
        self.dead[worlds, robot] = True
        for index, channels in enumerate(torch.as_tensor(self.group.ctrl_index)):
            struck = worlds[robot == index]
            for field in GAINS if len(struck) else ():
                nothing = torch.zeros(len(struck), len(channels), self.physics.field(field).shape[-1])
                self.physics.set_field(field, struck, channels, nothing)

    def _mend_drives(self, worlds: Tensor) -> None:
        """Give all drives in `worlds` (K,) back their gains where some have been stopped."""
        if is_tracing():  # where none can be stopped
            return
        worlds = worlds[self.dead[worlds].any(-1)]
        if len(worlds):
            index = torch.as_tensor(self.group.ctrl_index).flatten()
            for field in GAINS:
                self.physics.set_field(
                    field, worlds, index, self.physics.field(field)[index].expand(len(worlds), -1, -1)
                )
            self.dead[worlds] = False

    def _rest_at(self, joint_pos: Tensor) -> Tensor:
        """The command (..., U) that holds robots in `joint_pos` (..., J)."""
        rest = self.rest.expand(*joint_pos.shape[:-1], -1).clone()
        rest[..., self._positioning] = joint_pos[..., self._positioned]
        return rest

    def _with_base(self, rows: Tensor) -> Tensor:
        """Rows (K, N, 13 + 2 J) of what physics gave, which knows nothing of bases that are bolted down."""
        if not self.robot.fixed_base:
            return rows
        k = len(rows)
        still = rows.new_zeros(k, self.num_robots, 6)
        return torch.cat([self._fixed.expand(k, -1, -1), still, rows], dim=-1)

    def _state(self, rows: Tensor, age: Tensor) -> RobotState:
        """Rows -> RobotState; MuJoCo gives linear velocity in the world, angular in the body."""
        quat, joints = rows[..., QUAT], rows[..., 13:]
        lin_vel = rows[..., LIN] if self.robot.fixed_base else rotate_inverse(quat, rows[..., LIN])
        pos, vel = joints[..., : self.num_joints], joints[..., self.num_joints :]
        return RobotState(pos, vel, rows[..., POS], quat, lin_vel, rows[..., ANG], age)


def _columns(group: GroupIndex, nq: int) -> np.ndarray:
    """(N, C) columns of [qpos, qvel] that make a row, the base left out where it is fixed."""
    parts = [group.base_qpos, nq + group.base_qvel, group.joint_qpos, nq + group.joint_qvel]
    return np.concatenate(parts, axis=1).astype(np.int64)
