"""W worlds of one scene: physics, the robots in it, and what they see of the things around them."""

import time
from collections.abc import Sequence

import torch

from hardware import load_robot
from hardware.rotation import rotate_inverse
from hardware.types import ActuatorCommand, ObjectState
from sim.envs.downwash import add_downwash
from sim.envs.rate_loop import RateLoops, take_drag, take_over
from sim.envs.robots import ANG, LIN, POS, QUAT, RobotGroup
from sim.noise import Noise
from sim.physics import Physics, make_physics, on
from sim.scenes.scene import Members, Scene, Tracked, close_loops, compose_scene
from sim.task import Start, TaskCfg
from sim.tracing import is_tracing, untraceable

Tensor = torch.Tensor


def task_scene(task: TaskCfg, num_agents: int | None = None, visuals: bool = False) -> Scene:
    """The scene of a task; `num_agents` replaces the team size of a task for like robots."""
    if num_agents is not None and len(task.groups) > 1:
        raise ValueError(
            f"task {task.name!r} is for a mixed team, whose size is fixed; {num_agents} robots were asked for"
        )
    members, rates = [], []
    for cfg in task.groups.values():
        robot, count = load_robot(cfg.robot), cfg.num_agents if num_agents is None else num_agents
        bases = task.scene.bases(count) if task.scene.bases and robot.fixed_base else None
        members.append(Members(robot, count, bases))
        if cfg.rate_loop:
            if robot.flight is None or robot.flight.rate_loop is None:
                raise ValueError(f"task {task.name!r}: no rate loop of a {robot.name} is published")
            rates.append(robot.flight.rate_loop.rate_hz)
    timestep_s = 1.0 / max(rates) if rates else None
    return compose_scene(members, timestep_s, visuals, task.scene.props, task.scene.objects)


