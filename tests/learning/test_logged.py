"""What a training logs is what docs/algorithms.md says that it logs."""

import re
from pathlib import Path

import pytest
from places import ROOT
from point_team import PointTeam
from small_run import train_cfg

from policies.algorithms import ALGORITHMS
from policies.training.progress import read_progress
from policies.training.train import train


def documented() -> list[str]:
    """Columns of the table, as patterns."""
    section = (ROOT / "docs" / "algorithms.md").read_text().partition("## What is logged")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [re.escape(name).replace("NAME", ".+") for cell in cells for name in re.findall("`([^`]+)`", cell)]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_column_of_progress_is_documented(tmp_path: Path, algo: str):
    on_policy = issubclass(ALGORITHMS[algo].Cfg, ALGORITHMS["ppo"].Cfg)
    learner = {"num_steps": 8, "minibatch": 64, "temporal_smoothness": 0.1, "spatial_smoothness": 0.1}
    learner = learner if on_policy else {"num_steps": 8, "batch": 32, "warm_up": 256, "replay": 4096}
    cfg = train_cfg(task="point", out=tmp_path, total_steps=6 * 256, hidden=16, peer_embed=8, algo=algo, **learner)
    train(cfg, env=PointTeam(16))
    columns = {name for row in read_progress(tmp_path) for name in row}
    assert {"agent_steps", "steps_per_s", "loss/policy", "loss/value"} <= columns
    patterns = documented()
    assert not {name for name in columns if not any(re.fullmatch(pattern, name) for pattern in patterns)}
