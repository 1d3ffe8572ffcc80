"""What one group has of an algorithm that learns from a replay: policy, critics, their slow copies, optimisers.

Values are averages of future reward, (1 - gamma) times the sum, so that the size of rewards needs no tuning to the
horizon.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from hardware.ranges import check_fields
from policies.algorithms.adam import Adam
from policies.algorithms.algorithm import Group, mean
from policies.algorithms.smooth import SmoothCfg, roughness
from policies.networks.critic import QFunction
from policies.networks.normaliser import Features
from policies.shards import ALONE, Shards

Others = Mapping[str, Tensor]  # group -> (B, M, .) features and actions of its robots, for a team's critic


@dataclass(frozen=True)
class OffPolicyCfg(SmoothCfg):
    """Hyperparameters that all of these have; groups of a team differ in `learning_rate`, `tau` and `critics` only."""

    NAME: ClassVar[str]

    num_steps: int = 4  # control periods between updates
    gamma: float = 0.98
    n_step: int = 1  # control periods whose rewards are in a target
    learning_rate: float = 1e-3
    batch: int = 1024  # agent steps of a gradient step, of all groups
    updates: int = 16  # gradient steps after each `num_steps`
    replay: int = 200_000  # agent steps that are remembered, of all groups
    warm_up: int = 10_000  # agent steps of chance before learning begins, of all groups
    tau: float = 0.02  # share of the networks that goes into their slow copies in a step
    delay: int = 1  # gradient steps of the critics for one of the policy
    critics: int = 2  # the least of whose values is believed
    critic: Literal["own", "team"] = "own"  # "team" sees what all robots see and do

    def __post_init__(self) -> None:
        super().__post_init__()
        prefix = f"{self.NAME}."
        check_fields(prefix, self, num_steps=(1, 100_000), updates=(1, 10_000), delay=(1, 1000), batch=(1, inf))
        check_fields(prefix, self, replay=(1, inf), warm_up=(0, inf), gamma=(0, 1), tau=(0, 1), learning_rate=(0, 1))
        check_fields(prefix, self, n_step=(1, 1000), critics=(1, 100))
        if self.gamma == 1:
            raise ValueError(f"{prefix}gamma = 1: below 1, for values are (1 - gamma) times a sum of rewards")
        if self.temporal_smoothness and self.n_step > 1:
            raise ValueError(f"{prefix}temporal_smoothness with {prefix}n_step = {self.n_step}: one of the two")


@dataclass
class Batch:
    """Rows of one group: B worlds in some step, of N robots."""

    features: Features  # of what was seen
    after: Features  # of what it led to
    action: Tensor  # (B, N, U)
    reward: Tensor  # (B, N) per control step, (1 - gamma) times as large
    discount: Tensor  # (B, N) of the value of what it led to
    weight: Tensor | None  # (B, N) of mean 1, see `weights`


class Learner(ABC):
    """Policy, critics, their slow copies and optimisers of one group."""

    Policy: type
    outputs = 1  # of a critic, for an action
    error_scale = 1.0  # of the critics' squared error
    shards: Shards = ALONE  # whose gradients count; each has rows of its own

    def __init__(self, group: Group, groups: Mapping[str, int], generator: torch.Generator) -> None:
        """`groups`: other group -> number of features and actions of its robots."""
        self.cfg: Any = group.cfg
        self.generator = generator
        self.policy: Any = self.make_policy(group)
        self.critic = QFunction(
            group.dims,
            group.width,
            self.cfg.critics,
            kind=self.cfg.critic,
            network=group.network,
            num_agents=group.shape[1],
            groups=groups,
            outputs=self.outputs,
            mirror=self.policy.mirror,
        )
        self.take_targets()
        self.optimisers = {part: self.make_optimiser(getattr(self, part).parameters()) for part in ("policy", "critic")}

    def make_policy(self, group: Group) -> Any:
        """A new policy of the kind that this learns."""
        return self.Policy(**group.policy)

    def make_optimiser(self, params: Iterable[Tensor]) -> Adam:
        """One at the configured learning rate."""
        return Adam(params, lr=self.cfg.learning_rate, fused=True)

    def take_targets(self) -> None:
        """The slow copies are now what the networks are."""
        self.targets: dict[str, Any] = {"critic": deepcopy(self.critic)}

    @abstractmethod
    def propose(self, after: Features) -> tuple[Tensor, Tensor | float]:
        """The action (B, N, U) whose value is the target, and what its entropy adds to that value."""

    def critic_loss(
        self, batch: Batch, others: Others, action: Tensor, bonus: Any, later: Others
    ) -> tuple[Tensor, Any]:
        """Squared error of all critics, and what to log; `action`, `bonus` and `later` are of what is seen next."""
        with torch.no_grad():
            future = self.believed(self.targets["critic"](batch.after, action, later)) + bonus
            wanted = batch.reward + batch.discount * future
        values = self.critic(batch.features, batch.action, others)
        loss = self.error_scale * mean((values - wanted).square().sum(0), batch.weight)
        return loss, {"loss/value": loss.detach(), "value": values.detach().mean()}

    def believed(self, values: Tensor) -> Tensor:
        """What a target takes for the value (B, N), of those of all critics (count, B, N): the least."""
        return values.amin(0)

    @abstractmethod
    def improve_policy(self, batch: Batch, others: Others) -> dict[str, Tensor]:
        """One gradient step of the policy, and of what is learned beside it; returns what to log."""

    def roughness(self, batch: Batch) -> Tensor | float:
        """What the policy's loss grows by where its actions are not smooth."""
        seen, after = batch.features, batch.after
        return roughness(self.policy.middle, seen, after, batch.weight, self.cfg, self.generator)

    def descend(self, part: str, loss: Tensor) -> None:
        """One step of the optimiser of the policy or the critic."""
        set_gradients(list(getattr(self, part).parameters()), loss, self.shards)
        self.optimisers[part].step()

    @torch.no_grad()
    def follow(self) -> None:
        """The slow copies move a little towards the networks; their statistics are those of the policy."""
        for part, slow in self.targets.items():
            for old, new in zip(slow.parameters(), getattr(self, part).parameters(), strict=True):
                old.lerp_(new, self.cfg.tau)

    def _parts(self) -> dict[str, Any]:
        targets = {f"target/{name}": network for name, network in self.targets.items()}
        optimisers = {f"optimiser/{name}": optimiser for name, optimiser in self.optimisers.items()}
        return {"critic": self.critic, **targets, **optimisers}

    def state_dict(self) -> dict[str, Any]:
        """All but the policy."""
        return {name: part.state_dict() for name, part in self._parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, part in self._parts().items():
            part.load_state_dict(state[name])


def set_gradients(params: Sequence[nn.Parameter], loss: Tensor, shards: Shards) -> None:
    """Give `params` the gradient of the mean of all shards' `loss`; None where none depends on one."""
    grads = torch.autograd.grad(loss, params, allow_unused=True)
    means = iter(shards.mean([grad for grad in grads if grad is not None]))
    for parameter, grad in zip(params, grads, strict=True):
        parameter.grad = None if grad is None else next(means)


def shown(features: Features, action: Tensor) -> Tensor:
    """What critics of other groups are shown of robots, (B, N, D)."""
    return torch.cat([features.whole(), action], dim=-1)


def without(parts: Others, name: str) -> dict[str, Tensor]:
    """The parts of all groups but `name`."""
    return {other: part for other, part in parts.items() if other != name}
