"""Limits on named costs: how multipliers move, what comes of them, and that a run resumes with them."""

from pathlib import Path

import pytest
import torch
from point_team import PointPair, PointTeam
from small_run import train_cfg
from test_resume import same

from policies.algorithms.algorithm import Experience, Group
from policies.algorithms.constraints import Limits
from policies.algorithms.ppo import PPOCfg
from policies.checkpoint import load_checkpoint
from policies.networks.trunk import NetworkCfg
from policies.shards import ALONE, Shards, over_shards
from policies.training.train import train
from policies.training.trainer import Trainer

SMALL = dict(hidden=32, peer_embed=8, threads=1)
GROUP = Group(
    PointTeam(4, num_agents=1).obs["point"], [True, True], NetworkCfg(),
    PPOCfg(limits={"effort": 0.5}, limit_rate=0.4), ("distance", "effort"),
)  # fmt: skip


def test_a_multiplier_rises_while_the_cost_is_above_its_limit_and_never_falls_below_0():
    obs, limits = GROUP.obs, Limits({"point": GROUP})
    yes, distance = torch.ones(4, 1, dtype=torch.bool), torch.full((4, 1), -3.0)
    acted = torch.tensor([True, True, True, False])[:, None]  # the last was dead, and spent much
    multiplier, held = 1.0, []
    for cost in (1.0, 1.5, 0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0):
        effort = torch.where(acted, torch.full((4, 1), -cost), torch.tensor(-99.0))
        terms = {"distance": distance, "effort": effort}
        step = Experience(obs, {}, obs.policy, {}, distance + effort, ~yes, ~yes, acted, obs, terms)
        priced = limits.priced({"point": step})["point"]
        torch.testing.assert_close(priced.reward, distance + multiplier * effort)
        said = limits.update("point", ALONE)
        wanted = max(0.0, multiplier + 0.4 * (cost / 0.5 - 1))
        assert said == pytest.approx({"cost/effort": cost, "multiplier/effort": wanted}, abs=1e-6)
        multiplier = said["multiplier/effort"]
        held.append(multiplier)
    assert held[0] > 1 and held[1] > held[0] and held[2] == pytest.approx(held[1]) and min(held) == held[9] == 0.0
    assert held[10] > 0


@pytest.mark.slow
def test_the_cost_ends_under_its_limit_and_the_task_is_done(tmp_path: Path):
    def learned(**how) -> tuple[list[dict], float]:
        trainer = Trainer(train_cfg(task="p", out=tmp_path, gamma=0.95, **SMALL, **how), env=PointTeam(64, 1))
        said = [trainer.iterate(0.0) for _ in range(90)]
        trainer.close()
        return said, sum(numbers["success_rate"] for numbers in said[-10:]) / 10

    limit = 0.0015  # of 0.01 times the squared action
    free, free_success = learned()
    said, success = learned(limits={"effort": limit}, limit_rate=1.0)
    costs = [numbers["cost/effort"] for numbers in said]
    free_cost = -sum(numbers["reward/effort"] for numbers in free[-10:]) / 10
    assert free_cost > 1.3 * limit and costs[0] > limit, "it is no limit that is kept anyway"
    assert sum(costs[-10:]) / 10 < 1.03 * limit
    assert success > 0.8 and free_success > 0.8


@pytest.mark.parametrize("algo", ["ppo", "happo", "impala"])
def test_a_mixed_team_with_limits_resumes_to_the_last_bit(tmp_path: Path, algo: str):
    def go(folder: str, iterations: int, resume: bool = False):
        cfg = train_cfg(
            task="p", out=tmp_path / folder, algo=algo, total_steps=iterations * 4 * 3 * 8, resume=resume, num_steps=4,
            limits={"distance": 0.5}, checkpoint_every=2, epochs=1, **SMALL,
        )  # fmt: skip
        return load_checkpoint(train(cfg, env=PointPair(8)).path)

    whole, _ = go("whole", 5), go("halves", 3)
    halves = go("halves", 5, resume=True)
    assert same(whole["algorithm"], halves["algorithm"]) and same(whole["policies"], halves["policies"])
    held = whole["algorithm"]["limits"]["multipliers"]
    assert held["cart"]["distance"] != held["walker"]["distance"] != 1.0


def test_what_cannot_be_limited_is_said_in_one_line(tmp_path: Path):
    with pytest.raises(ValueError, match=r"limits of 'crazyflie': 'sped' is none of near_goal, .*speeding"):
        Trainer(train_cfg(task="swarm-swap", out=tmp_path, num_envs=2, limits={"sped": 0.1}))
    with pytest.raises(ValueError, match=r"ppo.limits with normalise_terms: a limit sets how much its term counts"):
        PPOCfg(limits={"effort": 1.0}, normalise_terms=True)
    with pytest.raises(ValueError, match=r"ppo.limits effort = 0.0: wanted more than 0"):
        PPOCfg(limits={"effort": 0.0})


def test_shards_have_one_multiplier_of_what_all_of_them_cost():
    def multiplier(shard: Shards) -> float:
        limits = Limits({"point": GROUP})
        effort = torch.full((4, 1), -1.0 - 2.0 * shard.index)  # costs of 1 in one shard, and of 3 in the other
        yes = torch.ones(4, 1, dtype=torch.bool)
        step = Experience(GROUP.obs, {}, effort, {}, effort, ~yes, ~yes, yes, GROUP.obs, {"effort": effort})
        limits.priced({"point": step})
        return limits.update("point", shard)["multiplier/effort"]

    found = over_shards(lambda shard: shard.gather(multiplier(shard)), 2)
    assert found == pytest.approx([1 + 0.4 * (2.0 / 0.5 - 1)] * 2)
