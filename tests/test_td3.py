"""TD3 learns on the seam that PPO stands on: alone, in a mixed team, through resume, export and evaluation."""

from pathlib import Path

import pytest
import torch
from parity import measure_parity
from point_team import PointPair, PointTeam
from small_run import train_cfg
from test_resume import same

from deploy.bundle import load_bundle
from policies.algorithms.td3 import TD3Cfg
from policies.checkpoint import load_checkpoint
from policies.evaluation.evaluate import evaluate
from policies.evaluation.trained import load_controller
from policies.evaluation.verify import VerifyCfg
from policies.export.export import export_policy
from policies.training.train import train
from sim.envs.observation import Observation

QUICK = dict(algo="td3", warm_up=640, batch=128, updates=8, gamma=0.95, tau=0.05, hidden=32, peer_embed=16)


@pytest.mark.slow
def test_it_learns(tmp_path: Path):
    result = train(train_cfg(task="point", out=tmp_path, total_steps=7_000, **QUICK), env=PointTeam(32, num_agents=1))
    rates = [point["success_rate"] for point in result.return_curve if "success_rate" in point]
    assert sum(rates[:10]) / 10 < 0.2 and sum(rates[-10:]) / 10 > 0.8


@pytest.mark.slow
def test_a_mixed_team_learns_and_resumes_to_the_last_bit(tmp_path: Path):
    def go(folder: str, iterations: int, resume: bool = False):
        steps = iterations * 8 * 3 * 4
        return train(
            train_cfg(task="p", out=tmp_path / folder, total_steps=steps, resume=resume, **QUICK), env=PointPair(8)
        )

    whole, _ = go("whole", 16), go("halves", 11)
    halves = go("halves", 16, resume=True)
    one, two = (load_checkpoint(run.path) for run in (whole, halves))
    for name in ("policies", "algorithm", "env", "collector", "generators"):
        assert same(one[name], two[name]), name
    assert one["algorithm"]["cart"]["count"] == 16 * 8 * 2 * 4
    assert one["algorithm"]["cart"]["steps"] > 0


@pytest.mark.slow
def test_its_policy_leaves_as_a_file_that_does_what_it_does(tmp_path: Path):
    train(train_cfg(task="hover", out=tmp_path / "hover", num_envs=16, total_steps=16 * 4 * 30, **QUICK))
    path = export_policy(tmp_path / "hover", tmp_path / "hover.onnx")
    inputs = {tensor.name for tensor in load_bundle(path).contract.inputs}
    assert not any(name.startswith(("peers", "load", "pillar")) for name in inputs), "no more than the robot has"
    controller = load_controller(tmp_path / "hover")
    assert float(controller.policy.best(_anything(controller), {})[0].abs().max()) <= 1.0
    assert measure_parity(load_bundle(path), tmp_path / "hover", VerifyCfg(parity_worlds=2))["max_abs"] < 1e-5
    assert evaluate(path, "hover", num_worlds=4).episodes == 4


def test_bad_hyperparameters_are_said_in_one_line():
    with pytest.raises(ValueError, match=r"td3.gamma = 1.2: 0 to 1"):
        TD3Cfg(gamma=1.2)
    with pytest.raises(ValueError, match="unknown algorithm 'td4'; known: ppo, td3; did you mean 'td3'"):
        train_cfg(task="hover", algo="ppo").__class__(algo="td4")


def _anything(controller):
    dims = controller.policy.spec()["dims"]
    parts = (torch.randn(5, dims[0]), torch.randn(5, 2, dims[1]), torch.ones(5, 2), torch.randn(5, 0))
    return Observation(*parts)
