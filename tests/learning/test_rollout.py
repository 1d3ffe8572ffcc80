"""What a rollout keeps of episodes that end inside it."""

import torch
from small_run import train_cfg

from policies.training.trainer import Trainer
from sim.envs.team_env import TeamEnv
from sim.tasks import load_task


def test_ends_are_kept_as_they_were_seen_and_not_as_the_next_episode_begins(tmp_path):
    task = load_task("swarm-swap").changed(episode_s=0.2)  # ten control periods
    env = TeamEnv(task, 3, 0)
    ppo = dict(num_steps=25, minibatch=64, hidden=16, peer_embed=8, lag=0)
    trainer = Trainer(train_cfg(out=tmp_path, num_envs=3, **ppo), env)
    step, seen = env.step, []

    def watched(action):
        result = step(action)
        parts = (result.obs["crazyflie"].policy, result.final_obs["crazyflie"].policy)
        seen.append(tuple(part[result.ended].clone() for part in parts))
        return result

    env.step = watched
    trainer.iterate(0.0)
    first, last = (torch.cat(parts) for parts in zip(*seen, strict=True))
    assert len(last) >= 6
    rollout = trainer.algorithm.rollouts["crazyflie"]
    kept = rollout.finals()
    assert torch.equal(kept.policy, last) and not torch.equal(kept.policy, first)
    assert int(rollout.ended.all(-1).sum()) == len(last)
