"""HAPPO: beside a reference that goes through the samples one by one, and PPO where there is one group."""

from dataclasses import replace
from math import exp
from pathlib import Path

import pytest
import torch
from point_team import PointPair, PointTeam
from small_run import train_cfg
from torch.distributions import Normal

from policies.algorithms.ppo_update import loss
from policies.training.train import train
from policies.training.trainer import Trainer

QUICK = dict(num_steps=8, minibatch=64, hidden=16, peer_embed=8, epochs=2, schedule="constant", learning_rate=1e-2)


def of_one(policy, samples, row: int, robot: int) -> float:
    """Log-probability of what a robot did, of its policy as it is now."""
    features = samples.features.rows(torch.tensor([row]))
    mean = policy.mean(features)[0, robot]
    return float(Normal(mean, policy.log_std.exp()).log_prob(samples.action[row, robot]).sum())


def test_a_group_that_moves_later_counts_how_far_the_others_have_moved(tmp_path: Path, monkeypatch):
    trainer = Trainer(train_cfg(task="p", out=tmp_path, algo="happo", **QUICK), PointPair(8))
    algorithm, seen = trainer.algorithm, []
    once = algorithm.improve_group

    def watched(name, samples, fraction):
        seen.append((name, replace(samples), None if samples.factor is None else samples.factor.clone()))
        return once(name, samples, fraction)

    monkeypatch.setattr(algorithm, "improve_group", watched)
    orders = set()
    for _ in range(6):
        seen.clear()
        trainer.iterate(0.0)
        (first, samples, nothing), (second, later, factor) = seen
        orders.add(first)
        assert nothing is None and {first, second} == {"walker", "cart"}
        rows, robots = samples.log_prob.shape
        with torch.no_grad():
            for row in range(0, rows, 7):
                ratio = 1.0
                for robot in range(robots):
                    now = of_one(algorithm.policies[first], samples, row, robot)
                    ratio *= exp(now - float(samples.log_prob[row, robot]))
                assert float(factor[row, 0]) == pytest.approx(ratio, rel=1e-3)
        assert float((factor - 1).abs().max()) > 1e-3, "the first has moved"
    trainer.close()
    assert orders == {"walker", "cart"}, "the order is drawn"
    rewards = [rollout.reward for rollout in algorithm.rollouts.values()]
    assert torch.allclose(rewards[0], rewards[1][..., :1]) and torch.equal(rewards[1][..., 0], rewards[1][..., 1])
    _objective_counts_the_factor(algorithm, second, later, factor)


def _objective_counts_the_factor(algorithm, name, samples, factor):
    policy, critic, cfg = algorithm.policies[name], algorithm.critics[name], algorithm.groups[name].cfg
    samples = replace(
        samples, log_prob=samples.log_prob - 0.3, factor=factor, weight=None
    )  # ratios on both sides of the clip
    with torch.no_grad():
        found = float(loss(policy, critic, samples, cfg)[1]["loss/policy"])
        total = 0.0
        rows, robots = samples.log_prob.shape
        for row in range(rows):
            for robot in range(robots):
                ratio = exp(of_one(policy, samples, row, robot) - float(samples.log_prob[row, robot]))
                gain, clipped = float(samples.advantage[row, robot]), min(max(ratio, 1 - cfg.clip), 1 + cfg.clip)
                m = float(factor[row, 0])
                total += min(ratio * m * gain, clipped * m * gain)  # eq. 11
    assert found == pytest.approx(-total / (rows * robots), rel=1e-3)


def test_with_one_robot_it_is_ppo(tmp_path: Path):
    found = []
    for algo in ("ppo", "happo"):
        cfg = train_cfg(task="p", out=tmp_path, algo=algo, **QUICK, critic="team")
        trainer = Trainer(cfg, PointTeam(8, num_agents=1))
        generator = trainer.generators["minibatch"]
        for seed in range(3):
            trainer.collector.collect(trainer.algorithm)
            samples = trainer.algorithm.samples(trainer.algorithm.rollouts, trainer.collector.obs)
            generator.manual_seed(seed)
            if algo == "ppo":
                torch.randperm(1, generator=generator)  # the order, which HAPPO draws
            trainer.algorithm.improve(samples, 0.0)
        trainer.close()
        found.append(trainer.policy.state_dict())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.slow
def test_a_mixed_team_learns(tmp_path: Path):
    settings = dict(num_steps=20, minibatch=320, hidden=32, peer_embed=16)
    result = train(train_cfg(task="p", out=tmp_path, algo="happo", total_steps=60_000, **settings), env=PointPair(32))
    returns = [point["mean_return"] for point in result.return_curve if "mean_return" in point]
    assert sum(returns[-3:]) / 3 > returns[0] + 3
