"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018), parameters shared by all robots of a group.

Learns from a replay of what any of its policies did. Values are averages of future reward, (1 - gamma) times the sum,
so that the size of rewards needs no tuning to the horizon.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from hardware.ranges import check_fields
from policies.algorithms.algorithm import Clock, Experience, Group, common, labelled, mean, weights
from policies.networks.normaliser import Features
from policies.networks.policy import Memory, Policy
from policies.networks.trunk import Trunk, orthogonal
from policies.threads import Workers
from sim.envs.observation import Observation
from sim.tree import on_tensors


@dataclass(frozen=True)
class TD3Cfg:
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["td3"]`."""

    num_steps: int = 4  # control periods between updates
    gamma: float = 0.98
    learning_rate: float = 1e-3
    batch: int = 1024  # agent steps of a gradient step
    updates: int = 16  # gradient steps after each `num_steps`
    replay: int = 200_000  # agent steps that are remembered
    warm_up: int = 10_000  # agent steps of chance before learning begins
    noise: float = 0.2  # of exploration, standard deviation
    target_noise: float = 0.2  # of the action whose value is the target, standard deviation
    target_clip: float = 0.5  # of that noise
    delay: int = 2  # gradient steps of the critics for one of the policy
    tau: float = 0.02  # share of the networks that goes into their slow copies in a step

    def __post_init__(self) -> None:
        check_fields("td3.", self, num_steps=(1, 100_000), updates=(1, 10_000), delay=(1, 1000), batch=(1, inf))
        check_fields("td3.", self, replay=(1, inf), warm_up=(0, inf), gamma=(0, 1), tau=(0, 1), learning_rate=(0, 1))
        check_fields("td3.", self, noise=(0, 10), target_noise=(0, 10), target_clip=(0, 10))


class DeterministicPolicy(Policy):
    """Its action is bounded by tanh; while learning, noise of the standard deviation `noise` is added to it."""

    noise = 0.0

    def forward(self, obs: Any, memory: Memory) -> tuple[Tensor, Memory]:
        return self.act(self.normaliser(obs)), memory

    def act(self, features: Features) -> Tensor:
        """Features -> action (..., U)."""
        return torch.tanh(self.mean(features)) * self.driven

    def draw(self, mean: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The action with noise; an infinite `noise` is a uniform draw."""
        if self.noise == float("inf"):
            drawn = 2 * torch.rand(mean.shape, generator=generator, device=mean.device) - 1
        else:
            drawn = mean + self.noise * torch.randn(mean.shape, generator=generator, device=mean.device)
        return drawn.clamp(-1.0, 1.0) * self.driven, {}


class QFunction(nn.Module):
    """Two independent estimates of an action's value."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        dims, net = group.dims, group.network
        own = dims.policy + dims.privileged + len(group.driven)
        trunks = [Trunk(own, dims.neighbours, net.hidden, net.peer_embed) for _ in range(2)]
        self.trunks = nn.ModuleList(trunks)
        self.heads = nn.ModuleList(orthogonal(nn.Linear(net.hidden, 1), 0.01) for _ in trunks)

    def forward(self, features: Features, action: Tensor) -> Tensor:
        """Features and action (B, U) -> values (2, B)."""
        own = torch.cat([features.whole(), action], dim=-1)
        pairs = zip(self.trunks, self.heads, strict=True)
        return torch.stack([head(trunk(own, features.peers, features.valid)).squeeze(-1) for trunk, head in pairs])


class Replay:
    """The last control steps of all robots of a group: rows of one robot in one step, in a ring of fixed size."""

    def __init__(self, group: Group, size: int) -> None:
        worlds, robots = group.shape
        self.rows, self.count = worlds * robots, 0
        self.size = max(1, size // self.rows) * self.rows
        like = group.obs.policy
        columns = {
            "obs": group.obs,
            "next": group.obs,
            "action": like.new_zeros(worlds, robots, len(group.driven)),
            "reward": like.new_zeros(worlds, robots),
            "terminated": torch.zeros(worlds, robots, dtype=torch.bool, device=like.device),
            "acted": torch.zeros(worlds, robots, dtype=torch.bool, device=like.device),
        }
        self.columns: Any = on_tensors(lambda tensor: tensor.new_zeros(self.size, *tensor.shape[2:]), columns)

    def add(self, step: Experience) -> None:
        """One control step, (W, N, ...)."""
        start = self.count % self.size
        new = {"obs": step.obs, "next": step.final_obs, "action": step.action, "reward": step.reward}
        new |= {"terminated": step.terminated, "acted": step.acted}
        on_tensors(lambda old, value: old[start : start + self.rows].copy_(value.flatten(0, 1)), self.columns, new)
        self.count += self.rows

    def sample(self, count: int, generator: torch.Generator) -> dict[str, Any]:
        """`count` rows, drawn with replacement."""
        kept, device = min(self.count, self.size), self.columns["reward"].device
        index = torch.randint(kept, (count,), generator=generator, device=device)
        rows: dict[str, Any] = on_tensors(lambda tensor: tensor.index_select(0, index), self.columns)
        return rows


class TD3:
    """See `Algorithm`. Each group learns from its own replay."""

    Cfg = TD3Cfg
    Policy = DeterministicPolicy

    def __init__(self, groups: Mapping[str, Group], generator: torch.Generator, workers: Workers) -> None:
        self.horizon: int = common(groups, "num_steps")
        self.learners = {name: _Learner(group, generator) for name, group in groups.items()}
        self.policies = {name: learner.policy for name, learner in self.learners.items()}

    def record(self, t: int, team: Mapping[str, Experience]) -> None:
        for name, learner in self.learners.items():
            learner.record(team[name])

    def update(self, last: Mapping[str, Observation], clock: Clock) -> dict[str, float]:
        return labelled({name: learner.update() for name, learner in self.learners.items()})

    def networks(self) -> dict[str, nn.Module]:
        return labelled({name: {"policy": each.policy, "critic": each.critic} for name, each in self.learners.items()})

    def state_dict(self) -> dict[str, Any]:
        return {name: learner.state_dict() for name, learner in self.learners.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, learner in self.learners.items():
            learner.load_state_dict(state[name])

    def start_from(self, state: Mapping[str, Any]) -> None:
        """The critics; RuntimeError where they are of another size."""
        for name, learner in self.learners.items():
            learner.critic.load_state_dict(state[name]["critic"])
            learner.take_targets()


class _Learner:
    """Policy, critics, their slow copies and replay of one group."""

    def __init__(self, group: Group, generator: torch.Generator) -> None:
        self.cfg: TD3Cfg = group.cfg
        self.generator, net = generator, group.network
        self.policy = DeterministicPolicy(group.dims, len(group.driven), net.hidden, net.peer_embed, group.driven)
        self.policy.noise = float("inf")
        self.critic = QFunction(group)
        self.take_targets()
        self.optimisers = {
            "policy": torch.optim.Adam(self.policy.parameters(), lr=self.cfg.learning_rate),
            "critic": torch.optim.Adam(self.critic.parameters(), lr=self.cfg.learning_rate),
        }
        self.replay, self.steps = Replay(group, self.cfg.replay), 0

    def take_targets(self) -> None:
        """The slow copies are now what the networks are."""
        self.targets: dict[str, Any] = {"policy": deepcopy(self.policy), "critic": deepcopy(self.critic)}

    def record(self, step: Experience) -> None:
        """Into the replay, and into the statistics of observations."""
        self.replay.add(step)
        self.policy.normaliser.update(step.obs)

    def update(self) -> dict[str, float]:
        """Gradient steps, once enough has been seen; returns means of the losses."""
        if self.replay.count < self.cfg.warm_up:
            return {}
        self.policy.noise = self.cfg.noise
        sums: dict[str, Tensor] = {}
        for _ in range(self.cfg.updates):
            for name, value in self._step().items():
                sums[name] = sums.get(name, torch.zeros(())) + value
        per_policy = max(1, self.cfg.updates // self.cfg.delay)
        return {n: float(v) / (per_policy if n == "loss/policy" else self.cfg.updates) for n, v in sums.items()}

    def _step(self) -> dict[str, Tensor]:
        cfg, batch = self.cfg, self.replay.sample(self.cfg.batch, self.generator)
        with torch.no_grad():
            features, after = self.policy.normaliser(batch["obs"]), self.policy.normaliser(batch["next"])
            best = self.targets["policy"].act(after)
            noise = torch.randn(best.shape, generator=self.generator, device=best.device) * cfg.target_noise
            action = (best + noise.clamp(-cfg.target_clip, cfg.target_clip)).clamp(-1, 1) * self.policy.driven
            future = self.targets["critic"](after, action).amin(0) * ~batch["terminated"]
            wanted = (1 - cfg.gamma) * batch["reward"] + cfg.gamma * future
        values = self.critic(features, batch["action"])
        weight = weights(batch["acted"])
        loss = mean((values - wanted).square().sum(0), weight)
        self._descend("critic", loss)
        self.steps += 1
        said = {"loss/value": loss.detach(), "value": values.detach().mean()}
        if self.steps % cfg.delay == 0:
            objective = -mean(self.critic(features, self.policy.act(features))[0], weight)
            self._descend("policy", objective)
            said["loss/policy"] = objective.detach()
            self._follow()
        return said

    def _descend(self, part: str, loss: Tensor) -> None:
        optimiser = self.optimisers[part]
        params = list(getattr(self, part).parameters())
        for parameter, grad in zip(params, torch.autograd.grad(loss, params, allow_unused=True), strict=True):
            parameter.grad = grad
        optimiser.step()

    @torch.no_grad()
    def _follow(self) -> None:
        """The slow copies move a little towards the networks; their statistics are those of the policy."""
        for part, slow in self.targets.items():
            for old, new in zip(slow.parameters(), getattr(self, part).parameters(), strict=True):
                old.lerp_(new, self.cfg.tau)

    def state_dict(self) -> dict[str, Any]:
        """All but the policy."""
        return {
            "critic": self.critic.state_dict(),
            "targets": {name: network.state_dict() for name, network in self.targets.items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "replay": on_tensors(lambda column: column[: self.replay.count], self.replay.columns),
            "count": self.replay.count,
            "steps": self.steps,
            "noise": self.policy.noise,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.critic.load_state_dict(state["critic"])
        parts: dict[str, Mapping[str, Any]] = {"targets": self.targets, "optimisers": self.optimisers}
        for part, held in parts.items():
            for name, value in held.items():
                value.load_state_dict(state[part][name])
        on_tensors(lambda old, kept: old[: len(kept)].copy_(kept), self.replay.columns, state["replay"])
        self.replay.count, self.steps, self.policy.noise = state["count"], state["steps"], state["noise"]
