"""Three short trainings come to what they came to before: bit for bit on the same machine, roughly on any other."""

import json
from pathlib import Path

import pytest
from golden import FILE, TASKS, golden, machine

KEPT = json.loads(FILE.read_text())
FILES = {"hover": ["hover"], "swarm-swap": ["swarm-swap"], "perch": ["perch-arm", "perch-drone"]}  # one for each group


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_short_training_comes_to_what_it_came_to(task: str, tmp_path: Path) -> None:
    found, kept = golden(task, tmp_path), KEPT[task]
    assert sorted(path.stem for path in tmp_path.glob("*.onnx")) == FILES[task]
    if machine() == KEPT["machine"]:
        assert found == kept, "numbers moved: if they were meant to, `python tests/golden.py --write`, and say why"
    for name in ("probes", "shielded", "mean_return"):
        assert found["rounded"][name] == pytest.approx(kept["rounded"][name], rel=0.2, abs=0.1), name
