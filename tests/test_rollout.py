"""What a rollout keeps of episodes that end inside it."""

import torch
from one_group import make_env
from small_run import train_cfg

from policies.training.trainer import Trainer
from sim.tasks import load_task


def test_ends_are_kept_as_they_were_seen_and_not_as_the_next_episode_begins(tmp_path):
    task = load_task("swarm-swap").changed(episode_s=0.2)  # ten control periods
    env = make_env(task, 3, 0)
    ppo = dict(num_steps=25, minibatch=64, hidden=16, peer_embed=8)
    trainer = Trainer(train_cfg(out=tmp_path, num_envs=3, **ppo), env)
    step, seen = env.step, []

    def watched(action):
        result = step(action)
        ended = result[4]["ended"]
        seen.append((result[0][ended].clone(), result[4]["final_obs"][ended].clone()))
        return result

    env.step = watched
    trainer.iterate(0.0)
    first, last = (torch.cat(parts) for parts in zip(*seen, strict=True))
    assert len(last) >= 6
    rollout = trainer.algorithm.rollouts["crazyflie"]
    kept = rollout.finals()
    own = kept.policy.shape[-1]
    assert torch.equal(kept.policy, last[..., :own]) and not torch.equal(kept.policy, first[..., :own])
    assert int(rollout.ended.all(-1).sum()) == len(last)
