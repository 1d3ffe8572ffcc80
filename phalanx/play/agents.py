"""Simple agents to compare a policy with; they fly like a `policies.pilot.Pilot`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sim.observe import decode, encode
from sim.task import TaskCfg


class SimpleAgent:
    """Acts by a function of the environment, without memory."""

    def __init__(self, action: Callable[[Any], Tensor]):
        self._action = action

    def start(self, env: Any) -> None:
        """Nothing to remember."""

    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        """Action (W, N, U) in [-1, 1], and the actuator target (W, N, U) that it means."""
        action = self._action(env)
        return action, decode(env.task.action, action, env.percept.state, env.robot.joint_of_channel).target


def make_agent(name: str, seed: int, task: TaskCfg) -> SimpleAgent:
    """`zero` does nothing, `random` draws uniformly, `baseline` is the task's own; ValueError where it has none."""
    generator = torch.Generator().manual_seed(seed)

    def zero(env: Any) -> Tensor:
        return torch.zeros(env.num_worlds, env.num_agents, env.action_dim)

    def random(env: Any) -> Tensor:
        return 2.0 * torch.rand(env.num_worlds, env.num_agents, env.action_dim, generator=generator) - 1.0

    def baseline(env: Any) -> Tensor:
        assert task.baseline is not None
        target = task.baseline.func(env.percept, **task.baseline.params)
        return encode(task.action, target, env.percept.state, env.robot.joint_of_channel)

    if name == "baseline" and task.baseline is None:
        raise ValueError(f"task {task.name!r} has no baseline; there are zero, random and policies")
    return SimpleAgent({"zero": zero, "random": random, "baseline": baseline}[name])
