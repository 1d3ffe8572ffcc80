"""Why there are several critics: the least of two errs upwards less (TD3), and more of them vary less (REDQ)."""

import pytest
import torch

from policies.algorithms.algorithm import Group
from policies.algorithms.sac import SAC, SACCfg
from policies.algorithms.td3 import TD3, TD3Cfg
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

ROWS, GAMMA, UPDATES = 256, 0.9, 400


def noisy_rows(generator: torch.Generator, count: int) -> dict:
    """Rows whose rewards are noise of deviation 1 and mean 0."""
    obs, after, action = (torch.randn(count, 1, 2, generator=generator) for _ in range(3))
    reward = torch.randn(count, 1, generator=generator)
    return {
        "obs": Observation.alone(obs),
        "next": Observation.alone(after),
        "action": action.clamp(-1, 1),
        "reward": reward - reward.mean(),
        "discount": torch.full((count, 1), GAMMA),
        "acted": torch.ones(count, 1, dtype=torch.bool),
    }


def learned(kind, cfg, rows: dict, seed: int, updates: int, hidden: int = 32):
    """The algorithm after `updates` on the same rows, from networks of the seed."""
    torch.manual_seed(seed)
    group = Group(rows["obs"], [True, True], NetworkCfg(hidden=hidden), cfg)
    algorithm = kind({"robot": group}, torch.Generator().manual_seed(seed), Workers(1))
    for _ in range(updates):
        algorithm.learn({"robot": rows})
    return algorithm


def bias(critics: int, seed: int) -> float:
    """What is believed of the policy's actions where rewards are noise of deviation 1: their true value is 0."""
    generator = torch.Generator().manual_seed(seed)
    rows = noisy_rows(generator, ROWS)
    cfg = TD3Cfg(critics=critics, gamma=GAMMA, learning_rate=3e-3)
    learner = learned(TD3, cfg, rows, seed, UPDATES).learners["robot"]
    with torch.no_grad():
        features = learner.policy.normaliser(Observation.alone(torch.randn(1000, 1, 2, generator=generator)))
        return float(learner.critic(features, learner.policy.act(features)).amin(0).mean()) / (1 - GAMMA)


@pytest.mark.slow
def test_one_critic_overestimates_and_two_less():
    one, two = (sum(bias(critics, seed) for seed in (0, 1)) / 2 for critics in (1, 2))
    assert one > 1 and two < 0.8 * one


def variance_of_target(critics: int) -> float:
    """How much the target of the same rows differs from one training to another, mean over rows."""
    rows = noisy_rows(torch.Generator().manual_seed(0), 64)
    cfg = SACCfg(critics=critics, subset=2, gamma=GAMMA, learning_rate=3e-3)
    targets = []
    for seed in range(6):
        sac = learned(SAC, cfg, rows, seed, 50, hidden=16)
        learner, batch = sac.learners["robot"], sac.batch_of("robot", rows)
        with torch.no_grad():
            values = learner.targets["critic"](batch.after, batch.action, {})
            targets.append(torch.stack([learner.believed(values) for _ in range(50)]).mean(0))  # over what is drawn
    return float(torch.stack(targets).var(0).mean())


@pytest.mark.slow
def test_the_target_of_redq_varies_less_the_more_critics_there_are():
    two, ten = variance_of_target(2), variance_of_target(10)
    assert ten < 0.4 * two, "of independent critics a fifth"
