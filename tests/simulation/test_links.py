"""What links do to a team: messages that are lost."""

import pytest
import torch

from hardware import load_robot
from sim.envs.team_env import TeamEnv
from sim.tasks import load_task, task_names

LOST = load_robot("crazyflie").flight.rate_loop.variation["messages_lost"]


def still(env: TeamEnv) -> dict[str, torch.Tensor]:
    return {n: torch.zeros(env.num_envs, g.num_agents, g.action_dim) for n, g in env.groups.items()}


@pytest.mark.parametrize(
    "name", [n for n in task_names() if any(g.observation.peer for g in load_task(n).groups.values())]
)
def test_a_robot_that_looks_at_its_peers_misses_some_of_what_they_say(name):
    """As many as hardware loses: 5 % on average, and in each world a share of its own."""
    env = TeamEnv(name, 64, seed=0)
    (group,) = [group for group in env.groups.values() if group.num_peers]
    for other in env.groups.values():
        other.robots.network_delay[:] = 0  # what is heard is new, or was heard before
    missed = []
    for _ in range(10):
        env.step(still(env))
        missed.append((group.measured[1].age > 0.0).float().mean())
    assert 0.02 < torch.stack(missed).mean() < 0.1
    assert group.robots.dropout.unique().numel() == 64 and group.robots.dropout.max() <= LOST[1]
