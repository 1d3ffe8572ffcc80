"""Heterogeneous-agent soft actor-critic (Liu et al. 2024, arXiv:2306.10715): SAC for unlike robots that share one goal.

Critics see and value what the whole team does, the entropy of all robots included; policies are updated one after the
other, in a random order, each beside what the earlier ones now do. All robots earn the mean reward of the team;
robots of a group share parameters, so a group is one of the paper's agents.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from policies.algorithms.algorithm import Experience, with_shared_reward
from policies.algorithms.learner import Batch, Others, shown, without
from policies.algorithms.sac import SAC, SACCfg, SACLearner


@dataclass(frozen=True)
class HASACCfg(SACCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["hasac"]`."""

    NAME: ClassVar[str] = "hasac"

    critic: Literal["own", "team"] = "team"


class HASACLearner(SACLearner):
    """See `Learner`."""

    def price(self, log_prob: Tensor) -> Tensor:
        """The mean over a group's robots is of what each believes of the team's value, in which entropies add up."""
        return super().price(log_prob) * log_prob.shape[-1]


class HASAC(SAC):
    """See `Algorithm`."""

    Cfg = HASACCfg
    Learner = HASACLearner

    def record(self, t: int, team: Mapping[str, Experience]) -> None:
        super().record(t, with_shared_reward(team))

    def propose(self, batches: Mapping[str, Batch]) -> dict[str, tuple[Tensor, Any]]:
        """The entropy of a team is the sum of its robots'."""
        proposed = super().propose(batches)
        bonus = torch.cat([own for _, own in proposed.values()], dim=-1).sum(-1, keepdim=True)
        return {name: (action, bonus) for name, (action, _) in proposed.items()}

    def improve_policies(self, batches: Mapping[str, Batch], now: Others, said: Mapping[str, Any]) -> None:
        """One step of every policy, beside what those before it now do and those after it did before."""
        now = {name: self.acting(name, batches[name]) for name in batches}
        names = list(self.learners)
        order = torch.randperm(len(names), generator=self.generator, device=self.generator.device)
        for name in (names[i] for i in order.tolist()):
            said[name].update(self.learners[name].improve_policy(batches[name], without(now, name)))
            now[name] = self.acting(name, batches[name])

    @torch.no_grad()
    def acting(self, name: str, batch: Batch) -> Tensor:
        """What the robots of a group see, and an action of their policy as it is now."""
        return shown(batch.features, self.policies[name].act(batch.features, self.generator)[0])
