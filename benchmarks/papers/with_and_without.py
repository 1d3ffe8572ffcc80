"""What an option of training changes at equal samples: success, return, and how hard actuators are driven.

`python -m benchmarks.papers.with_and_without hover network.symmetric`; a run that is done is not done again.
"""

import json
from itertools import product
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

import tyro

from deploy.runtime import PolicyRuntime
from hardware import load_robot
from phalanx.console import out
from phalanx.progress import make_progress
from policies.evaluation.actuation import ActuatorWatch
from policies.evaluation.evaluate import evaluate
from policies.evaluation.trained import load_controllers
from policies.export.export import export_policy
from policies.training.config import CollectionCfg, MachineCfg, TrainCfg
from policies.training.train import train
from sim.tasks import load_task

STARTS = 256  # held-out, without the shield


def run(cfg: TrainCfg, looks: int, actuators: bool) -> dict[str, Any]:
    """One training: agent steps, success and return at each look; with `actuators` how they are driven at its end."""
    curve = []
    for look in range(1, looks + 1):
        steps = cfg.total_steps * look // looks
        path = train(TrainCfg(**{**vars(cfg), "total_steps": steps, "resume": look > 1})).path
        flown = evaluate(load_controllers(path, cfg.task), cfg.task, STARTS)
        curve.append([steps, flown.success_rate, flown.mean_return])
    if not actuators:
        return {"curve": curve}
    watch = ActuatorWatch(PolicyRuntime.load(export_policy(path, cfg.out / "last.onnx", cfg.task)))
    evaluate({cfg.task.group_name: watch}, cfg.task, STARTS)
    return {"curve": curve, **driven(watch.figures(), cfg.task.group.robot)}


def driven(figures: dict[str, Any], robot: str) -> dict[str, float]:
    """RMS over the channels that move: change in ranges/s and jerk in ranges/s^3 of what is commanded; effort as a
    share of its limit; and the share of time at an end of the range, of the worst channel."""
    rows = [(figures["channels"][channel.name], channel.high - channel.low) for channel in load_robot(robot).channels]
    rows = [(row, size) for row, size in rows if row["change_rms_per_s"]]
    found = {
        name: sqrt(mean((row[key] / size) ** 2 for row, size in rows))
        for name, key in (("change", "change_rms_per_s"), ("jerk", "jerk_rms_per_s3"))
    }
    found["at_limit"] = max(row["at_limit"] for row, _ in rows)
    if figures["effort_share"]:
        found["effort"] = sqrt(mean(share**2 for share in figures["effort_share"].values()))
    return found


def main(
    task: tyro.conf.Positional[str],
    option: tyro.conf.Positional[str],
    values: tuple[str, ...] = ("false", "true"),
    seeds: tuple[int, ...] = (0, 1, 2),
    algo: str = "ppo",
    steps: int = 600_000,
    looks: int = 4,
    worlds: int = 256,
    actuators: bool = True,
    start_from: Path | None = None,
    folder: Path = Path("runs/with-and-without"),
) -> None:
    """Train a task with each value of an option, then print one JSON object a value: means.

    Args:
        task: Name of the task.
        option: Of the algorithm or the network, such as ppo.temporal_smoothness or network.symmetric.
        values: Of the option, as JSON.
        seeds: One run of each value from each.
        algo: Algorithm.
        steps: Agent steps of a training.
        looks: Evaluations on the way.
        worlds: In parallel.
        actuators: Export each policy and fly the file, to see how hard it drives actuators; not of unlike robots.
        start_from: Run, or checkpoint, to begin with: what the option changes of a policy that can do the task.
        folder: Where runs are kept.
    """
    part, _, field = option.partition(".")
    done: dict[str, list[dict[str, Any]]] = {value: [] for value in values}
    with make_progress() as progress:
        bar = progress.add_task("trainings", total=len(seeds) * len(values))
        for seed, value in product(seeds, values):
            at = folder / f"{task}-{algo}-{option}-{value}-{steps}-{seed}"
            if not (at / "result.json").exists():
                given: Any = {"network" if part == "network" else "algorithm": {field: json.loads(value)}}
                cfg = TrainCfg(
                    load_task(task), out=at, algo=algo, seed=seed, total_steps=steps,
                    collection=CollectionCfg(worlds), machine=MachineCfg(threads=1), start_from=start_from, **given,
                )  # fmt: skip
                (at / "result.json").write_text(json.dumps(run(cfg, looks, actuators)))
            done[value].append(json.loads((at / "result.json").read_text()))
            progress.advance(bar)
    for value, runs in done.items():
        curves = zip(*(result.pop("curve") for result in runs), strict=True)
        curve = [[mean(column) for column in zip(*rows, strict=True)] for rows in curves]
        found = {name: mean(result[name] for result in runs) for name in runs[0]}
        out.print(json.dumps({option: json.loads(value), "curve": curve, **found}), soft_wrap=True)


if __name__ == "__main__":
    tyro.cli(main)
