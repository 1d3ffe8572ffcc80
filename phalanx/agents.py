"""Simple agents to compare a policy with; they act like a `policies.evaluation.policy_runner.PolicyRunner`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sim.envs.action import decode, encode
from sim.task import GroupCfg


class SimpleAgent:
    """Acts by a function of the robots, without memory."""

    def __init__(self, group: GroupCfg, action: Callable[[Any], Tensor]):
        self._group, self._action = group, action

    def start(self, env: Any) -> None:
        """Nothing to remember."""

    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        """Action (W, N, U) in [-1, 1], and the actuator target (W, N, U) that it means.

        `env` is a group, or an environment of like robots.
        """
        action = self._action(env)
        return action, decode(self._group.action, action, env.policy_input.state, env.robot).target


def make_agent(name: str, seed: int, group: GroupCfg) -> SimpleAgent:
    """`zero` does nothing, `random` draws uniformly, `baseline` is the task's own; ValueError where it has none."""
    generator = torch.Generator().manual_seed(seed)

    def zero(env: Any) -> Tensor:
        return torch.zeros(env.num_envs, env.num_agents, env.action_dim)

    def random(env: Any) -> Tensor:
        return 2.0 * torch.rand(env.num_envs, env.num_agents, env.action_dim, generator=generator) - 1.0

    def baseline(env: Any) -> Tensor:
        assert group.baseline is not None
        target = group.baseline.func(env.policy_input, **group.baseline.params)
        return encode(group.action, target, env.policy_input.state, env.robot)

    if name == "baseline" and group.baseline is None:
        raise ValueError(f"the task has no baseline for {group.robot}; there are zero, random and policies")
    return SimpleAgent(group, {"zero": zero, "random": random, "baseline": baseline}[name])
