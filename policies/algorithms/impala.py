"""IMPALA (Espeholt et al. 2018, arXiv:1802.01561): learning from what an older policy did, corrected by V-trace.

Actors run ahead of the learner by a fixed number of updates, so a run is the same each time, whether the two take turns
or, with a lag of 1 or more, work at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from hardware.ranges import check_fields
from policies.algorithms.algorithm import Clock, Group, common, over_rows
from policies.algorithms.ppo import PPO, PPOCfg, sliced
from policies.algorithms.rollout import Rollout
from policies.networks.normaliser import Features
from policies.networks.policy import log_prob
from policies.threads import Workers
from sim.envs.observation import Observation
from sim.tree import on_tensors


@dataclass(frozen=True)
class IMPALACfg(PPOCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["impala"]`."""

    NAME: ClassVar[str] = "impala"

    epochs: int = 1
    clip: float | None = None
    normalise_advantage: bool = False  # off policy their mean is not 0
    gae_lambda: float = 1.0  # of the traces
    lag: int = 1  # updates between a policy that acts and the one that learns from it
    rho_max: float = 1.0  # truncates the weight of a step's own error
    c_max: float = 1.0  # truncates the weight of what comes after a step
    corrected: bool = True  # False: as if the policy that learns had acted

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(f"{self.NAME}.", self, lag=(0, 1000), rho_max=(1e-3, 1e6), c_max=(1e-3, 1e6))


def vtrace(
    rewards: Tensor,
    values: Tensor,
    following: Tensor,
    rho: Tensor,
    c: Tensor,
    terminated: Tensor,
    ended: Tensor,
    gamma: float,
) -> tuple[Tensor, Tensor]:
    """Advantages and V-trace targets of the value, each [T, ...]; the paper's section on V-trace.

    rho, c [T, ...]: truncated ratios of probability, of the policy that learns to the one that acted; the rest as in
    `gae`.
    """
    advantages, targets = torch.empty_like(rewards), torch.empty_like(rewards)
    ahead = torch.zeros_like(rewards[0])  # target less value of the next step
    for t in range(rewards.shape[0] - 1, -1, -1):
        after = gamma * ahead * ~ended[t]
        error = rewards[t] + gamma * following[t] * ~terminated[t] - values[t]
        advantages[t] = error + after
        ahead = rho[t] * error + c[t] * after
        targets[t] = values[t] + ahead
    return advantages, targets


class IMPALA(PPO):
    """See `Algorithm`. Rollouts wait for `lag` updates before they are learned from."""

    Cfg = IMPALACfg

    def __init__(self, groups: Mapping[str, Group], generator: torch.Generator, workers: Workers) -> None:
        super().__init__(groups, generator, workers)
        for name, group in groups.items():
            if group.network.chunk > 1:
                raise ValueError(
                    f"network.chunk = {group.network.chunk} of {name!r}: impala learns single actions only"
                )
        self.lag: int = common(groups, "lag")
        self.waiting: list[tuple[dict[str, Rollout], Mapping[str, Observation]]] = []  # oldest first
        self.learned: tuple[dict[str, Rollout], dict[str, dict[str, float]]] | None = None  # and not settled yet

    def ahead(self, clock: Clock) -> Callable[[], None] | None:
        return partial(self._learn_oldest, clock) if 0 < self.lag <= len(self.waiting) else None

    def update(self, last: Mapping[str, Observation], clock: Clock) -> dict[str, float]:
        self.waiting.append((self.rollouts, on_tensors(torch.clone, last)))
        if self.learned is None and len(self.waiting) > self.lag:
            self._learn_oldest(clock)
        if self.learned is None:
            self.rollouts = self.make_rollouts()
            return {}
        (self.rollouts, losses), self.learned = self.learned, None
        return self.settled(self.rollouts, losses)

    def _learn_oldest(self, clock: Clock) -> None:
        rollouts, then = self.waiting.pop(0)
        self.learned = rollouts, self.learn(rollouts, then, clock)

    def targets(
        self, name: str, rollout: Rollout, own: Features, values: Tensor, following: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The log-probabilities are those of the policy as it is now, and the factor is rho."""
        cfg, policy = self.groups[name].cfg, self.policies[name]
        action = rollout.action.flatten(0, 1)

        def density(rows: slice) -> Tensor:
            return log_prob(action[rows], policy.mean(sliced(own, rows)), policy.log_std, policy.driven)

        now = over_rows(self.workers, density, len(action)).view_as(rollout.log_prob)
        change = (now - rollout.log_prob) * rollout.acted  # an action that was not felt changes nothing
        ratio = change.exp() if cfg.corrected else torch.ones_like(now)
        rho, c = ratio.clamp(max=cfg.rho_max), cfg.gae_lambda * ratio.clamp(max=cfg.c_max)
        shaped = rollout.as_reward
        terminated, ended = shaped(rollout.terminated), shaped(rollout.ended)
        found = vtrace(rollout.reward, values, following, shaped(rho), shaped(c), terminated, ended, cfg.gamma)
        return now, *found, rho

    def state_dict(self) -> dict[str, Any]:
        waiting = [({name: vars(rollout) for name, rollout in team.items()}, last) for team, last in self.waiting]
        return {**super().state_dict(), "waiting": waiting}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.waiting = []
        for team, last in on_tensors(lambda tensor: tensor.to(self.generator.device), state["waiting"]):
            rollouts = self.make_rollouts()
            for name, rollout in rollouts.items():
                vars(rollout).update(team[name])
            self.waiting.append((rollouts, last))
