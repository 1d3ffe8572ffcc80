"""The same environment on one physics engine after the other: rates, what share of them is physics, and cold starts."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.subject import Worlds
from benchmarks.turns import Progress, median_ratio, median_wall
from phalanx.options import Device
from policies.threads import single_threaded_torch
from sim.physics import EngineError, check_engine
from sim.physics.engine_errors import engine_errors
from sim.tasks import load_task

SPAN_S = 0.4  # a measurement lasts at least this long
FIRST = "mujoco"  # what others are compared with, where it is measured


@single_threaded_torch()
def bench_engines(
    tasks: tuple[str, ...] = ("hover", "swarm-swap", "reach", "velocity"),
    engines: tuple[str, ...] = ("mujoco", "warp", "mjx"),
    batches: tuple[int, ...] = (256, 1024, 4096),
    device: Device = None,
    training: bool = False,
    repeats: int = 5,
    *,
    on_progress: Progress,
) -> dict[str, Any]:
    """Figures of every task on every physics engine (extras `warp` and `jax`) at every batch size.

    Engines take turns. One that cannot run a task has a row with its reason instead of figures.

    Args:
        tasks: See `phalanx tasks`.
        engines: Physics engines: mujoco, warp, mjx, brax.
        batches: Worlds in parallel; each size is measured.
        device: An accelerator where there is one, when not given.
        training: Measure rollout and learning too.
        repeats: Measurements, in turns; the median counts.
    """
    rows = []
    for task in tasks:
        load_task(task)  # a wrong name is refused before anything is measured
    for engine in engines:
        check_engine(engine)
    for task in tasks:
        for num_envs in batches:
            rows += _compared(task, engines, num_envs, repeats, device, training)
            on_progress(len(tasks) * len(batches))
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

    runs = each(engines, lambda engine: Worlds(task, num_envs, None, engine, device))
    for _ in range(repeats):
        each(runs, lambda engine: runs[engine].take_turn(SPAN_S))
    learned = each(runs if training else (), lambda engine: {"training": _training(task, engine, runs[engine])})
    whole = {engine: run for engine, run in runs.items() if engine not in failed}
    first = whole.get(FIRST)
    rows = [_figures(task, engine, run, first) | learned.get(engine, {}) for engine, run in whole.items()]
    return rows + [{"task": task, "engine": e, "num_envs": num_envs, "error": why} for e, why in failed.items()]


def _figures(task: str, engine: str, run: Worlds, first: Worlds | None) -> dict[str, Any]:
    """Rates count physics steps of whole worlds, and control steps of single robots."""
    world, count = run.world, run.num_envs
    row = {
        "task": task,
        "engine": engine,
        "device": run.env.device.type,
        "num_envs": count,
        "make_env_s": run.make_s,
        "first_step_s": run.first_step_s,
        "physics_steps_per_s": world.decimation * count / median_wall(run.physics_turns),
        "env_physics_steps_per_s": world.decimation * count / median_wall(run.turns),
        "agent_steps_per_s": run.num_robots * count / median_wall(run.turns),
        "physics_share": median_ratio(run.physics_turns, run.turns),
    }
    if first is not None:
        row["of_mujoco"] = median_ratio(first.turns, run.turns)
    return row


def _training(task: str, engine: str, run: Worlds) -> dict[str, float]:
    """Agent steps/s with learning, in turns, and what share of the time is physics, terms, inference and learning.

    Where rollouts are one program, that is not divided, and `of_stepped` is what the same rollout takes step by step,
    as a multiple.
    """
    from policies.training.train import CollectionCfg, MachineCfg, TrainCfg, Trainer

    with TemporaryDirectory() as folder:
        cfg = TrainCfg(
            task=task,
            out=Path(folder),
            algorithm={"lag": 0},  # at once, each would slow the other
            collection=CollectionCfg(run.num_envs),
            machine=MachineCfg(engine, run.env.device.type),
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
    physics_s, env_s = (trainer.algorithm.horizon * median_wall(costs) for costs in (run.physics_turns, run.turns))
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
