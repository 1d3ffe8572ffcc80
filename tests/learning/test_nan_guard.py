"""A number that is not finite stops training, is named, and its state is kept."""

from pathlib import Path

import pytest
import torch
from point_team import PointTeam
from small_run import train_cfg

from policies.training.nan_guard import NanGuard, NonFiniteError
from policies.training.train import Trainer, train

PPO = dict(num_steps=10, minibatch=160, hidden=16, peer_embed=8)


class Poisoned(PointTeam):
    """Goes wrong in world 3, robot 1, at the seventh step."""

    def __init__(self, what: str) -> None:
        super().__init__(8)
        self.what, self.count = what, 0

    def step(self, action):
        step = super().step(action)
        self.count += 1
        if self.count == 7:
            terms = step.reward_terms["point"]
            bad = {"reward": terms["effort"], "obs": step.obs["point"].policy}[self.what]
            bad[3, 1] = torch.nan if self.what == "reward" else torch.inf
            step.reward["point"] = sum(terms.values())
        return step


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("reward", "reward term 'effort' is not finite in world 3, robot 1 "),
        ("obs", r"observation \(policy\) is not finite in world 3, robot 1, component 0 "),
    ],
)
def test_the_term_and_the_world_are_named_and_the_state_is_saved(tmp_path: Path, what: str, message: str):
    with pytest.raises(NonFiniteError, match=message) as error:
        train(train_cfg(task="point", out=tmp_path, **PPO), env=Poisoned(what))
    assert "\n" not in str(error.value)
    saved = torch.load(tmp_path / "nan_state.pt", weights_only=True)
    step = saved["step"]
    bad = step["reward_terms"]["point"]["effort"] if what == "reward" else step["obs"]["point"]["policy"]
    assert not torch.isfinite(bad).all()
    assert saved["env"]["pos"]["point"].shape == (8, 2, 2)


def test_an_update_that_goes_wrong_is_named(tmp_path: Path):
    trainer = Trainer(train_cfg(task="point", out=tmp_path, **PPO), PointTeam(8))
    trainer.policy.log_std.register_hook(lambda grad: grad * torch.nan)
    with pytest.raises(NonFiniteError, match="loss/policy is not finite after the update; state saved in"):
        trainer.iterate(0.0)
    trainer.close()
    assert torch.isnan(torch.load(tmp_path / "nan_state.pt", weights_only=True)["policy"]["log_std"]).all()


def test_a_parameter_is_named(tmp_path: Path):
    layer = torch.nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight[1, 0] = torch.inf
    with pytest.raises(NonFiniteError, match=r"parameter critic\.weight is not finite"):
        NanGuard(tmp_path).check_update({"kl": 0.01}, {"policy": torch.nn.Linear(2, 2), "critic": layer})


def test_nothing_is_said_of_a_sound_run(tmp_path: Path):
    assert train(train_cfg(task="point", out=tmp_path, total_steps=320, **PPO), env=PointTeam(8)).finished
    assert not (tmp_path / "nan_state.pt").exists()
