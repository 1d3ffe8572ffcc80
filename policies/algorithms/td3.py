"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018), parameters shared by all robots of a group.

With `critics=1, delay=1, target_noise=0` it is DDPG (Lillicrap et al. 2016); with `critic="team"` beside that, MADDPG
(Lowe et al. 2017): critics see what all robots see and do, policies only what their own robot sees.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hardware.ranges import check_fields
from policies.algorithms.algorithm import Group, mean
from policies.algorithms.learner import Batch, Learner, OffPolicyCfg, Others
from policies.algorithms.off_policy import OffPolicy
from policies.networks.normaliser import Features
from policies.networks.squashed import DeterministicPolicy


@dataclass(frozen=True)
class TD3Cfg(OffPolicyCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["td3"]`."""

    NAME: ClassVar[str] = "td3"

    delay: int = 2  # gradient steps of the critics for one of the policy
    noise: float = 0.2  # of exploration, standard deviation
    target_noise: float = 0.2  # of the action whose value is the target, standard deviation
    target_clip: float = 0.5  # of that noise

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(f"{self.NAME}.", self, noise=(0, 10), target_noise=(0, 10), target_clip=(0, 10))


class TD3Learner(Learner):
    """See `Learner`; Algorithm 1 of the paper."""

    Policy = DeterministicPolicy

    def make_policy(self, group: Group) -> DeterministicPolicy:
        policy: DeterministicPolicy = super().make_policy(group)
        policy.noise = group.cfg.noise
        return policy

    def take_targets(self) -> None:
        super().take_targets()
        self.targets["policy"] = deepcopy(self.policy)

    def propose(self, after: Features) -> tuple[Tensor, Tensor | float]:
        """What the slow policy does, with noise that is clipped."""
        best = self.targets["policy"].act(after)
        noise = torch.randn(best.shape, generator=self.generator, device=best.device, dtype=best.dtype)
        clipped = (noise * self.cfg.target_noise).clamp(-self.cfg.target_clip, self.cfg.target_clip)
        return (best + clipped).clamp(-1, 1) * self.policy.driven, 0.0

    def improve_policy(self, batch: Batch, others: Others) -> dict[str, Tensor]:
        """Towards what the first critic believes better."""
        loss = -mean(self.critic(batch.features, self.policy.act(batch.features), others)[0], batch.weight)
        self.descend("policy", loss + self.roughness(batch))
        return {"loss/policy": loss.detach()}


class TD3(OffPolicy):
    """See `Algorithm`."""

    Cfg = TD3Cfg
    Policy = DeterministicPolicy
    Learner = TD3Learner
