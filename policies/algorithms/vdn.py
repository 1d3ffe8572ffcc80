"""Value decomposition (VDN, Sunehag et al. 2017, arXiv:1706.05296): what a team earns is learned as a sum over robots.

Only the team's reward is needed; how much of it each robot earns is found out. The paper's agents choose among a few
actions; here each robot's action is that of a deterministic policy, learned as in TD3 from the robot's own part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from policies.algorithms.algorithm import Experience, Group, common, with_shared_reward
from policies.algorithms.learner import Batch, Others, set_gradients
from policies.algorithms.td3 import TD3, TD3Cfg
from policies.threads import Workers


@dataclass(frozen=True)
class VDNCfg(TD3Cfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["vdn"]`."""

    NAME: ClassVar[str] = "vdn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.critic != "own":
            raise ValueError(f"vdn.critic = {self.critic!r}: own, for a robot's part is of what itself sees and does")


class VDN(TD3):
    """See `Algorithm`."""

    Cfg = VDNCfg

    def __init__(self, groups: Mapping[str, Group], generator: torch.Generator, workers: Workers) -> None:
        common(groups, "critics")  # each is a part of the team's
        super().__init__(groups, generator, workers)

    def record(self, t: int, team: Mapping[str, Experience]) -> None:
        super().record(t, with_shared_reward(team))

    def improve_critics(
        self, batches: Mapping[str, Batch], proposed: Mapping[str, Any], now: Others, later: Others
    ) -> dict[str, dict[str, Tensor]]:
        """One step of all critics for the error of their sum, the team's value.

        The mean over robots is learned rather than the sum, so that values are as large in teams of any size.
        """
        parts, futures, rewards = [], [], []
        for name, each in self.learners.items():
            batch, (action, _) = batches[name], proposed[name]
            parts.append(each.critic(batch.features, batch.action, {}))
            with torch.no_grad():
                futures.append(batch.discount * each.targets["critic"](batch.after, action, {}))
            rewards.append(batch.reward)
        value = torch.cat(parts, dim=-1).mean(-1)  # (count, B) of the team
        wanted = (torch.cat(rewards, dim=-1) + torch.cat(futures, dim=-1)).mean(-1).amin(0)
        loss = (value - wanted).square().sum(0).mean()
        set_gradients([p for each in self.learners.values() for p in each.critic.parameters()], loss, self.shards)
        for each in self.learners.values():
            each.optimisers["critic"].step()
        numbers = {"loss/value": loss.detach(), "value": value.detach().mean()}
        return {name: dict(numbers) for name in self.learners}
