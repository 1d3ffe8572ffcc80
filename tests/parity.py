"""Parity of one file."""

from pathlib import Path
from typing import Any

from deploy.bundle import Bundle
from policies.evaluation.evaluate import HELD_OUT_SEED, group_of
from policies.evaluation.parity import measure_team_parity


def measure_parity(bundle: Bundle, run_dir: Path | None, num_worlds: int = 8) -> dict[str, Any]:
    """What `measure_team_parity` finds of a team of this file alone."""
    group = group_of(bundle.contract)
    return measure_team_parity({group: bundle}, run_dir, HELD_OUT_SEED, num_worlds)[group]
