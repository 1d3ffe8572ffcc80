"""TD3's reason to be: a policy seeks out what its critic errs upwards in, and the least of two critics errs less."""

import pytest
import torch

from policies.algorithms.algorithm import Group
from policies.algorithms.td3 import TD3, TD3Cfg
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

ROWS, GAMMA, UPDATES = 256, 0.9, 400


def bias(critics: int, seed: int) -> float:
    """What is believed of the policy's actions where rewards are noise of deviation 1: their true value is 0."""
    generator = torch.Generator().manual_seed(seed)
    obs, after, action = (torch.randn(ROWS, 1, 2, generator=generator) for _ in range(3))
    reward = torch.randn(ROWS, 1, generator=generator)
    torch.manual_seed(seed)
    cfg = TD3Cfg(critics=critics, gamma=GAMMA, learning_rate=3e-3)
    group = Group(Observation.alone(obs), [True, True], NetworkCfg(hidden=32), cfg)
    td3 = TD3({"robot": group}, torch.Generator().manual_seed(seed), Workers(1))
    rows = {
        "obs": Observation.alone(obs),
        "next": Observation.alone(after),
        "action": action.clamp(-1, 1),
        "reward": reward - reward.mean(),
        "discount": torch.full((ROWS, 1), GAMMA),
        "acted": torch.ones(ROWS, 1, dtype=torch.bool),
    }
    for _ in range(UPDATES):
        td3.learn({"robot": rows})
    learner = td3.learners["robot"]
    with torch.no_grad():
        features = learner.policy.normaliser(Observation.alone(torch.randn(1000, 1, 2, generator=generator)))
        return float(learner.critic(features, learner.policy.act(features)).amin(0).mean()) / (1 - GAMMA)


@pytest.mark.slow
def test_one_critic_overestimates_and_two_less():
    one, two = (sum(bias(critics, seed) for seed in (0, 1)) / 2 for critics in (1, 2))
    assert one > 1 and two < 0.8 * one
