"""A sweep of eight trainings whose workers are killed, beside the same sweep that is left alone: nothing is lost."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.equal import same_training
from benchmarks.turns import Progress
from phalanx.sweep.points import make_runs, split_options
from phalanx.sweep.pool import RunState, Sweep, start_command
from policies.training.progress import read_progress

LINE = "--num-envs 64 --steps 32000 --threads 1 --no-onnx --no-film --checkpoint-every 4 --ppo.learning-rate 3e-4,1e-3"
SEEDS, LOOK_EVERY_S = 4, 0.05
KILLED_AFTER = (5, 9)  # iterations of each run that there are when its worker is killed


def bench_sweeps(repeats: int = 5, *, on_progress: Progress) -> dict[str, Any]:
    """A sweep whose workers are killed: how many of its trainings are to the last bit those of one left alone.

    Args:
        repeats: Sweeps.
    """
    runs = make_runs({"task": "hover"}, split_options(LINE.split(), [])[1], SEEDS, None)
    found: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as scratch:
        left_alone = _swept(Path(scratch) / "alone", runs, start_command)
        for number in range(repeats):
            folder = Path(scratch) / f"killed-{number}"
            began = time.perf_counter()
            sweep = _swept(folder, runs, partial(_start_and_kill, folder))
            equal = [same_training(left_alone.folder / name, folder / name) for name in runs]
            found[f"sweep {number}"] = {
                "runs": len(runs),
                "done": sweep.count("done"),
                "workers_killed": sum(run.restarts for run in sweep.runs.values()),
                "equal": sum(equal),
                "wall_s": time.perf_counter() - began,
            }
            on_progress(repeats)
    return {"sweeps": found}


def _swept(folder: Path, runs: dict[str, list[str]], start: Callable[[list[str], Path], Any]) -> Sweep:
    folder.mkdir(parents=True)
    sweep = Sweep(folder, {name: RunState(list(args)) for name, args in runs.items()})
    sweep.run(len(os.sched_getaffinity(0)), lambda _: None, start)
    return sweep


def _start_and_kill(folder: Path, args: Sequence[str], log: Path) -> Any:
    """A worker that is killed once it has come farther than those of its run before it."""
    process, run = start_command(args, log), folder / log.stem
    after = [count for count in KILLED_AFTER if count > len(read_progress(run))][:1]

    def watch() -> None:
        while after and process.poll() is None:
            if len(read_progress(run)) >= after[0]:
                process.kill()
                return
            time.sleep(LOOK_EVERY_S)

    threading.Thread(target=watch, daemon=True).start()
    return process
