"""The whole environment against `mujoco.rollout` alone: rates, ratios, memory and cold start."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.footprint import footprint, per_world
from benchmarks.subject import Subject, Worlds
from benchmarks.turns import Cost, Progress, measure, median_ratio, median_wall
from policies.threads import single_threaded_torch
from sim.tasks import load_task

SPAN_S = 0.4  # a measurement lasts at least this long


@single_threaded_torch()
def bench_sim(
    tasks: tuple[str, ...] = ("hover", "swarm-swap", "reach", "velocity"),
    batches: tuple[int, ...] = (256, 1024, 4096),
    training: bool = False,
    repeats: int = 5,
    *,
    on_progress: Progress,
) -> dict[str, Any]:
    """Figures of every task at every batch size, the best batch apart, beside MuJoCo alone.

    Raw physics runs the same model from the same states under the same controls, resets included, in batches of the
    same size. Its worlds share one model; the environment's share only what no randomisation has changed.

    `ratio_to_raw` is of rates by the clock on the wall. `ratio_of_cpu_time` counts the CPU seconds that raw physics and
    the environment spend on the same steps, which says how much work the environment adds; `physics_to_raw` those of
    raw physics and of the physics in it. `ratio_if_alone` is what these CPU seconds give on a machine with nothing else
    to do: physics on all cores, the rest on one.

    Args:
        tasks: See `phalanx tasks`.
        batches: Worlds in parallel; each size is measured.
        training: Measure rollout and learning too.
        repeats: Measurements, in turns; the median counts.
    """
    for task in tasks:
        load_task(task)  # a wrong name is refused before anything is measured
    advance = partial(on_progress, repeats * len(tasks))
    return {"tasks": {task: _bench_task(task, batches, repeats, advance, training) for task in tasks}}


def _bench_task(
    task: str, batches: Sequence[int], repeats: int, advance: Callable[[], None], training: bool
) -> dict[str, Any]:
    footprints = [footprint(task, num_envs) for num_envs in batches]
    subjects = [Subject(task, num_envs) for num_envs in batches]
    for _ in range(repeats):
        for subject in subjects:
            subject.take_turn(SPAN_S)
        advance()
    rows = [figures(subject) for subject in subjects]
    for row, memory in zip(rows, footprints, strict=True):
        row["peak_rss_bytes"] = memory["peak_rss_bytes"]
    result = {
        "robots_per_world": subjects[0].num_robots,
        "physics": settings(subjects[0]),
        "batches": rows,
        "best_batch": max(rows, key=lambda row: row["env_physics_steps_per_s"])["num_envs"],
        "bytes_per_world": per_world(footprints),
        "cold_start": {name: footprints[0][name] for name in ("import_s", "make_env_s", "first_step_s")},
    }
    return result | ({"training": _training(task, repeats)} if training else {})


def figures(subject: Subject) -> dict[str, Any]:
    """What was measured of `subject`, see `bench_sim`; rates count physics steps of whole worlds."""
    steps = subject.world.decimation * subject.num_envs
    all_turns = subject.raw_turns, subject.turns, subject.physics_turns
    alone = [
        raw.cpu_s / (physics.cpu_s + subject.threads * (env.cpu_s - physics.cpu_s))
        for raw, env, physics in zip(*all_turns, strict=True)
    ]
    return {
        "num_envs": subject.num_envs,
        "raw_physics_steps_per_s": steps / median_wall(subject.raw_turns),
        "env_physics_steps_per_s": steps / median_wall(subject.turns),
        "agent_steps_per_s": subject.num_envs * subject.num_robots / median_wall(subject.turns),
        "ratio_to_raw": median_ratio(subject.raw_turns, subject.turns),
        "ratio_of_cpu_time": median_ratio(subject.raw_turns, subject.turns, "cpu_s"),
        "ratio_if_alone": sorted(alone)[len(alone) // 2],
        "physics_to_raw": median_ratio(subject.raw_turns, subject.physics_turns, "cpu_s"),
        "contacts_per_world": subject.contacts(),
    }


def settings(subject: Subject) -> dict[str, Any]:
    """What decides the cost of a physics step."""
    model = subject.world.scene.model
    return model_settings(model, subject.world.decimation, subject.env.control_dt, model.opt.timestep)


def model_settings(model: Any, decimation: int, control_dt: float, timestep: float) -> dict[str, Any]:
    """The same of a MuJoCo model that is stepped `decimation` times in `control_dt` s."""
    return {
        "physics_steps_per_control_step": decimation,
        "control_hz": 1.0 / control_dt,
        "timestep": timestep,
        **{name: int(getattr(model, name)) for name in ("nv", "nu", "nbody", "ngeom", "neq", "ntendon")},
        **{name: getattr(model.opt, name) for name in ("iterations", "ls_iterations", "tolerance")},
    }


def _training(task: str, repeats: int) -> dict[str, Any]:
    """Rollout and learning, in the task's own batch, in turns with the environment alone.

    Without the shield, as the environment is measured; `of_environment` is of CPU time, `of_environment_wall` not.
    """
    from policies.training.config import MachineCfg
    from policies.training.train import CollectionCfg, TrainCfg, Trainer

    num_envs = load_task(task).num_envs
    alone, learning = Worlds(task, num_envs), []
    with TemporaryDirectory() as folder:
        collected = CollectionCfg(num_envs, shield=False)
        trainer = Trainer(TrainCfg(task=task, collection=collected, machine=MachineCfg(threads=1), out=Path(folder)))
        first = measure(lambda k: trainer.iterate(0.0), 0.0)
        for _ in range(repeats):
            alone.take_turn(SPAN_S)
            learning.append(measure(lambda k: trainer.iterate(0.0), SPAN_S))
    per_step = num_envs * alone.num_robots / trainer.steps_per_iteration  # an iteration is many of its steps
    steps = [Cost(cost.wall_s * per_step, cost.cpu_s * per_step) for cost in learning]
    return {
        "num_envs": num_envs,
        "agent_steps_per_s": trainer.steps_per_iteration / median_wall(learning),
        "first_iteration_s": first.wall_s,
        "of_environment": median_ratio(alone.turns, steps, "cpu_s"),
        "of_environment_wall": median_ratio(alone.turns, steps),
    }
