"""One policy for teams of any size: trained with 4, flown with 2 to 32; a thousand robots that each see a thousand."""

from pathlib import Path

import pytest
import torch
from point_team import PointTeam
from small_run import train_cfg
from test_resume import SWARM_PPO, same

from policies.checkpoint import CheckpointError, load_checkpoint
from policies.networks.normaliser import ObsDims
from policies.networks.policy import GaussianPolicy
from policies.training.progress import read_progress
from policies.training.train import train
from policies.training.trainer import Trainer
from sim.envs.observation import Observation


@pytest.mark.slow
def test_trained_with_four_it_flies_with_two_to_thirty_two(tmp_path: Path):
    trainer = Trainer(train_cfg(task="p", out=tmp_path, hidden=32, peer_embed=16), env=PointTeam(32, num_agents=4))
    for _ in range(25):
        trainer.iterate(0.0)
    trainer.close()

    def miss(robots: int) -> float:
        """Mean distance of points from their goal at the end of an episode."""
        env = PointTeam(16, robots, seed=7, episode_steps=50)
        seen = env.reset(7)["point"]
        for _ in range(40):
            with torch.no_grad():
                seen = env.step({"point": trainer.policy.best(seen, {})[0]}).obs["point"]
        return float(env.pos["point"].norm(dim=-1).mean())

    misses = {robots: miss(robots) for robots in (2, 4, 8, 16, 32)}
    assert max(misses.values()) < 0.2, misses


def test_a_team_grows_as_it_learns_and_a_run_that_was_cut_anywhere_is_the_same(tmp_path: Path):
    def go(folder: str, iterations: int, resume: bool = False, robots: tuple[int, ...] = (2, 4, 8)) -> Path:
        """At most so many of 9 iterations; 4 worlds of the task's own four robots are 8 of two, and 2 of eight."""
        cfg = train_cfg(
            out=tmp_path / folder, num_envs=4, num_agents=robots, total_steps=9 * 128, resume=resume, **SWARM_PPO
        )
        seen: list[float] = []
        return train(cfg, on_progress=lambda _: seen.append(1), stop=lambda: len(seen) == iterations).path

    whole = load_checkpoint(go("whole", 9))
    rows = read_progress(tmp_path / "whole")
    assert [row["robots"] for row in rows] == 3 * [2] + 3 * [4] + 3 * [8]
    assert [row["agent_steps"] for row in rows] == [128 * (n + 1) for n in range(9)]
    assert whole["progress"]["env_steps"] == 3 * 8 * (8 + 4 + 2) and whole["run"]["num_agents"] == 8
    for cut in (3, 5):  # where the team grows next, and between
        go(f"cut {cut}", cut)
        parts = load_checkpoint(go(f"cut {cut}", 9, resume=True))
        for name in ("policies", "algorithm", "env", "collector", "generators", "progress"):
            assert same(whole[name], parts[name]), (cut, name)
    with pytest.raises(CheckpointError, match=r"cannot resume with robots = 2-8: the checkpoint was made with 2-4-8"):
        go("whole", 1, resume=True, robots=(2, 8))


def test_an_algorithm_whose_replay_holds_teams_of_one_size_refuses_one_that_grows(tmp_path: Path):
    with pytest.raises(ValueError, match=r"robots = 2-4: sac learns from teams of one size; give one"):
        Trainer(train_cfg(out=tmp_path, algo="sac", num_envs=4, num_agents=(2, 4), total_steps=50_000))


def test_a_thousand_robots_of_which_each_sees_a_thousand():
    torch.manual_seed(0)
    policy, generator = GaussianPolicy(ObsDims(5, 3), 4), torch.Generator().manual_seed(0)
    torch.nn.init.orthogonal_(policy.head.weight)
    own, peers = torch.randn(1000, 5, generator=generator), torch.randn(1000, 1000, 3, generator=generator)
    heard = (torch.rand(1000, 1000, generator=generator) < 0.5).float()

    def acts(robots, order=slice(None)) -> torch.Tensor:
        with torch.no_grad():
            return policy.best(
                Observation(own[robots], peers[robots][:, order], heard[robots][:, order], own[robots, :0]), {}
            )[0]

    everyone = acts(slice(None))
    assert everyone.shape == (1000, 4) and everyone.isfinite().all()
    some = torch.tensor([0, 500, 999])
    shuffled = torch.randperm(1000, generator=generator)
    assert torch.allclose(everyone[some], acts(some, shuffled), atol=1e-5), "alone, and in another order of peers"
    assert everyone.std(0).min() > 1e-2
