"""Actions that change little from step to step, and little with what is seen (CAPS): the loss, and what comes of it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from point_team import PointPair, PointTeam
from small_run import train_cfg
from test_ppo import experience
from test_resume import same

from policies.algorithms.algorithm import Group
from policies.algorithms.ppo import PPOCfg
from policies.algorithms.ppo_update import loss
from policies.algorithms.rollout import Rollout
from policies.algorithms.sac import SACCfg
from policies.checkpoint import load_checkpoint
from policies.networks.critic import Critic
from policies.networks.normaliser import ObsDims
from policies.networks.policy import GaussianPolicy
from policies.networks.trunk import NetworkCfg
from policies.training.train import train
from policies.training.trainer import Trainer

SMALL = dict(hidden=32, peer_embed=8, threads=1)


def test_the_loss_is_the_squared_change_of_the_mean_action_in_time_and_nearby():
    dims, cfg = ObsDims(4, 2), PPOCfg(temporal_smoothness=0.5, spatial_smoothness=2.0)
    torch.manual_seed(0)
    policy, critic = GaussianPolicy(dims, 3).double(), Critic(dims).double()
    torch.nn.init.orthogonal_(policy.head.weight)
    whole = experience(policy, 40, seed=1)
    next_row = torch.arange(40).roll(-1)
    next_row[7] = 7  # an episode ended there
    batch = replace(whole, next_row=next_row).rows(rows := torch.tensor([3, 7, 20]))
    batch.nearby = batch.features._replace(own=batch.features.own + 0.1)
    total, parts = loss(policy, critic, batch, cfg)
    plain, _ = loss(policy, critic, whole.rows(rows), PPOCfg())
    action = policy.mean(whole.features)
    in_time = (action[next_row] - action)[rows].square().sum(-1)
    nearby = (policy.mean(batch.nearby) - action[rows]).square().sum(-1).mean()
    assert in_time[1].max() == 0 and in_time[0].min() > 1e-4 and nearby > 1e-4
    torch.testing.assert_close(parts["loss/temporal"], in_time.mean())
    torch.testing.assert_close(total, plain + 0.5 * in_time.mean() + 2.0 * nearby)


def test_what_was_seen_next_is_that_of_the_same_world_in_the_same_episode():
    group = Group(PointTeam(3, num_agents=2).obs["point"], [True, True], NetworkCfg(), PPOCfg())
    rollout = Rollout(4, group)
    rollout.ended[1, 2, 0] = True
    assert rollout.next_row().view(4, 3).tolist() == [[3, 4, 5], [6, 7, 5], [9, 10, 11], [9, 10, 11]]


@pytest.mark.slow
def test_actions_change_less_and_the_task_is_done(tmp_path: Path):
    def learned(**how) -> tuple[float, float]:
        trainer = Trainer(train_cfg(task="p", out=tmp_path, gamma=0.95, **SMALL, **how), env=PointTeam(64, 1))
        success = [trainer.iterate(0.0).get("success_rate", 0.0) for _ in range(60)][-10:]
        obs = trainer.algorithm.rollouts["point"].obs
        with torch.no_grad():
            action = trainer.policy.best(obs, {})[0]
        goes_on = ~trainer.algorithm.rollouts["point"].ended[:-1].any(-1)
        trainer.close()
        return float((action[1:] - action[:-1])[goes_on].square().mean().sqrt()), sum(success) / 10

    free, in_time, nearby = learned(), learned(temporal_smoothness=1.0), learned(spatial_smoothness=1.0)
    assert in_time[0] < 0.5 * free[0] and nearby[0] < 0.75 * free[0]  # RMS change of an action
    assert min(free[1], in_time[1], nearby[1]) > 0.9  # success


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_a_policy_that_learns_from_a_replay_is_pulled_as_hard_as_its_weights_say(tmp_path: Path, algo: str):
    def gradients(**how) -> torch.Tensor:
        """Of the same batch, beside that of the critics' values."""
        cfg = train_cfg(task="p", out=tmp_path, algo=algo, warm_up=10**6, batch=64, **SMALL, **how)
        trainer = Trainer(cfg, env=PointTeam(16))
        for _ in range(3):
            trainer.iterate(0.0)
        trainer.close()
        learner = trainer.algorithm.learners["point"]
        torch.nn.init.orthogonal_(learner.policy.head.weight)
        batch = trainer.algorithm.batch_of("point", trainer.algorithm.replay.rows("point", torch.arange(64), 0.9))
        weight = learner.policy.head.weight
        middle = learner.policy.middle
        change = (middle(batch.after) - middle(batch.features)).square().sum(-1).mean()
        (wanted,) = torch.autograd.grad(change, [weight])
        seen = {}
        learner.descend = lambda part, loss: seen.update(grad=torch.autograd.grad(loss, [weight])[0])
        learner.generator.manual_seed(5)
        learner.improve_policy(batch, {})
        return torch.stack([seen["grad"], wanted])

    torch.manual_seed(0)
    plain, wanted = gradients()
    torch.testing.assert_close(gradients(temporal_smoothness=3.0)[0], plain + 3.0 * wanted, rtol=1e-4, atol=1e-5)
    assert (gradients(spatial_smoothness=3.0)[0] - plain).abs().max() > 1e-3 < wanted.abs().max()


@pytest.mark.parametrize("algo", ["ppo", "happo", "impala"])
def test_a_run_resumes_to_the_last_bit(tmp_path: Path, algo: str):
    def go(folder: str, iterations: int, resume: bool = False):
        cfg = train_cfg(
            task="p", out=tmp_path / folder, algo=algo, total_steps=iterations * 4 * 3 * 8, resume=resume, num_steps=4,
            temporal_smoothness=1.0, spatial_smoothness=1.0, checkpoint_every=2, epochs=1, **SMALL,
        )  # fmt: skip
        return load_checkpoint(train(cfg, env=PointPair(8)).path)

    whole, _ = go("whole", 5), go("halves", 3)
    halves = go("halves", 5, resume=True)
    assert same(whole["algorithm"], halves["algorithm"]) and same(whole["policies"], halves["policies"])


def test_what_cannot_be_smoothed_is_said_in_one_line(tmp_path: Path):
    with pytest.raises(ValueError, match=r"temporal_smoothness with network.chunk = 2 of 'point': chunks overlap"):
        Trainer(train_cfg(task="p", out=tmp_path, temporal_smoothness=1.0, chunk=2), env=PointTeam(4))
    with pytest.raises(ValueError, match=r"temporal_smoothness with network.chunk = 2 of 'point': chunks overlap"):
        Trainer(train_cfg(task="p", out=tmp_path, algo="td3", temporal_smoothness=1.0, chunk=2), env=PointTeam(4))
    with pytest.raises(ValueError, match=r"sac.temporal_smoothness with sac.n_step = 3: one of the two"):
        SACCfg(temporal_smoothness=1.0, n_step=3)
    with pytest.raises(ValueError, match=r"ppo.spatial_smoothness = -1"):
        PPOCfg(spatial_smoothness=-1.0)
