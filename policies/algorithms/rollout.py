"""Experience of one iteration, for algorithms that learn from what their present policy does."""

from typing import Any

import torch
from torch import Tensor

from policies.algorithms.algorithm import Experience, Group
from sim.envs.observation import Observation
from sim.tree import on_tensors


def parts_of(group: Group) -> tuple[int, ...]:
    """How many terms of the reward a group learns apart, (K,); () where it learns their sum."""
    return (len(group.terms),) if group.cfg.normalise_terms and len(group.terms) > 1 else ()


class Rollout:
    """Preallocated [T, W, N] buffers of one group; rewards are [T, W, N, K] where K terms are learned apart."""

    def __init__(self, num_steps: int, group: Group) -> None:
        obs, shape = group.obs, (num_steps, *group.shape)
        self.obs: Any = on_tensors(lambda tensor: tensor.new_zeros(num_steps, *tensor.shape), obs)
        self.action = obs.policy.new_zeros(*shape, group.width)
        self.log_prob = obs.policy.new_zeros(shape)
        parts = parts_of(group)
        self.terms = tuple(group.terms) if parts else ()
        self.reward = obs.policy.new_zeros(*shape, *parts)
        self.terminated = torch.zeros(shape, dtype=torch.bool, device=obs.policy.device)
        self.ended = torch.zeros_like(self.terminated)
        self.acted = torch.zeros_like(self.terminated)
        self.decides = torch.ones_like(self.terminated) if group.network.chunk > 1 else None  # a chunk begins
        self.final: list[Observation] = []

    def record(self, t: int, step: Experience) -> None:
        """Keep step `t`; the first forgets the rollout before."""
        if t == 0:
            self.final.clear()
        on_tensors(lambda buffer, value: buffer[t].copy_(value), self.obs, step.obs)
        self.action[t], self.log_prob[t] = step.extras.get("chunk", step.action), step.extras["log_prob"]
        apart = [step.reward_terms[name] for name in self.terms]
        self.reward[t] = torch.stack(apart, dim=-1) if apart else step.reward
        self.terminated[t], self.ended[t] = step.terminated, step.terminated | step.truncated
        self.acted[t] = step.acted
        if self.decides is not None:
            self.decides[t] = step.extras["decides"]
        worlds = self.ended[t].any(-1)
        if worlds.any():
            self.final.append(on_tensors(lambda tensor: tensor[worlds], step.final_obs))

    def as_reward(self, value: Tensor) -> Tensor:
        """`value` (T, W, N) with as many dimensions as the rewards."""
        return value[..., None] if self.reward.dim() > value.dim() else value

    def counts(self) -> Tensor:
        """Of which (T, W, N) there is something to learn: what was decided, and felt."""
        return self.acted if self.decides is None else self.acted & self.decides

    def next_row(self) -> Tensor:
        """Of each of the (T x W) rows the one that its world came to next, (T W,); itself where there is none."""
        steps, worlds, _ = self.ended.shape
        row = torch.arange(steps * worlds, device=self.ended.device).view(steps, worlds)
        last = self.ended.any(-1)
        last[-1] = True
        return torch.where(last, row, row + worlds).flatten()

    def occurred(self) -> Tensor:
        """Which terms (K,) that are learned apart were ever anything but 0."""
        return (self.reward != 0).flatten(0, 2).any(0)

    def rows(self) -> Observation:
        """Observations, flattened to (T x W, N, ...)."""
        flat: Observation = on_tensors(lambda tensor: tensor.flatten(0, 1), self.obs)
        return flat

    def finals(self) -> Observation | None:
        """Last observations (k, N, ...) of the k worlds that ended, in the order of steps and worlds; None for none."""
        if not self.final:
            return None
        first, *rest = self.final
        joined: Observation = on_tensors(lambda *tensors: torch.cat(tensors), first, *rest)
        return joined
