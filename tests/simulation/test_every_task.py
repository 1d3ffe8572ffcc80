"""What holds for every task: where episodes begin, and that they stay finite and repeat whatever robots do."""

import pytest
import torch

from sim.envs.team_env import TeamEnv
from sim.tasks import load_task, task_names

# Others differ from one of these in their robot or their ground, or run for longer.
OWN = ("bimanual-lift", "co-carry", "hover", "payload-lift", "perch", "pick-place", "push", "reach", "stand")
OWN += ("stand-h1", "swarm-swap", "swarm-track", "velocity")
REPEATED = 50  # control steps


@pytest.mark.parametrize("name", task_names())
def test_an_episode_begins_with_nothing_failed_within_all_limits_and_commands_that_an_operator_may_give(name):
    env = TeamEnv(load_task(name), 64, seed=3)
    for group in env.groups.values():
        failed = [t.func(group.now, **t.params) for t in group.cfg.terminations.values()]
        assert not torch.stack(failed).any()
        low, high = (torch.tensor([getattr(j, side) for j in group.robot.joints]) for side in ("low", "high"))
        assert ((group.now.state.joint_pos >= low) & (group.now.state.joint_pos <= high)).all()
        for command, asked in group.cfg.commands.items():
            given = group.command[command]
            assert (given >= torch.tensor(asked.low)).all() and (given <= torch.tensor(asked.high)).all(), command


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
@torch.inference_mode()
def test_everything_stays_finite_for_wild_actions_and_repeats_with_the_seed(name):
    traces = []
    for steps in (None, REPEATED):
        env, generator, trace = TeamEnv(load_task(name), 3, seed=7), torch.Generator().manual_seed(0), []
        for _ in range(steps or env.max_steps + 5):
            shapes = {group: (3, each.num_agents, each.action_dim) for group, each in env.groups.items()}
            step = env.step({group: torch.randn(shape, generator=generator) for group, shape in shapes.items()})
            for group in env.groups:
                obs, reward = step.obs[group].flat(), step.reward[group]
                assert obs.isfinite().all() and reward.isfinite().all()
                assert all(value.isfinite().all() for value in step.reward_terms[group].values())
                assert not step.terminations[group]["unstable"].any()
                trace.append(torch.cat([obs.flatten(), reward.flatten()]))
            over = [(step.terminated[group] | step.truncated[group]).any(-1) for group in env.groups]
            assert (torch.stack(over).any(0) == step.ended).all()
        traces.append(torch.cat(trace))
    assert torch.equal(traces[0][: len(traces[1])], traces[1])
