"""What episodes come to, for the learning curve."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Episodes:
    """Running return of every world's episode, and what those that ended in this rollout came to."""

    running: dict[str, Tensor]  # group -> (W,) return so far, mean over the robots
    ended: dict[str, list[Tensor]] = field(default_factory=dict)  # number -> its values, (k,) each
    terms: dict[str, Tensor] = field(default_factory=dict)  # sum over the rollout's steps, worlds and robots

    def clear(self) -> None:
        """Forget the last rollout; running returns go on."""
        self.ended.clear()
        self.terms.clear()

    def add(self, step: Any) -> None:
        """One `EnvStep`."""
        over = bool(step.ended.any())
        for group, running in self.running.items():
            label = f"{group}/" if len(self.running) > 1 else ""
            running += step.reward[group].mean(-1)
            for name, value in step.reward_terms[group].items():
                key = f"{label}reward/{name}"
                self.terms[key] = self.terms.get(key, 0.0) + value.sum()
            if over:
                self._keep(f"{label}mean_return", running[step.ended])
                for name, way in step.terminations[group].items():
                    self._keep(f"{label}failure/{name}", way[step.ended].any(-1).float())
                running[step.ended] = 0.0
        if over:
            self._keep("success_rate", step.success[step.ended].float())
            self._keep("episode_steps", step.episode_length[step.ended].float())

    def _keep(self, name: str, value: Tensor) -> None:
        self.ended.setdefault(name, []).append(value)

    def summary(self, robots: dict[str, int], steps: int) -> dict[str, float]:
        """Means over the episodes that ended, and of each reward term per step; `robots` by group, `steps` = T x W."""
        out = {}
        for name, total in self.terms.items():
            group = name.partition("/")[0]
            out[name] = float(total) / (steps * (robots[group] if len(robots) > 1 else sum(robots.values())))
        out |= {name: float(torch.cat(values).mean()) for name, values in self.ended.items()}
        if len(robots) > 1 and "success_rate" in out:
            whole = sum(robots.values())
            out["mean_return"] = sum(count / whole * out[f"{group}/mean_return"] for group, count in robots.items())
        return out
