"""GDPO beside a reference that goes through its formulas one step, robot and term at a time."""

from statistics import mean, stdev

import pytest
import torch
from point_team import PointTeam

from policies.algorithms.algorithm import Clock, Experience, Group
from policies.algorithms.ppo import PPO, PPOCfg
from policies.algorithms.ppo_update import _standardise
from policies.networks.trunk import NetworkCfg
from policies.shards import ALONE
from policies.threads import Workers

GAMMA, LAMBDA = 0.9, 0.8


@pytest.fixture(autouse=True)
def in_double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def written_out(rollout, values, following) -> list[float]:
    """Advantages in the order of steps, worlds and robots, from rewards and values of every term."""
    steps, worlds, robots, terms = rollout.reward.shape
    ended, terminated = rollout.ended, rollout.terminated
    sums = [0.0] * (steps * worlds * robots)
    for k in range(terms):
        found = {}
        for w in range(worlds):
            for n in range(robots):
                ahead = 0.0
                for t in reversed(range(steps)):
                    future = 0.0 if terminated[t, w, n] else float(following[t, w, n, k])
                    error = float(rollout.reward[t, w, n, k]) + GAMMA * future - float(values[t, w, n, k])
                    ahead = error + (0.0 if ended[t, w, n] else GAMMA * LAMBDA * ahead)
                    found[t, w, n] = ahead
        of_term = [found[key] for key in sorted(found)]
        middle, spread = mean(of_term), stdev(of_term)
        sums = [total + (one - middle) / (spread + 1e-8) for total, one in zip(sums, of_term, strict=True)]
    middle, spread = mean(sums), stdev(sums)
    return [(total - middle) / (spread + 1e-8) for total in sums]


def test_advantages_are_those_of_the_paper_term_by_term(monkeypatch):
    cfg = PPOCfg(num_steps=12, epochs=1, minibatch=72, gamma=GAMMA, gae_lambda=LAMBDA, normalise_terms=True)
    env, generator = PointTeam(3, episode_steps=5), torch.Generator().manual_seed(0)
    group = Group(env.reset(0)["point"], [True, True], NetworkCfg(hidden=8, peer_embed=4), cfg, ("distance", "effort"))
    algorithm, wanted, found = PPO({"point": group}, generator, Workers(1)), [], []
    targets, improve = algorithm.targets, algorithm.improve_group

    def watched(name, rollout, own, values, following):
        assert rollout.ended.any(), "episodes end in the middle"
        wanted.append(written_out(rollout, values, following))
        return targets(name, rollout, own, values, following)

    def improved(name, samples, fraction):
        found.append(_standardise(samples, algorithm.critics[name], cfg, ALONE).advantage.flatten())
        return improve(name, samples, fraction)

    monkeypatch.setattr(algorithm, "targets", watched)
    monkeypatch.setattr(algorithm, "improve_group", improved)
    for _ in range(3):
        for t in range(cfg.num_steps):
            seen = env.obs["point"]
            with torch.no_grad():
                action, _, extras = algorithm.policies["point"].sample(seen, {}, generator)
            step = env.step({"point": action})
            said = (
                getattr(step, name)["point"] for name in ("reward", "terminated", "truncated", "acted", "final_obs")
            )
            experience = Experience(seen, {}, action, extras, *said, step.reward_terms["point"])
            algorithm.record(t, {"point": experience})
        algorithm.update(env.obs, Clock(0.0, 0))
    for ours, theirs in zip(found, wanted, strict=True):
        assert len(theirs) == 12 * 3 * 2
        torch.testing.assert_close(ours, torch.tensor(theirs), rtol=0, atol=1e-6)
