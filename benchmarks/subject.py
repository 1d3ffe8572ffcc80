"""An environment under measurement, and MuJoCo alone on the very states and controls that it goes through."""

import os
from dataclasses import dataclass, field

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout

from benchmarks.turns import Clock, Cost, measure, random_actions
from sim.envs.team_env import TeamEnv
from sim.physics.mujoco.mujoco_threads import MujocoPhysics
from sim.task import TaskCfg
from sim.tasks import load_task

MOMENTS = 8  # control steps that raw physics replays
WARM_UP = 24  # control steps: then episodes have ended and begun in some worlds
CONTROL = mujoco.mjtState.mjSTATE_CTRL
CONTROL_AND_FORCE = int(CONTROL) | int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)


@dataclass
class Turns:
    """Costs of one control step of all worlds, turn by turn."""

    raw: list[Cost] = field(default_factory=list)  # `mujoco.rollout` alone
    env: list[Cost] = field(default_factory=list)  # the whole environment under random actions
    physics: list[Cost] = field(default_factory=list)  # of that, what its physics back end takes


class Subject:
    """W worlds of a task under random actions; `take_turn` measures them and MuJoCo alone, one after the other."""

    def __init__(self, task: str | TaskCfg, num_envs: int, num_agents: int | None = None) -> None:
        cfg = load_task(task) if isinstance(task, str) else task
        self.env = TeamEnv(cfg, num_envs, 0, num_agents)
        self.env.stagger()
        self.world, self.num_envs = self.env.world, num_envs
        assert isinstance(self.world.physics, MujocoPhysics)  # what raw physics is compared with
        self.physics = self.world.physics
        self.num_robots = sum(group.num_agents for group in self.env.groups.values())
        self.turns = Turns()
        self._actions = random_actions(self.env)
        self.clock = Clock(self.physics.step)
        model = self.world.scene.model
        self.threads = len(os.sched_getaffinity(0))
        self._pool = Rollout(nthread=self.threads)
        self._data = [mujoco.MjData(model) for _ in range(self.threads)]
        self._models = [model] * num_envs  # one model for all: nothing is randomised here
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self._path = np.zeros((num_envs, self.world.decimation, size))
        self._moments: list[tuple[np.ndarray, np.ndarray, int]] = []
        for k in range(WARM_UP):
            self.step(k)

    def step(self, k: int) -> None:
        """One control step of the environment under random actions."""
        self.env.step(self._actions[k % len(self._actions)])

    def take_turn(self, span_s: float) -> None:
        """Measure raw physics and the environment once, one right after the other."""
        self._record()
        self.turns.raw.append(measure(self._raw, span_s, least=MOMENTS))
        self.physics.step = self.clock  # type: ignore[method-assign]
        self.turns.env.append(measure(self.step, span_s, least=MOMENTS))
        self.turns.physics.append(self.clock.read())
        del self.physics.step

    def contacts(self) -> float:
        """Contacts in a world at the start of a control step, on average over some worlds."""
        model, data, count = self.world.scene.model, self._data[0], 0
        states = self._moments[-1][0][:64]
        for state in states:
            mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            mujoco.mj_forward(model, data)
            count += data.ncon
        return count / len(states)

    def _record(self) -> None:
        """Keep where every world is before each of the next steps, and what drives it then: resets happen as always."""
        physics = self.physics
        go_on = physics.step
        self._moments.clear()

        def note(ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
            control, spec = ctrl.numpy().copy(), int(CONTROL)
            if force is not None:
                held = np.repeat(force.numpy()[:, None], control.shape[1], axis=1)
                control, spec = np.concatenate([control, held], axis=-1), CONTROL_AND_FORCE
            self._moments.append((physics.states(), control, spec))
            go_on(ctrl, force)

        physics.step = note  # type: ignore[method-assign]
        for k in range(MOMENTS):
            self.step(k)
        del physics.step

    def _raw(self, k: int) -> None:
        """`mujoco.rollout` for one control step, on as many threads as there are cores, without any check."""
        start, control, spec = self._moments[k % MOMENTS]
        self._pool.rollout(
            self._models,
            self._data,
            start,
            control,
            control_spec=spec,
            state=self._path,
            skip_checks=True,
            nstep=control.shape[1],
        )
