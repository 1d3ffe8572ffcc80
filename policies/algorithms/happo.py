"""Heterogeneous-agent PPO (Kuba et al. 2022, arXiv:2109.11251): groups are updated one after the other.

The order is drawn each time. What a group gains is multiplied by how much more likely the groups that were updated
before it now are to do what they did. All robots earn the mean reward of the team, for the paper's game is cooperative;
robots of a group share parameters, so a group is one of the paper's agents.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from policies.algorithms.algorithm import Experience, over_rows, with_shared_reward
from policies.algorithms.ppo import PPO, PPOCfg
from policies.algorithms.ppo_update import Samples
from policies.networks.policy import GaussianPolicy, log_prob


@dataclass(frozen=True)
class HAPPOCfg(PPOCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["happo"]`."""

    NAME: ClassVar[str] = "happo"

    critic: Literal["own", "team"] = "team"
    lag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.normalise_terms:
            raise ValueError("happo.normalise_terms = True: robots earn what the team earns, which has no terms")
        if self.lag:
            raise ValueError(f"happo.lag = {self.lag}: wanted 0, for its groups learn one after the other")


class HAPPO(PPO):
    """See `Algorithm`."""

    Cfg = HAPPOCfg

    def earned(self, team: Mapping[str, Experience]) -> Mapping[str, Experience]:
        return with_shared_reward(super().earned(team))

    def improve(self, samples: Mapping[str, Samples], fraction: float) -> dict[str, dict[str, float]]:
        """Algorithm 4 of the paper: after each group, the factor M takes in how far that has moved."""
        names, losses = list(self.policies), {}
        factor: Tensor | None = None
        order = torch.randperm(len(names), generator=self.generator, device=self.generator.device)
        for name in (names[i] for i in order.tolist()):
            samples[name].factor = factor
            losses[name] = self.improve_group(name, samples[name], fraction)
            moved = self.moved(self.policies[name], samples[name])
            factor = moved if factor is None else factor * moved
        return losses

    def moved(self, policy: GaussianPolicy, samples: Samples) -> Tensor:
        """Probability ratio (S, 1) of what all robots of a group did together, now to then."""

        def ratio(rows: slice) -> Tensor:
            part = samples.rows(torch.arange(rows.start, rows.stop, device=samples.log_prob.device))
            change = log_prob(part.action, policy.mean(part.features), policy.log_std, policy.driven) - part.log_prob
            if part.weight is not None:  # an action that was not felt changes nothing
                change = change * (part.weight > 0)
            return change.sum(-1, keepdim=True).exp()

        return over_rows(self.workers, ratio, len(samples.log_prob))
