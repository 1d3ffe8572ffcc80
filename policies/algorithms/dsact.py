"""Distributional soft actor-critic with three refinements (DSAC-T, Duan et al. 2023, arXiv:2310.05858).

A critic learns the mean and the standard deviation of the return. The paper's small constants, which keep divisions
finite, are here shares of the mean variance: so nothing depends on the size of rewards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1, log
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from hardware.ranges import check_fields
from policies.algorithms.algorithm import Group, mean
from policies.algorithms.learner import Batch, Others
from policies.algorithms.sac import SAC, SACCfg, SACLearner

FLOOR = 0.1  # the paper's epsilon
DRAWN = 3.0  # standard deviations; a return that is drawn lies no farther out, as in the authors' code


@dataclass(frozen=True)
class DSACTCfg(SACCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["dsact"]`."""

    NAME: ClassVar[str] = "dsact"

    delay: int = 2  # gradient steps of the critics for one of the policy, as in the paper
    clip: float = 3.0  # how far a return may be from its mean, in mean standard deviations (the paper's xi)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields("dsact.", self, clip=(1e-3, 1000))
        if self.subset is not None:
            raise ValueError(f"dsact.subset = {self.subset}: its target is of the critic whose mean is least, of all")


class DSACTLearner(SACLearner):
    """See `Learner`. Values and standard deviations of critics are (count, B, N)."""

    outputs = 2
    spread: Tensor | None = None  # (count, 2) running means of standard deviation and variance, of each critic

    def __init__(self, group: Group, groups: Mapping[str, int], generator: torch.Generator) -> None:
        super().__init__(group, groups, generator)
        # As much below the paper's as values are: what is too large fades by gamma only, and drowns small values.
        start = log(expm1(max(1 - self.cfg.gamma, 1e-3) * log(2)))
        for net in self.critic.nets:
            head: Any = net.head
            nn.init.constant_(head.bias[1:], start)
        self.take_targets()

    def critic_loss(
        self, batch: Batch, others: Others, action: Tensor, bonus: Any, later: Others
    ) -> tuple[Tensor, Any]:
        """A scalar whose gradient is the paper's for both critics, and what to log."""
        with torch.no_grad():
            wanted, drawn = self.targets_of(batch, action, bonus, later)
        value, std = split(self.critic(batch.features, batch.action, others))
        with torch.no_grad():
            self.follow_spread(std)
            assert self.spread is not None
            reach, variance = (self.spread[:, i, None, None] for i in (0, 1))
            for_mean, for_std = pulls(value, std, drawn, self.cfg.clip * reach, variance)
        loss = mean(0.5 * for_mean * (wanted - value).square() - for_std * std, batch.weight) * len(value)
        error = mean((wanted - value.detach()).square().mean(0), batch.weight)
        return loss, {"loss/value": error, "value": value.detach().mean(), "value_std": std.detach().mean()}

    def targets_of(self, batch: Batch, action: Tensor, bonus: Any, later: Others) -> tuple[Tensor, Tensor]:
        """Expected and drawn return (B, N), of the critic whose mean is least: the refinements one and two."""
        value, std = split(self.targets["critic"](batch.after, action, later))
        least = value.argmin(0, keepdim=True)
        value, std = (part.gather(0, least)[0] for part in (value, std))
        noise = torch.randn(value.shape, generator=self.generator, device=value.device, dtype=value.dtype)
        futures = (value, value + std * noise.clamp(-DRAWN, DRAWN))
        expected, drawn = (batch.reward + batch.discount * (future + bonus) for future in futures)
        return expected, drawn

    def follow_spread(self, std: Tensor) -> None:
        """Running means follow those of a batch as slowly as the slow copies do."""
        (now,) = self.shards.mean([torch.stack([std.mean((1, 2)), std.square().mean((1, 2))], dim=1)])
        self.spread = now if self.spread is None else self.spread.lerp(now, self.cfg.tau)

    def value_of(self, batch: Batch, action: Tensor, others: Others) -> Tensor:
        return split(self.critic(batch.features, action, others))[0].amin(0)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "spread": self.spread}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        spread = state["spread"]
        self.spread = None if spread is None else spread.to(self.log_temperature.device)


def split(output: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the return, of the two outputs (..., 2) of a critic."""
    return output[..., 0], softplus(output[..., 1])


def pulls(value: Tensor, std: Tensor, drawn: Tensor, reach: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """How much the error of the mean counts, and how hard the standard deviation is pulled up, (count, B, N).

    The third refinement: the gradient of the likelihood times the mean `variance`, with a drawn return that is no
    farther than `reach` from the mean.
    """
    error = (drawn - value).clamp(-reach, reach)
    scale = (1 + FLOOR) * variance
    for_std = scale * (error.square() - std.square()) / (std**3 + FLOOR * variance**1.5)
    return scale / (std.square() + FLOOR * variance), for_std


class DSACT(SAC):
    """See `Algorithm`."""

    Cfg = DSACTCfg
    Learner = DSACTLearner
