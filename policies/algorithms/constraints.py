"""Limits on named costs, each with a multiplier that is learned beside the policy (primal-dual).

A cost is a term of the reward with the other sign, as the task weighs it. Learned from is the rest of the reward less
multiplier times cost. The multiplier begins at 1, which is the task's own weight, and rises while the cost is above its
limit: projected gradient ascent of the Lagrangian, as in Ying et al. 2023, arXiv:2305.17568.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hardware.names import nearest
from policies.algorithms.algorithm import Experience, Group
from policies.shards import Shards


class Limits:
    """Costs, limits and multipliers of all groups; costs are means over control steps and robots that acted."""

    def __init__(self, groups: Mapping[str, Group]) -> None:
        """ValueError where a limit is of a term that the group's reward does not have."""
        for name, group in groups.items():
            if group.terms and (unknown := sorted(set(group.cfg.limits) - set(group.terms))):
                known = f"{', '.join(group.terms)}{nearest(unknown[0], group.terms)}"
                raise ValueError(f"limits of {name!r}: {unknown[0]!r} is none of {known}")
        self.limits: dict[str, dict[str, float]] = {name: dict(group.cfg.limits) for name, group in groups.items()}
        self.rates: dict[str, float] = {name: group.cfg.limit_rate for name, group in groups.items()}
        self.multipliers = {name: dict.fromkeys(limits, 1.0) for name, limits in self.limits.items()}
        self.sums: dict[str, dict[str, Tensor]] = {name: {} for name in groups}  # (2,) of cost and of robots, each

    def priced(self, team: Mapping[str, Experience]) -> Mapping[str, Experience]:
        """The same steps with rewards in which each limited cost counts as much as its multiplier says."""
        if not any(self.limits.values()):
            return team
        return {name: self._priced(name, step) for name, step in team.items()}

    def _priced(self, name: str, step: Experience) -> Experience:
        reward, sums = step.reward, self.sums[name]
        for cost, multiplier in self.multipliers[name].items():
            term = step.reward_terms[cost]
            reward = reward + (multiplier - 1.0) * term
            seen = torch.stack([-(term * step.acted).sum(), step.acted.sum()])
            sums[cost] = sums.get(cost, torch.zeros_like(seen)) + seen
        return replace(step, reward=reward)

    def update(self, name: str, shards: Shards) -> dict[str, float]:
        """Move the multipliers of a group by what its costs came to since the last update; returns what to log."""
        said: dict[str, float] = {}
        for cost, seen in self.sums[name].items():
            found = torch.stack(shards.gather(seen)).sum(0)
            mean, limit = float(found[0] / found[1].clamp(min=1)), self.limits[name][cost]
            step = self.rates[name] * (mean / limit - 1.0)
            self.multipliers[name][cost] = max(0.0, self.multipliers[name][cost] + step)
            said |= {f"cost/{cost}": mean, f"multiplier/{cost}": self.multipliers[name][cost]}
        self.sums[name].clear()
        return said

    def state_dict(self) -> dict[str, Any]:
        """But for the `sums`, which are of a shard's own experience."""
        return {"multipliers": {name: dict(held) for name, held in self.multipliers.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.multipliers = {name: dict(held) for name, held in state["multipliers"].items()}
