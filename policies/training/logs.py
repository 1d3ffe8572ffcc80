"""TensorBoard logs of a training run."""

from pathlib import Path


class Logs:
    """Writes every number of an iteration under `folder`/tensorboard, against the count of agent steps."""

    def __init__(self, folder: Path, agent_steps: int) -> None:
        """A run that goes on at `agent_steps` takes back what was written after its checkpoint."""
        # Imported here: tensorboard takes a second, which only training should pay.
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), flush_secs=30, purge_step=agent_steps + 1)

    def write(self, numbers: dict[str, float], agent_steps: int) -> None:
        """One scalar a number; names with a slash form groups (reward/..., loss/...)."""
        for name, value in numbers.items():
            self.writer.add_scalar(name if "/" in name else f"train/{name}", value, agent_steps)

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()
