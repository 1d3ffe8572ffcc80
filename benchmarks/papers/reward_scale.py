"""DSAC-T's claim that the size of rewards does not matter: hover with rewards times 0.1, 1 and 10, beside SAC."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import tyro

from phalanx.console import make_progress, out
from policies.task_data import numbers
from policies.training.train import CollectionCfg, TrainCfg, train
from sim.tasks import load_task

LAST = 10  # iterations whose mean counts


def learned(algo: str, scale: float, seed: int, steps: int, worlds: int) -> dict[str, float]:
    """Return in units of the task, and success, at the end of a run whose rewards are `scale` times the task's."""
    weights = {path: scale * value for path, value in numbers(load_task("hover")).items() if path.endswith(".weight")}
    settings = {"warm_up": 5_000, "batch": 256, "updates": 16}
    with TemporaryDirectory() as folder:
        cfg = TrainCfg(
            task="hover", task_changes=weights, out=Path(folder) / "run", algo=algo, algorithm=settings,
            collection=CollectionCfg(worlds), total_steps=steps, seed=seed,
        )  # fmt: skip
        curve = train(cfg).return_curve[-LAST:]
    means = {name: sum(point[name] for point in curve) / len(curve) for name in ("mean_return", "success_rate")}
    return {"return": means["mean_return"] / scale, "success": means["success_rate"]}


def main(
    algos: tuple[str, ...] = ("sac", "dsact"),
    scales: tuple[float, ...] = (0.1, 1.0, 10.0),
    seeds: tuple[int, ...] = (0,),
    steps: int = 100_000,
    worlds: int = 64,
) -> None:
    """Train every algorithm at every scale from every seed, and print one JSON object a run."""
    runs = [(algo, scale, seed) for seed in seeds for algo in algos for scale in scales]
    with make_progress() as progress:
        for algo, scale, seed in progress.track(runs, description="trainings"):
            result = {"algo": algo, "scale": scale, "seed": seed, **learned(algo, scale, seed, steps, worlds)}
            out.print(json.dumps(result), soft_wrap=True)


if __name__ == "__main__":
    tyro.cli(main)
