"""The same environment on one physics engine after the other: rates, what share of them is physics, and cold starts."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.turns import Clock, Cost, measure, median_ratio, median_wall, random_actions
from policies.threads import single_threaded_torch
from sim.envs.team_env import TeamEnv
from sim.physics import EngineError, check_engine
from sim.physics.engine_errors import engine_errors
from sim.tasks import load_task

SPAN_S = 0.4  # a measurement lasts at least this long
WARM_UP = 8  # control steps: until episodes have ended and begun
FIRST = "mujoco"  # what others are compared with, where it is measured


@single_threaded_torch()
def bench_engines(
    tasks: Sequence[str],
    engines: Sequence[str],
    batches: Sequence[int],
    repeats: int,
    on_progress: Callable[[], None],
    device: str | None = None,
    training: bool = False,
) -> dict[str, Any]:
    """Figures of every task on every engine in every batch; progress once a task and batch.

    Engines take turns. One that cannot run a task has a row with its reason instead of figures.
    """
    rows = []
    for task in tasks:
        load_task(task)  # a wrong name is refused before anything is measured
    for engine in engines:
        check_engine(engine)
    for task in tasks:
        for num_envs in batches:
            rows += _compared(task, engines, num_envs, repeats, device, training)
            on_progress()
    return {"rows": rows}


def _compared(
    task: str, engines: Sequence[str], num_envs: int, repeats: int, device: str | None, training: bool
) -> list[dict[str, Any]]:
    failed: dict[str, str] = {}

    def each(engines: Iterable[str], do: Callable[[str], Any]) -> dict[str, Any]:
        done = {}
        for engine in [name for name in engines if name not in failed]:
            try:
                with engine_errors(engine, num_envs, device):
                    done[engine] = do(engine)
            except (EngineError, ModuleNotFoundError) as error:
                failed[engine] = str(error)
        return done

    runs = each(engines, lambda engine: Run(task, engine, num_envs, device))
    for _ in range(repeats):
        each(runs, lambda engine: runs[engine].take_turn())
    learned = each(runs if training else (), lambda engine: {"training": _training(runs[engine])})
    whole = {engine: run for engine, run in runs.items() if engine not in failed}
    first = whole.get(FIRST)
    rows = [_figures(run, first) | learned.get(engine, {}) for engine, run in whole.items()]
    return rows + [{"task": task, "engine": e, "num_envs": num_envs, "error": why} for e, why in failed.items()]


class Run:
    """W worlds of a task on one engine under random actions."""

    def __init__(self, task: str, engine: str, num_envs: int, device: str | None) -> None:
        self.task, self.engine, self.num_envs = task, engine, num_envs
        began = time.perf_counter()
        self.env = TeamEnv(load_task(task), num_envs, 0, engine=engine, device=device)
        self.env.stagger()
        self.make_s = time.perf_counter() - began
        self._actions = random_actions(self.env)
        began = time.perf_counter()
        self.step(0)
        self.first_step_s = time.perf_counter() - began
        for k in range(1, WARM_UP):
            self.step(k)
        self.turns: list[Cost] = []
        self.physics: list[Cost] = []
        self._clock = Clock(self._physics_step(self.env.world.physics.step))

    def step(self, k: int) -> None:
        """One control step; done when it returns."""
        self.env.step(self._actions[k % len(self._actions)])
        self._wait()

    def take_turn(self) -> None:
        """Measure once, the whole and physics in it."""
        physics = self.env.world.physics
        physics.step = self._clock  # type: ignore[method-assign]
        self.turns.append(measure(self.step, SPAN_S, least=2))
        self.physics.append(self._clock.read())
        del physics.step

    def _physics_step(self, step: Callable[..., None]) -> Callable[..., None]:
        def stepped(ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
            self._wait()  # what was asked for before is not physics
            step(ctrl, force)
            self._wait()

        return stepped

    def _wait(self) -> None:
        """Until the engine has done all that it was asked for: an accelerator only takes notes at first."""
        float(self.env.world.physics.now(torch.zeros(1, dtype=torch.long, device=self.env.device)).sum())


def _figures(run: Run, first: Run | None) -> dict[str, Any]:
    """Rates count physics steps of whole worlds, and control steps of single robots."""
    world, count = run.env.world, run.num_envs
    robots = sum(group.num_agents for group in run.env.groups.values())
    row = {
        "task": run.task,
        "engine": run.engine,
        "device": run.env.device.type,
        "num_envs": count,
        "make_env_s": run.make_s,
        "first_step_s": run.first_step_s,
        "physics_steps_per_s": world.decimation * count / median_wall(run.physics),
        "env_physics_steps_per_s": world.decimation * count / median_wall(run.turns),
        "agent_steps_per_s": robots * count / median_wall(run.turns),
        "physics_share": median_ratio(run.physics, run.turns),
    }
    if first is not None:
        row["of_mujoco"] = median_ratio(first.turns, run.turns)
    return row


def _training(run: Run) -> dict[str, float]:
    """Agent steps/s with learning, and what share of the time is physics, terms, inference and learning.

    Where rollouts are one program, that is not divided, and `of_stepped` is what the same rollout takes step by step,
    as a multiple.
    """
    from policies.training.train import CollectionCfg, MachineCfg, TrainCfg, Trainer

    with TemporaryDirectory() as folder:
        cfg = TrainCfg(
            task=run.task,
            out=Path(folder),
            collection=CollectionCfg(run.num_envs),
            machine=MachineCfg(run.engine, run.env.device.type),
        )
        trainer = Trainer(cfg)
        numbers = _iteration(trainer)
        stepped: dict[str, float] = {}
        programs = trainer.collector.programs
        if programs.get(trainer.algorithm.horizon) is not None:
            programs[trainer.algorithm.horizon] = None
            stepped["of_stepped"] = _iteration(trainer)["time/rollout_s"] / numbers["time/rollout_s"]
    wall_s = numbers["time/rollout_s"] + numbers["time/update_s"]
    rate = {"agent_steps_per_s": trainer.steps_per_iteration / wall_s}
    learning = {"learning": numbers["time/update_s"] / wall_s}
    if stepped:
        return {**rate, "rollout": numbers["time/rollout_s"] / wall_s, **learning, **stepped}
    physics_s, env_s = (trainer.algorithm.horizon * median_wall(costs) for costs in (run.physics, run.turns))
    return {
        **rate,
        "physics": physics_s / wall_s,
        "terms": (env_s - physics_s) / wall_s,
        "inference": max(0.0, numbers["time/rollout_s"] - env_s) / wall_s,
        **learning,
    }


def _iteration(trainer: Any) -> dict[str, float]:
    """Numbers of the second iteration, after whatever the first one compiles."""
    trainer.iterate(0.0)
    return trainer.iterate(0.0)
