"""Learning may begin with the networks of another run whose robots see and do the same."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from policies.algorithms.ppo import PPOCfg
from policies.checkpoint import CheckpointError
from policies.training.train import TrainCfg, train
from policies.training.trainer import Trainer

PPO = PPOCfg(num_steps=8, epochs=1, minibatch=64, hidden=16, peer_embed=8)


@pytest.fixture(scope="module")
def hovered(tmp_path_factory) -> TrainCfg:
    cfg = TrainCfg(task="hover", out=tmp_path_factory.mktemp("hover"), num_envs=8, total_steps=8 * 8 * 3, ppo=PPO)
    train(cfg)
    return cfg


def test_networks_of_another_run_are_what_learning_begins_with(hovered: TrainCfg, tmp_path: Path):
    done = Trainer(hovered)
    done.load_state_dict(torch.load(hovered.out / "checkpoint.pt", weights_only=False))
    begun = Trainer(replace(hovered, out=tmp_path, seed=5, start_from=hovered.out))
    for name, value in done.learner.actor.state_dict().items():
        torch.testing.assert_close(begun.learner.actor.state_dict()[name], value, rtol=0, atol=0)
    assert begun.agent_steps == 0
    assert not begun.learner.optimiser.state_dict()["state"]  # it learns at its own pace
    begun.iterate(0.0)


def test_networks_that_do_not_fit_are_refused_in_one_line(hovered: TrainCfg, tmp_path: Path):
    with pytest.raises(
        CheckpointError, match=r"cannot start from .*: own, .* \(.*16, .*\) there and \(.*32, .*\) here"
    ):
        Trainer(replace(hovered, out=tmp_path, start_from=hovered.out, ppo=replace(PPO, hidden=32)))
    with pytest.raises(CheckpointError, match="no policy for 'drone' of task 'perch', but one for robots"):
        Trainer(replace(hovered, task="perch", out=tmp_path, start_from=hovered.out))
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        Trainer(replace(hovered, out=tmp_path, start_from=tmp_path / "nothing"))
