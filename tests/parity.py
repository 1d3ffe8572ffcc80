"""Parity of one file."""

from pathlib import Path
from typing import Any

from deploy.bundle import Bundle
from policies.evaluation.evaluate import group_of
from policies.evaluation.verify import VerifyCfg, measure_team_parity


def measure_parity(bundle: Bundle, run_dir: Path | None, cfg: VerifyCfg) -> dict[str, Any]:
    """What `measure_team_parity` finds of a team of this file alone."""
    group = group_of(bundle.contract)
    return measure_team_parity({group: bundle}, run_dir, cfg)[group]
