"""Policies bounded by tanh, of algorithms that learn from a replay."""

from abc import abstractmethod
from math import log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from policies.networks.normaliser import Features
from policies.networks.policy import Memory, Policy, log_prob
from policies.networks.trunk import orthogonal

LOG_STD = (-20.0, 2.0)  # as in the code of SAC's authors, https://github.com/rail-berkeley/softlearning


class SquashedPolicy(Policy):
    """Its best action is the mean through tanh; before learning begins, actions are drawn by chance."""

    by_chance: Tensor  # () bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("by_chance", torch.tensor(True))  # a tensor, so that a compiled rollout sees it change

    def best(self, obs: Any, memory: Memory) -> tuple[Tensor, Memory]:
        seen, memory = self.recall(obs, memory)
        return self.paced(self.middle(self.normaliser(seen)), memory)[:2]

    def middle(self, features: Features) -> Tensor:
        """Features -> the best action (..., U), or chunk of them."""
        return torch.tanh(self.mean(features)) * self.driven

    def draw(self, mean: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """An action (..., U) for what `forward` returned; uniform in [-1, 1] while `by_chance`."""
        explored = self.explore(mean, generator)
        uniform = 2 * torch.rand(explored.shape, generator=generator, device=mean.device) - 1
        return torch.where(self.by_chance, uniform, explored) * self.driven, {}

    @abstractmethod
    def explore(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        """An action (..., U) about what `forward` returned."""


class DeterministicPolicy(SquashedPolicy):
    """While learning, noise of the standard deviation `noise` is added to its action."""

    noise = 0.0

    def forward(self, obs: Any, memory: Memory) -> tuple[Tensor, Memory]:
        return self.act(self.normaliser(obs)), memory

    def act(self, features: Features) -> Tensor:
        """Features -> action (..., U)."""
        return self.middle(features)

    def explore(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        return (mean + self.noise * noise).clamp(-1.0, 1.0)


class SquashedGaussianPolicy(SquashedPolicy):
    """Draws from a Gaussian, whose spread depends on the observation, through tanh."""

    def __init__(self, *args: Any, init_std: float = 0.6, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.spread = orthogonal(nn.Linear(self.head.in_features, self.head.out_features), 0.01)
        nn.init.constant_(self.spread.bias, log(init_std))

    def forward(self, obs: Any, memory: Memory) -> tuple[Tensor, Memory]:
        """`Observation` -> mean and log standard deviation before tanh, side by side (..., 2 U)."""
        return torch.cat(self.gaussian(self.normaliser(obs)), dim=-1), memory

    def gaussian(self, features: Features) -> tuple[Tensor, Tensor]:
        """Features -> mean and log standard deviation before tanh, each (..., U)."""
        body = self.body(features)
        mean, spread = self.head(body), self.spread(body)
        if self.mirror is not None:
            other, turned = self.body(self.mirror.seen(features)), self.mirror.action
            mean, spread = 0.5 * (mean + turned(self.head(other))), 0.5 * (spread + turned.spread(self.spread(other)))
        return mean * self.driven, spread.clamp(*LOG_STD)

    def explore(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        centre, log_std = mean.chunk(2, dim=-1)
        return self._through_tanh(centre, log_std, generator)[0]

    def act(self, features: Features, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features -> an action (..., U) and its log density (...), both with gradients (reparametrised)."""
        mean, log_std = self.gaussian(features)
        action, raw = self._through_tanh(mean, log_std, generator)
        return action * self.driven, squashed_log_prob(raw, mean, log_std, self.driven)

    @staticmethod
    def _through_tanh(mean: Tensor, log_std: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        raw = mean + noise * log_std.exp()
        return torch.tanh(raw), raw


def squashed_log_prob(raw: Tensor, mean: Tensor, log_std: Tensor, driven: Tensor | float = 1.0) -> Tensor:
    """Log density (...) of tanh(raw) (..., U), raw drawn from the Gaussian of mean and log_std (..., U).

    Haarnoja et al. 2018, appendix C. The log of tanh's derivative is written so that it does not overflow.
    """
    slope = 2 * (log(2.0) - raw - softplus(-2 * raw))
    return log_prob(raw, mean, log_std, driven) - (driven * slope).sum(-1)
