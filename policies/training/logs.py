"""Logs of a training run: progress.csv, TensorBoard, and Weights & Biases where that is asked for."""

import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from policies.checkpoint import CheckpointError
from policies.training.progress import Progress


class Logs:
    """Writes every number of an iteration to progress.csv and tensorboard/, against the count of agent steps."""

    def __init__(self, folder: Path, agent_steps: int, wandb_run: Mapping[str, Any] | None = None) -> None:
        """A run that goes on at `agent_steps` takes back what was written after its checkpoint.

        With `wandb_run`, the run as data, it is a run of that folder's name in Weights & Biases as well, which goes by
        its own settings (WANDB_MODE, WANDB_PROJECT).
        """
        self.wandb: Any = None
        self.progress = Progress(folder, agent_steps)
        if wandb_run is not None:
            import wandb

            name = folder.resolve().name
            self.wandb = wandb.init(dir=folder, name=name, id=_id(wandb_run), resume="allow", config=dict(wandb_run))
        # Imported here: tensorboard takes a second, which only training should pay.
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), flush_secs=30, purge_step=agent_steps + 1)

    def write(self, numbers: dict[str, float], agent_steps: int, wall_s: float) -> None:
        """One scalar a number; names with a slash form groups (reward/..., loss/...)."""
        self.progress.add({"agent_steps": agent_steps, "wall_s": wall_s, **numbers})
        named = {name if "/" in name else f"train/{name}": value for name, value in numbers.items()}
        for name, value in named.items():
            self.writer.add_scalar(name, value, agent_steps)
        if self.wandb is not None:
            self.wandb.log({**named, "agent_steps": agent_steps}, step=agent_steps)

    def __enter__(self) -> "Logs":
        # TensorBoard's thread hands what it cannot write to the next `add_scalar`: no traceback beside that
        self._excepthook = threading.excepthook
        threading.excepthook = lambda args: None if args.exc_type is OSError else self._excepthook(args)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.progress.close()
        if kind is not CheckpointError:  # of a full disk, say, which it would find full too
            self.writer.close()
        threading.excepthook = self._excepthook
        if self.wandb is not None:
            self.wandb.finish()


def check_wandb() -> None:
    """ValueError where Weights & Biases is not installed."""
    if find_spec("wandb") is None:
        raise ValueError("--wandb needs the package wandb, which is not installed: pip install 'phalanx[wandb]'")


def _id(run: Mapping[str, Any]) -> str:
    """The same for every part of a run that is resumed."""
    return f"{run['task']}-{run['seed']}-{run['started_at_utc']}".replace(":", "")
