"""Simple agents to compare a policy with; they act like a `policies.evaluation.policy_runner.PolicyRunner`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sim.envs.action import decode, encode
from sim.task import GroupCfg


class SimpleAgent:
    """Acts by a function of the robots, without memory."""

    def __init__(self, role: GroupCfg, action: Callable[[Any], Tensor]):
        self._role, self._action = role, action

    def start(self, env: Any) -> None:
        """Nothing to remember."""

    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        """Action (W, N, U) in [-1, 1], and the actuator target (W, N, U) that it means.

        `env` is a group, or an environment of like robots.
        """
        action = self._action(env)
        return action, decode(self._role.action, action, env.policy_input.state, env.robot).target


def make_agent(name: str, seed: int, role: GroupCfg) -> SimpleAgent:
    """`zero` does nothing, `random` draws uniformly, `baseline` is the task's own; ValueError where it has none."""
    generator = torch.Generator().manual_seed(seed)

    def zero(env: Any) -> Tensor:
        return torch.zeros(env.num_envs, env.num_agents, env.action_dim)

    def random(env: Any) -> Tensor:
        return 2.0 * torch.rand(env.num_envs, env.num_agents, env.action_dim, generator=generator) - 1.0

    def baseline(env: Any) -> Tensor:
        assert role.baseline is not None
        target = role.baseline.func(env.policy_input, **role.baseline.params)
        return encode(role.action, target, env.policy_input.state, env.robot)

    if name == "baseline" and role.baseline is None:
        raise ValueError(f"the task has no baseline for {role.robot}; there are zero, random and policies")
    return SimpleAgent(role, {"zero": zero, "random": random, "baseline": baseline}[name])
