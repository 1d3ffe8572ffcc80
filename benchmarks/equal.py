"""Whether two trainings came to the same, to the last bit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from policies.checkpoint import load_checkpoint
from policies.training.progress import read_progress

TIMED = ("wall_s", "steps_per_s")  # columns of a run's log


def same_training(one: Path, other: Path) -> bool:
    """Whether two runs have the same curve, and the same policies, critics and optimisers."""
    ends = [load_checkpoint(run) for run in (one, other)]
    parts = [{name: end[name] for name in ("policies", "algorithm")} for end in ends]
    return curve(one) == curve(other) and same(*parts)


def curve(run: Path) -> list[dict[str, Any]]:
    """What a run logged, but for times."""
    rows = read_progress(run)
    return [{name: v for name, v in row.items() if name not in TIMED and "time/" not in name} for row in rows]


def same(one: Any, other: Any) -> bool:
    """Whether two nested structures hold the same numbers, bit for bit."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
