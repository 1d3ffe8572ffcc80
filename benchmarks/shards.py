"""One training of four shards in 1, 2 and 4 processes of torchrun: whether they come to the same, and how soon."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.equal import curve, same_training
from benchmarks.turns import Progress, kept
from phalanx.options import OutFolder
from policies.training.progress import read_progress

PROCESSES, SHARDS, STEPS = (1, 2, 4), 4, 40_000
TRAINING = ["hover", "--shards", str(SHARDS), "--steps", str(STEPS), "--num-envs", "256", "--threads", "1"]


def bench_shards(out_dir: OutFolder = None, repeats: int = 5, *, on_progress: Progress) -> dict[str, Any]:
    """One training in 1, 2 and 4 processes: its speed, and whether it is that of one process.

    Args:
        out_dir: Folder that keeps the trainings; what it holds is not trained again.
        repeats: Seeds.
    """
    rows: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as scratch:
        for seed in range(repeats):
            runs = {count: (out_dir or Path(scratch)) / f"seed-{seed}-processes-{count}" for count in PROCESSES}
            for count, run in runs.items():
                found = kept(run.with_suffix(".json"), lambda c=count, r=run, s=seed: _train(c, r, s))  # type: ignore[misc]
                found["equals_one_process"] = same_training(runs[1], run)
                rows[f"seed {seed}, {count} processes"] = found
                on_progress(repeats * len(PROCESSES))
    return {"shards": SHARDS, "processes": rows}


def _train(processes: int, run: Path, seed: int) -> dict[str, Any]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] * (processes > 1)
    args = ["-m", "phalanx", "train", *TRAINING, "--seed", str(seed), "--no-onnx", "--no-film", "--out", str(run)]
    done = subprocess.run([sys.executable, *launch, *args], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{processes} processes: {done.stderr.strip().splitlines()[-1]}")
    last = read_progress(run)[-1]
    return {"training_s": last["wall_s"], "agent_steps": last["agent_steps"], "iterations": len(curve(run))}