class World:
    """Physics, and robots with delays, noise and varied drives. True and measured states are kept apart.

    `groups` holds the robots, one group for each kind; whatever is said of one group is said in their order.
    """

    def __init__(
        self,
        scene: Scene,
        num_worlds: int,
        control_dt_s: float,
        engine: str = "mujoco",
        device: str | None = None,
        downwash: bool = False,
        rate_loops: Sequence[bool] = (),
        periods: int = 2,
    ):
        """`control_dt_s` must be a whole number of the model's time steps; see `make_physics` for the engine.

        `rate_loops` says of each group whether its firmware's rate loop flies it, step by step; it is the scene's model
        that gives up its own. The last `periods` control steps are remembered.
        """
        self.scene, self.num_worlds, self._downwash = scene, num_worlds, downwash
        self.physics_s = 0.0  # time that physics has taken; of an accelerator, to be asked for its work
        self.sim_dt, self.control_dt = float(scene.model.opt.timestep), control_dt_s
        self.decimation = round(control_dt_s / self.sim_dt)
        if abs(self.decimation * self.sim_dt - control_dt_s) > 1e-9:
            raise ValueError(f"control period {control_dt_s} s is no multiple of the time step {self.sim_dt} s")
        model, by_loop = scene.model, [i for i, looped in enumerate(rate_loops) if looped]
        own = {i: take_over(model, scene.groups[i]) for i in by_loop}
        more_drag = {i: take_drag(model, scene.groups[i]) for i in by_loop}
        self.calls = calls = self.decimation if own else 1  # of the engine in a control step: rate loops act in between
        remembered = periods * calls
        self.physics: Physics = make_physics(engine, scene, num_worlds, self.decimation // calls, device, remembered)
        sizes = [index.num_robots for index in scene.groups]
        with on(self.physics.device):
            loops = {i: RateLoops(scene.groups[i], own[i], self.sim_dt, num_worlds, more_drag[i]) for i in by_loop}
            self.groups = [
                RobotGroup(index, self.physics, self.decimation, sum(sizes[:i]), sum(sizes), loops.get(i), periods)
                for i, index in enumerate(scene.groups)
            ]
            self._ctrl = torch.zeros(num_worlds, self.decimation, scene.model.nu, dtype=torch.float64)
            self._objects = {tracked.name: _columns(tracked, scene.model.nq) for tracked in scene.objects}
            self._of_objects = torch.cat([*self._objects.values(), torch.empty(0, dtype=torch.long)])

    def reset(self, worlds: Tensor, starts: Sequence[Start]) -> None:
        """Put `worlds` (K,) at `starts`, one a group, drives holding what they hold there, with no past."""
        model, k = self.scene.model, len(worlds)
        qpos = torch.as_tensor(model.qpos0).expand(k, -1).clone()
        qvel = torch.zeros(k, model.nv, dtype=torch.float64)
        act = torch.zeros(k, model.na, dtype=torch.float64)
        for group, start in zip(self.groups, starts, strict=True):
            group.place(worlds, start, qpos, qvel, act)
        placed = {name: pose for start in starts for name, pose in start.objects.items()}
        for tracked in self.scene.objects:
            qpos[:, torch.as_tensor(tracked.qpos)] = torch.cat(placed[tracked.name], dim=-1).double()
        close_loops(self.scene.model, qpos)
        self.physics.reset(worlds, qpos, qvel, act)

    def step(self, commands: Sequence[ActuatorCommand]) -> None:
        """One control step under a command with `target` (W, N, U) for each group."""
        force, ctrl = None, self._ctrl.clone() if is_tracing() else self._ctrl  # a trace writes to nothing of before
        for group, command in zip(self.groups, commands, strict=True):
            group.write(ctrl, command.target)
            force = group.add_force(force)
        if self._downwash:
            force = add_downwash(self.groups, force)
        if self.calls == 1:
            self._advance(ctrl, force)
            return
        untraceable("a firmware's rate loop")  # its physics steps, one by one in a program, take minutes to compile
        shape = self.num_worlds, self.scene.model.nv
        given = torch.zeros(shape, dtype=torch.float64) if force is None else force
        for substep in range(self.decimation):
            force = given.clone()
            for group in self.groups:
                group.add_wrench(force, substep)
            self._advance(ctrl[:, substep : substep + 1], force)

    def _advance(self, ctrl: Tensor, force: Tensor | None) -> None:
        began = time.perf_counter()
        self.physics.step(ctrl, force)
        self.physics_s += time.perf_counter() - began

    def true_objects(self) -> dict[str, ObjectState]:
        """The true state of every tracked object, (W, 1, ...), age 0."""
        rows = {name: self.physics.now(columns).unsqueeze(1) for name, columns in self._objects.items()}
        return {name: _object(row, row.new_zeros(row.shape[:-1])) for name, row in rows.items()}

    def broadcast(self, worlds: Tensor, noises: Sequence[Noise], generator: torch.Generator) -> Tensor:
        """What all robots send each other, (K, M, 7), M the whole team's size; see `RobotGroup.broadcast`."""
        sent = [g.broadcast(worlds, noise, generator) for g, noise in zip(self.groups, noises, strict=True)]
        return sent[0] if len(sent) == 1 else torch.cat(sent, dim=1)

    def see(
        self, group: RobotGroup, worlds: Tensor, noise: Noise, generator: torch.Generator
    ) -> dict[str, ObjectState]:
        """Objects (K, N, ...) as the robots of `group` see them, as late as each robot's own state or later."""
        if not self._objects:
            return {}
        delay = group.measured_ago[worlds] + group.cameras.state["delay"][worlds]
        rows = self.physics.recall(worlds, delay, self._of_objects.expand(group.num_robots, -1))
        rows = rows.unflatten(-1, (len(self._objects), 13))
        age = (delay * self.sim_dt).view(*delay.shape, 1, 1).expand(*rows.shape[:-1], 1)
        seen = group.cameras.see(torch.cat([rows, age], dim=-1), worlds, noise, generator)
        return {
            name: _object(row[..., :13], row[..., 13]) for name, row in zip(self._objects, seen.unbind(-2), strict=True)
        }


def _columns(tracked: Tracked, nq: int) -> Tensor:
    """(13,) columns of [qpos, qvel]: pose, then velocities."""
    return torch.cat([torch.as_tensor(tracked.qpos), nq + torch.as_tensor(tracked.qvel)])


def _object(rows: Tensor, age: Tensor) -> ObjectState:
    """Rows (..., 13) -> ObjectState; MuJoCo gives linear velocity in the world, angular in the body."""
    quat = rows[..., QUAT]
    return ObjectState(rows[..., POS], quat, rotate_inverse(quat, rows[..., LIN]), rows[..., ANG], age)
