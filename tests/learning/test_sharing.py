"""Shared parameters and their known failure: robots that see the same and have to do unlike things do the same."""

import pytest
import torch

from policies.algorithms.algorithm import Clock, Experience, Group
from policies.algorithms.ppo import PPO, PPOCfg
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

WORLDS, PLACES = 256, (0.5, -0.5)  # where the first and the second robot should go


def seen(robots: int, told_apart: bool) -> Observation:
    """The same for all robots, or whether one is the second."""
    own = torch.ones(WORLDS, robots, 1)
    if told_apart:
        own[:, 1] = -1.0
    return Observation.alone(own)


def team_learns(groups: dict[str, int], told_apart: bool = False) -> tuple[float, float]:
    """Where two robots, in `groups` of so many, go after PPO on what the team earns: 0 where each is in its place."""
    torch.manual_seed(0)
    generator, yes = torch.Generator().manual_seed(0), torch.ones(WORLDS, 1, dtype=torch.bool)
    cfg = PPOCfg(num_steps=1, minibatch=WORLDS * 2, schedule="constant", learning_rate=1e-2)
    seen_by = {name: seen(robots, told_apart) for name, robots in groups.items()}
    made = {name: Group(obs, [True], NetworkCfg(hidden=16), cfg) for name, obs in seen_by.items()}
    algorithm = PPO(made, generator, Workers(1))
    for _ in range(40):
        acts = {name: policy.sample(seen_by[name], {}, generator) for name, policy in algorithm.policies.items()}
        where = torch.cat([action for action, *_ in acts.values()], dim=1)[..., 0]
        earned = -(where - torch.tensor(PLACES)).square().sum(-1, keepdim=True)
        team = {}
        for name, (action, _, extras) in acts.items():
            all_robots = yes.expand(action.shape[:2])
            reward = earned.expand(action.shape[:2])
            team[name] = Experience(
                seen_by[name], {}, action.detach(), {"log_prob": extras["log_prob"].detach()}, reward,
                all_robots, ~all_robots, all_robots, seen_by[name],
            )  # fmt: skip
        algorithm.record(0, team)
        algorithm.update(seen_by, Clock(0.0, 0))
    with torch.no_grad():
        ends = [algorithm.policies[name].best(seen_by[name], {})[0][0, :, 0] for name in groups]
    first, second = torch.cat(ends).tolist()
    return first, second


def miss(first: float, second: float) -> float:
    return max(abs(first - PLACES[0]), abs(second - PLACES[1]))


@pytest.mark.slow
def test_one_policy_for_robots_that_see_the_same_collapses_to_the_middle():
    first, second = team_learns({"robot": 2})
    assert first == second and abs(first) < 0.25


@pytest.mark.slow
def test_a_group_for_each_robot_or_something_that_tells_them_apart_cures_it():
    assert miss(*team_learns({"first": 1, "second": 1})) < 0.15
    assert miss(*team_learns({"robot": 2}, told_apart=True)) < 0.15
