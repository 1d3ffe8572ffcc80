"""The benchmark of an option of training flies what it has trained, whichever algorithm that was."""

import pytest

from benchmarks.papers import with_and_without
from policies.training.config import CollectionCfg, TrainCfg
from sim.tasks import load_task


@pytest.mark.slow
def test_an_algorithm_exports_its_own_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(with_and_without, "STARTS", 2)
    small = {"algorithm": {"num_steps": 4, "epochs": 1}, "network": {"hidden": 8}, "collection": CollectionCfg(8)}
    found = with_and_without.run(
        TrainCfg(load_task("hover"), out=tmp_path, algo="happo", total_steps=64, **small), 1, True
    )
    assert [steps for steps, _, _ in found["curve"]] == [64] and found["change"] > 0.0
