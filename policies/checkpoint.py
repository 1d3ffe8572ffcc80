"""Checkpoints: one file with everything that the next iteration depends on, replaced atomically."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hardware.types import ObjectState, Peers, RobotState

FORMAT = "phalanx-checkpoint/1"
FILE = "checkpoint.pt"


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of another format."""


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors, numbers, strings, containers) so that a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        torch.save({"format": FORMAT, "saved_at_utc": now, "rng": global_rng_state(), **content}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Content of a checkpoint file, or of the one in a run directory. Runs no code from the file."""
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}")
    try:
        with torch.serialization.safe_globals([RobotState, Peers, ObjectState]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever torch raises on bytes that are none of its own
        raise CheckpointError(f"{path} is not a checkpoint of phalanx, or damaged") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise CheckpointError(f"{path} has format {found!r}, this version reads {FORMAT!r}")
    content.setdefault("learners", {"": dict(content)})  # before there were roles, a run was its only learner
    return content


def global_rng_state() -> dict[str, Any]:
    """State of torch's and NumPy's global generators, as tensors and numbers."""
    state: Any = np.random.get_state()
    _, keys, position, has_gauss, cached = state
    numpy_state = [torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(cached)]
    return {"torch": torch.get_rng_state(), "numpy": numpy_state}


def restore_global_rng(state: dict[str, Any]) -> None:
    """Put back what `global_rng_state` returned."""
    torch.set_rng_state(state["torch"])
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), position, has_gauss, cached))
