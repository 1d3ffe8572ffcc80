"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), parameters shared by all robots of a group.

Twin critics, a Gaussian through tanh, and a temperature that is learned so that the policy keeps a wanted entropy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import torch
from torch import Tensor

from hardware.ranges import check_fields
from policies.algorithms.algorithm import Group, mean
from policies.algorithms.learner import Batch, Learner, OffPolicyCfg, Others
from policies.algorithms.off_policy import OffPolicy
from policies.networks.normaliser import Features
from policies.networks.squashed import SquashedGaussianPolicy


@dataclass(frozen=True)
class SACCfg(OffPolicyCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["sac"]`."""

    NAME: ClassVar[str] = "sac"

    temperature: float = 0.02  # at the start, in units of value per nat: (1 - gamma) times the paper's
    learn_temperature: bool = True  # False: it stays what it is
    subset: int | None = None  # critics whose least is the target, drawn in each step (REDQ); None: all of them
    target_entropy: float = -1.0  # nats for each channel that is driven, as the paper's table of hyperparameters has it

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(
            f"{self.NAME}.", self, temperature=(1e-9, 1e9), target_entropy=(-100, 100), subset=(1, self.critics)
        )


class SACLearner(Learner):
    """See `Learner`. Equation numbers are those of the paper."""

    Policy = SquashedGaussianPolicy
    error_scale = 0.5

    def __init__(self, group: Group, groups: Mapping[str, int], generator: torch.Generator) -> None:
        super().__init__(group, groups, generator)
        start = self.policy.head.weight.new_full((), log(self.cfg.temperature))
        self.log_temperature = start.requires_grad_()
        self.target_entropy = self.cfg.target_entropy * float(self.policy.driven.sum())
        self.optimisers["temperature"] = self.make_optimiser([self.log_temperature])

    def make_policy(self, group: Group) -> SquashedGaussianPolicy:
        return SquashedGaussianPolicy(**group.policy, init_std=group.network.init_std)

    @property
    def temperature(self) -> Tensor:
        """What a nat of entropy is worth, ()."""
        return self.log_temperature.detach().exp()

    def propose(self, after: Features) -> tuple[Tensor, Tensor | float]:
        """What the policy does, and its entropy's worth: eq. 3."""
        action, log_prob = self.policy.act(after, self.generator)
        return action, -self.temperature * log_prob

    def improve_policy(self, batch: Batch, others: Others) -> dict[str, Tensor]:
        """Eq. 9, and then eq. 18: the temperature rises while the entropy is below what is wanted."""
        action, log_prob = self.policy.act(batch.features, self.generator)
        temperature, entropy = self.temperature, -mean(log_prob.detach(), batch.weight)
        loss = mean(self.price(log_prob) - self.value_of(batch, action, others), batch.weight)
        self.descend("policy", loss + self.roughness(batch))
        if self.cfg.learn_temperature:
            self.log_temperature.grad = self.shards.mean([entropy])[0] - self.target_entropy
            self.optimisers["temperature"].step()
        return {"loss/policy": loss.detach(), "entropy": entropy, "temperature": temperature}

    def price(self, log_prob: Tensor) -> Tensor:
        """What the density of its action (B, N) costs each robot."""
        return self.temperature * log_prob

    def value_of(self, batch: Batch, action: Tensor, others: Others) -> Tensor:
        """The least of the critics' values (B, N); their mean where targets are of a subset, as in REDQ."""
        values: Tensor = self.critic(batch.features, action, others)
        return values.amin(0) if self.cfg.subset is None else values.mean(0)

    def believed(self, values: Tensor) -> Tensor:
        if self.cfg.subset is None:
            return super().believed(values)
        drawn = torch.randperm(len(values), generator=self.generator, device=self.generator.device)
        return values[drawn[: self.cfg.subset]].amin(0)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "log_temperature": self.log_temperature.detach()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])


class SAC(OffPolicy):
    """See `Algorithm`."""

    Cfg = SACCfg
    Policy = SquashedGaussianPolicy
    Learner = SACLearner
