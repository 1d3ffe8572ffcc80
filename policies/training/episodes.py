"""What episodes come to, for the learning curve."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from policies.shards import Shards


@dataclass
class Episodes:
    """Running return of every world's episode, and what the last whole episode of every world came to.

    One episode a world, whenever it ended: over those that end in one rollout, short ones, which are failures, would
    count too often. The first of a world does not count, for worlds begin out of step: it is cut short.
    """

    running: dict[str, Tensor]  # group -> (W,) return so far, mean over the robots; NaN in a world's first episode
    last: dict[str, Tensor] = field(default_factory=dict)  # number -> (W,), NaN where no episode has ended yet
    terms: dict[str, Tensor] = field(default_factory=dict)  # sum over the rollout's steps, worlds and robots

    def clear(self) -> None:
        """Forget the rewards of the last rollout; episodes go on."""
        self.terms.clear()

    def add(self, step: Any) -> None:
        whole = step.ended & next(iter(self.running.values())).isfinite()
        over = bool(step.ended.any())
        for group, running in self.running.items():
            label = f"{group}/" if len(self.running) > 1 else ""
            running += step.reward[group].mean(-1)
            for name, value in step.reward_terms[group].items():
                key = f"{label}reward/{name}"
                self.terms[key] = self.terms.get(key, 0.0) + value.sum()
            if over:
                self._keep(f"{label}mean_return", running, whole)
                for name, way in step.terminations[group].items():
                    self._keep(f"{label}failure/{name}", way.any(-1), whole)
                running[step.ended] = 0.0
        if over:
            self._keep("success_rate", step.success, whole)
            self._keep("episode_steps", step.episode_length, whole)

    def _keep(self, name: str, value: Tensor, ended: Tensor) -> None:
        if not ended.any():
            return
        if name not in self.last:
            self.last[name] = torch.full_like(value, torch.nan, dtype=torch.float32)
        self.last[name] = torch.where(ended, value.float(), self.last[name])

    def everywhere(self, shards: Shards) -> "Episodes":
        """Those of all shards as one."""
        if shards.count == 1:
            return self
        terms, last = zip(*shards.gather((dict(self.terms), dict(self.last))), strict=True)
        (some, *_), names = self.running.values(), dict.fromkeys(name for part in last for name in part)
        none_yet = torch.full_like(some, torch.nan)
        return Episodes(
            self.running,
            {name: torch.cat([part.get(name, none_yet) for part in last]) for name in names},
            {name: torch.stack([part[name] for part in terms]).sum(0) for name in self.terms},
        )

    def summary(self, robots: dict[str, int], steps: int) -> dict[str, float]:
        """Means over the last episode of every world, and of each reward term per step.

        `robots` of a world by group; `steps` = T x W of the rollout.
        """
        out = {}
        for name, total in self.terms.items():
            group = name.partition("/")[0]
            out[name] = float(total) / (steps * (robots[group] if len(robots) > 1 else sum(robots.values())))
        out |= {name: float(values.nanmean()) for name, values in self.last.items()}
        if len(robots) > 1 and "success_rate" in out:
            whole = sum(robots.values())
            out["mean_return"] = sum(count / whole * out[f"{group}/mean_return"] for group, count in robots.items())
        return out
