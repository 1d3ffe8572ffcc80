"""A policy that was trained on the nominal plant alone: no delay, no noise, nothing that varies.

`python -m benchmarks.naive reach naive.onnx 1000000`: task, policy file, agent steps. The file says that it is for the
task as it is, as that of a careless trainer would.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from policies.export.export import export_policy
from policies.training.train import TrainCfg, train
from sim.noise import Noise
from sim.tasks import load_task


def train_naive(task: str, file: Path, steps: int) -> Path:
    """Train for `steps` agent steps and write the policy file."""
    stock = load_task(task)
    with TemporaryDirectory() as folder:
        train(TrainCfg(task=stock.changed(randomisation={}, noise=Noise()), out=Path(folder), total_steps=steps))
        return export_policy(Path(folder), file, stock, accept_change=True)


if __name__ == "__main__":
    train_naive(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
