"""An environment under measurement, and MuJoCo alone on the very states and controls that it goes through."""

import os
import time
from collections.abc import Callable

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


class Worlds:
    """W worlds of a task on one engine under random actions, and what their steps and the physics in them cost."""

    def __init__(
        self,
        task: str | TaskCfg,
        num_envs: int,
        num_agents: int | None = None,
        engine: str = "mujoco",
        device: str | None = None,
    ) -> None:
        cfg = load_task(task) if isinstance(task, str) else task
        began = time.perf_counter()
        self.env = TeamEnv(cfg, num_envs, 0, num_agents, engine=engine, device=device)
        self.env.stagger()
        self.make_s = time.perf_counter() - began
        self.world, self.num_envs = self.env.world, num_envs
        self.num_robots = sum(group.num_agents for group in self.env.groups.values())
        self.turns: list[Cost] = []  # of one control step of all worlds, turn by turn
        self.physics_turns: list[Cost] = []  # of that, what the physics back end takes
        self._actions = random_actions(self.env)
        self._clock = Clock(self._physics_step(self.world.physics.step))
        self.first_step_s = measure(self.step, 0.0).wall_s
        for k in range(1, WARM_UP):
            self.step(k)

    def step(self, k: int) -> None:
        """One control step under random actions; done when it returns."""
        self.env.step(self._actions[k % len(self._actions)])
        self._wait()

    def take_turn(self, span_s: float, least: int = 2) -> None:
        """Measure once, the whole and the physics in it."""
        physics = self.world.physics
        physics.step = self._clock  # type: ignore[method-assign]
        self.turns.append(measure(self.step, span_s, least))
        self.physics_turns.append(self._clock.read())
        del physics.step

    def _physics_step(self, step: Callable[..., None]) -> Callable[..., None]:
        def stepped(ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
            self._wait()  # what was asked for before is not physics
            step(ctrl, force)
            self._wait()

        return step if self._waits_by_itself() else stepped

    def _waits_by_itself(self) -> bool:
        return isinstance(self.world.physics, MujocoPhysics)

    def _wait(self) -> None:
        """Until the engine has done all that it was asked for: an accelerator only takes notes at first."""
        if not self._waits_by_itself():
            float(self.world.physics.now(torch.zeros(1, dtype=torch.long, device=self.env.device)).sum())


class Subject(Worlds):
    """Worlds on native MuJoCo beside MuJoCo alone; `take_turn` measures both, one after the other."""

    def __init__(self, task: str | TaskCfg, num_envs: int, num_agents: int | None = None) -> None:
        super().__init__(task, num_envs, num_agents)
        assert isinstance(self.world.physics, MujocoPhysics)  # what raw physics is compared with
        self.physics = self.world.physics
        self.raw_turns: list[Cost] = []  # of `mujoco.rollout` alone
        model = self.world.scene.model
        self.threads = len(os.sched_getaffinity(0))
        self._pool = Rollout(nthread=self.threads)
        self._data = [mujoco.MjData(model) for _ in range(self.threads)]
        self._models = [model] * num_envs  # one model for all: nothing is randomised here
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self._path = np.zeros((num_envs, self.world.decimation // self.world.calls, size))
        self._moments: list[tuple[np.ndarray, np.ndarray, int]] = []

    def take_turn(self, span_s: float, least: int = MOMENTS) -> None:
        """Measure raw physics and the environment once, one right after the other."""
        self._record()
        self.raw_turns.append(measure(self._raw, span_s, least))
        super().take_turn(span_s, least)

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
        calls = self.world.calls
        for start, control, spec in self._moments[k % MOMENTS * calls : (k % MOMENTS + 1) * calls]:
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
