"""One policy for teams of any size: trained with 4, flown with 2 to 32; a thousand robots that each see a thousand."""

from pathlib import Path

import pytest
import torch
from point_team import PointTeam
from small_run import train_cfg

from policies.networks.normaliser import ObsDims
from policies.networks.policy import GaussianPolicy
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
