"""Advantages normalised for each robot (Dr. MAS) and each term of the reward (GDPO): where one scale for all fails."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_run import train_cfg
from test_happo import QUICK

from policies.algorithms.algorithm import Clock, Experience, Group
from policies.algorithms.happo import HAPPOCfg
from policies.algorithms.ppo import PPO, PPOCfg
from policies.algorithms.ppo_update import Samples, _standardise, loss
from policies.networks.critic import Critic
from policies.networks.normaliser import Features, ObsDims
from policies.networks.policy import GaussianPolicy, log_prob
from policies.networks.trunk import NetworkCfg
from policies.shards import ALONE
from policies.threads import Workers
from policies.training.trainer import Trainer
from sim.envs.observation import Observation

ROWS, SMALL, LARGE = 4000, (0.0, 1.0), (50.0, 20.0)  # mean and deviation of what robots, or terms, earn


def nothing_but_ones(*shape: int) -> Features:
    """What robots see that see nothing but a 1."""
    return Features(torch.ones(*shape, 1), torch.zeros(0, *shape, 0), torch.zeros(0, *shape), torch.zeros(*shape, 0))


def of_two_robots(policy: GaussianPolicy) -> Samples:
    """What two robots did; what they earn is their action, the one about 0 +- 1, the other about 50 +- 20."""
    features = nothing_but_ones(ROWS, 2)
    noise = torch.randn(ROWS, 2, 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mean = policy.mean(features)
        action = mean + noise * policy.log_std.exp()
        density = log_prob(action, mean, policy.log_std)
    earned = torch.tensor([SMALL[0], LARGE[0]]) + noise[..., 0] * torch.tensor([SMALL[1], LARGE[1]])
    return Samples(features, {}, action, density, torch.zeros(ROWS, 2), earned, earned.clone())


@pytest.mark.parametrize(("per", "balanced"), [("group", False), ("robot", True)])
def test_robots_of_unlike_rewards_pull_alike_where_each_has_its_own_scale(per: str, balanced: bool):
    torch.manual_seed(0)
    policy, critic = GaussianPolicy(ObsDims(1, 0), 1), Critic(ObsDims(1, 0))
    cfg = PPOCfg(normalise_per=per, value_coef=0.0)
    samples = _standardise(of_two_robots(policy), critic, cfg, ALONE)
    norms = []
    for robot in range(2):
        weight = torch.zeros(ROWS, 2)
        weight[:, robot] = 2.0
        total, _ = loss(policy, critic, replace(samples, weight=weight), cfg)
        norms.append(float(torch.autograd.grad(total, [policy.head.bias])[0].norm()))
    assert (norms[1] / norms[0] < 1.2) == balanced
    if not balanced:
        assert norms[1] / norms[0] > 10


def test_a_robot_that_was_dead_all_the_time_has_no_advantage():
    torch.manual_seed(0)
    weight = torch.ones(ROWS, 2)
    weight[:, 1] = 0.0
    samples = replace(of_two_robots(GaussianPolicy(ObsDims(1, 0), 1)), weight=2 * weight)
    found = _standardise(samples, Critic(ObsDims(1, 0)), PPOCfg(normalise_per="robot"), ALONE).advantage
    assert found[:, 0].std() == pytest.approx(1, abs=1e-3) and not found[:, 1].any()


def one_thing() -> Observation:
    """What a robot sees that sees nothing but a 1, in 256 worlds."""
    return Observation.alone(torch.ones(256, 1, 1))


def learned(apart: bool, updates: int = 30) -> list[float]:
    """Mean action after episodes of one step: two things to choose, each with its term about its own optimum of 0.5."""
    cfg = PPOCfg(num_steps=1, normalise_terms=apart, minibatch=256, schedule="constant", learning_rate=3e-3)
    torch.manual_seed(0)
    group = Group(one_thing(), [True, True], NetworkCfg(hidden=16), cfg, ("small", "large", "never"))
    algorithm = PPO({"robot": group}, torch.Generator().manual_seed(0), Workers(1))
    policy, generator = algorithm.policies["robot"], torch.Generator().manual_seed(1)
    yes = torch.ones(256, 1, dtype=torch.bool)
    for _ in range(updates):
        with torch.no_grad():
            action, _, extras = policy.sample(one_thing(), {}, generator)
        miss, noise = -4 * (action - 0.5).square(), torch.randn(256, 1, generator=generator)
        terms = {"large": LARGE[0] + LARGE[1] * (miss[..., 1] + noise), "small": 0.1 * miss[..., 0], "never": 0 * noise}
        earned = torch.stack(list(terms.values())).sum(0)
        step = Experience(one_thing(), {}, action, extras, earned, yes, ~yes, yes, one_thing(), terms)
        algorithm.record(0, {"robot": step})
        algorithm.update({"robot": one_thing()}, Clock(0.0, 0))
    return policy.best(one_thing(), {})[0][0, 0].tolist()


def test_a_small_term_is_learned_beside_a_large_one_where_each_is_normalised():
    (small, large), (small_alone, large_alone) = learned(False), learned(True)
    assert large == pytest.approx(0.5, abs=0.15) == large_alone
    assert small_alone == pytest.approx(0.5, abs=0.15) and abs(small - 0.5) > 0.25


def test_rewards_of_one_sum_are_told_apart():
    """Of two goals that are reached now and then, the rarer one is worth more; their sum does not show which it was."""
    both = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])[:, None]  # (5, 1, 2)
    layout, nothing = ObsDims(1, 0), torch.zeros(5, 1)
    features = nothing_but_ones(5, 1)
    torch.manual_seed(0)
    for outputs, values in ((1, both.sum(-1)), (2, both)):
        samples = Samples(features, {}, nothing[..., None], nothing, torch.zeros_like(values), values, values.clone())
        critic = Critic(layout, outputs=outputs)
        advantage = _standardise(samples, critic, PPOCfg(normalise_terms=outputs > 1), ALONE).advantage[:, 0]
        assert (float(advantage[0]) > float(advantage[1]) + 0.3) == (outputs > 1)


@pytest.mark.parametrize("algo", ["ppo", "impala"])
def test_a_run_with_terms_apart_has_a_value_for_each(tmp_path: Path, algo: str):
    how = dict(normalise_terms=True, normalise_per="robot", **QUICK)
    cfg = train_cfg(task="hover", out=tmp_path, algo=algo, num_envs=4, **how)
    trainer = Trainer(cfg)
    for _ in range(3):
        numbers = trainer.iterate(0.0)
    trainer.close()
    terms = trainer.collector.env.task.group.rewards
    (critic,) = trainer.algorithm.critics.values()
    assert critic.head.out_features == len(critic.returns.mean) == len(terms) > 1
    assert numbers["loss/value"] > 0


def test_advantages_are_not_both_normalised_by_terms_and_not_at_all():
    with pytest.raises(ValueError, match=r"ppo.normalise_advantage = False: ppo.normalise_terms = True normalises"):
        PPOCfg(normalise_terms=True, normalise_advantage=False)


def test_what_a_team_earns_together_has_no_terms():
    with pytest.raises(ValueError, match=r"happo.normalise_terms = True: robots earn what the team earns"):
        HAPPOCfg(normalise_terms=True)
