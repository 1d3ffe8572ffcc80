"""Proximal policy optimisation (Schulman et al. 2017) with parameters shared by all robots of a group.

With `critic="own"` every robot learns from its own view (IPPO); with "team" from that of all groups (MAPPO).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log, pi
from typing import Any, Literal

import torch
from torch import Tensor, nn

from policies.algorithms.algorithm import Clock, Experience, Group, common, labelled, over_rows
from policies.algorithms.gae import gae, next_values
from policies.algorithms.rollout import Rollout
from policies.networks.critic import Critic
from policies.networks.normaliser import Features
from policies.networks.policy import GaussianPolicy, log_prob
from policies.threads import Workers
from sim.envs.observation import Observation


@dataclass(frozen=True)
class PPOCfg:
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["ppo"]`."""

    num_steps: int = 16  # control periods per iteration
    epochs: int = 4
    minibatch: int = 4096  # agent steps
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float | None = 0.2  # of the probability ratio; None for a plain policy gradient
    value_clip: float | None = None  # of the value's change, in standard deviations of the return
    value_coef: float = 1.0
    entropy_coef: float = 0.0
    learning_rate: float = 1e-3
    schedule: Literal["adaptive", "linear", "constant"] = "adaptive"
    target_kl: float = 0.01  # of the adaptive schedule
    max_learning_rate: float = 3e-3  # of the adaptive schedule
    max_grad_norm: float | None = 1.0
    normalise_advantage: bool = True
    normalise_returns: bool = True
    min_std: float = 0.05
    optimiser: Literal["adam", "sgd"] = "adam"
    critic: Literal["own", "team"] = "own"

    def __post_init__(self) -> None:
        for name in ("num_steps", "epochs", "minibatch"):
            if getattr(self, name) < 1:
                raise ValueError(f"ppo.{name} = {getattr(self, name)}: at least 1")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"ppo.{name} = {getattr(self, name)}: 0 to 1")
        if not self.learning_rate >= 0:
            raise ValueError(f"ppo.learning_rate = {self.learning_rate}: at least 0")


class PPO:
    """See `Algorithm`. Each group has its policy, its critic and one optimiser for both."""

    Cfg = PPOCfg
    Policy = GaussianPolicy

    def __init__(self, groups: Mapping[str, Group], generator: torch.Generator, workers: Workers) -> None:
        self.groups, self.generator, self.workers = groups, generator, workers
        self.horizon: int = common(groups, "num_steps")
        self.policies: dict[str, GaussianPolicy] = {}
        self.critics: dict[str, Critic] = {}
        for name, group in groups.items():
            net = group.network
            self.policies[name] = GaussianPolicy(
                group.dims, len(group.driven), net.hidden, net.peer_embed, group.driven, init_std=net.init_std
            )
            others = {n: g.dims.policy + g.dims.privileged for n, g in groups.items() if n != name}
            self.critics[name] = Critic(group.dims, group.cfg.critic, net, group.shape[1], others)
        self.optimisers = {n: make_optimiser(p, self.critics[n], groups[n].cfg) for n, p in self.policies.items()}
        self.rollouts = {name: Rollout(self.horizon, group) for name, group in groups.items()}

    def record(self, t: int, team: Mapping[str, Experience]) -> None:
        """See `Algorithm`."""
        for name, rollout in self.rollouts.items():
            rollout.record(t, team[name])

    def update(self, last: Mapping[str, Observation], clock: Clock) -> dict[str, float]:
        """See `Algorithm`."""
        samples = self.samples(last)
        losses = {
            name: update(
                policy, self.critics[name], self.optimisers[name], samples[name], self.groups[name].cfg,
                self.generator, self.workers, clock.fraction,
            )
            for name, policy in self.policies.items()
        }  # fmt: skip
        # Only now: while the samples were taken and learned from, the statistics had to stand still.
        for name, policy in self.policies.items():
            policy.normaliser.update(self.rollouts[name].obs)
        return labelled(losses)

    @torch.no_grad()
    def samples(self, last: Mapping[str, Observation]) -> dict[str, "Samples"]:
        """Advantages, and everything flattened to (T x W, N, ...) with the observations normalised once."""
        features = self._features({name: rollout.rows() for name, rollout in self.rollouts.items()})
        after = self._features(last)
        finals = {name: rollout.finals() for name, rollout in self.rollouts.items()}
        ended = self._features(finals) if all(obs is not None for obs in finals.values()) else None
        out = {}
        for name, rollout in self.rollouts.items():
            cfg, critic = self.groups[name].cfg, self.critics[name]

            def value(rows: slice, name: str = name, critic: Critic = critic) -> Tensor:
                return critic.value(*_team(_sliced(features, rows), name))

            shape = rollout.reward.shape
            values = over_rows(self.workers, value, shape[0] * shape[1]).reshape(shape)
            last_value = critic.value(*_team(after, name))
            terminal = critic.value(*_team(ended, name)).flatten() if ended else last_value[:0, 0]
            following = next_values(values, last_value, rollout.ended, terminal)
            advantages, returns = gae(
                rollout.reward, values, following, rollout.terminated, rollout.ended, cfg.gamma, cfg.gae_lambda
            )
            own, others = _team(features, name)
            columns = (rollout.action, rollout.log_prob, values, advantages, returns)
            out[name] = Samples(own, others if critic.groups else {}, *(column.flatten(0, 1) for column in columns))
        return out

    def _features(self, obs: Mapping[str, Any]) -> dict[str, Features]:
        return {name: policy.normaliser(obs[name]) for name, policy in self.policies.items()}

    def networks(self) -> dict[str, nn.Module]:
        """See `Algorithm`."""
        kinds: dict[str, Mapping[str, nn.Module]] = {"policy": self.policies, "critic": self.critics}
        return {
            kind if len(nets) == 1 else f"{group}/{kind}": net
            for kind, nets in kinds.items()
            for group, net in nets.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """See `Algorithm`."""
        parts: dict[str, Mapping[str, Any]] = {"critics": self.critics, "optimisers": self.optimisers}
        return {part: {name: value.state_dict() for name, value in held.items()} for part, held in parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Algorithm`."""
        for part, held in (("critics", self.critics), ("optimisers", self.optimisers)):
            for name, value in held.items():
                value.load_state_dict(state[part][name])

    def start_from(self, state: Mapping[str, Any]) -> None:
        """The critics; RuntimeError where they are of another size."""
        for name, critic in self.critics.items():
            critic.load_state_dict(state["critics"][name])


def _sliced(features: Mapping[str, Features], rows: slice) -> dict[str, Features]:
    return {
        n: Features(f.own[rows], f.peers[:, rows], f.valid[:, rows], f.privileged[rows]) for n, f in features.items()
    }


def _team(features: Mapping[str, Features], name: str) -> tuple[Features, dict[str, Tensor]]:
    """Features of the group `name`, and what all robots of each other group see and only critics are shown."""
    return features[name], {other: value.whole() for other, value in features.items() if other != name}


@dataclass
class Samples:
    """One iteration's experience of a group: S = T x W rows of N robots."""

    features: Features  # own (S, N, .), peers (P, S, N, .), valid (P, S, N), privileged (S, N, .)
    others: Mapping[str, Tensor]  # (S, M, .) of every other group, where the critic looks at them
    action: Tensor  # (S, N, U)
    log_prob: Tensor  # (S, N)
    value: Tensor  # (S, N) in units of reward
    advantage: Tensor  # (S, N)
    returns: Tensor  # (S, N)

    def rows(self, index: Tensor) -> "Samples":
        """A minibatch: the rows `index` (m,)."""
        names = ("action", "log_prob", "value", "advantage", "returns")
        columns = {name: getattr(self, name).index_select(0, index) for name in names}
        others = {name: value.index_select(0, index) for name, value in self.others.items()}
        return Samples(self.features.rows(index), others, **columns)


def make_optimiser(policy: GaussianPolicy, critic: Critic, cfg: PPOCfg) -> torch.optim.Optimizer:
    """One optimiser for both networks, at `cfg.learning_rate`."""
    params = [*policy.parameters(), *critic.parameters()]
    if cfg.optimiser == "sgd":
        return torch.optim.SGD(params, lr=cfg.learning_rate)
    return torch.optim.Adam(params, lr=cfg.learning_rate, eps=1e-5, fused=True)


def loss(policy: GaussianPolicy, critic: Critic, batch: Samples, cfg: PPOCfg) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO loss of a minibatch, and its parts (each a scalar tensor)."""
    new_log_prob = log_prob(batch.action, policy.mean(batch.features), policy.log_std, policy.driven)
    log_ratio = new_log_prob - batch.log_prob
    ratio = log_ratio.exp()
    gain = ratio * batch.advantage
    if cfg.clip is not None:
        gain = torch.minimum(gain, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * batch.advantage)
    objective = -gain.mean()

    value = critic(batch.features, batch.others)
    error = (value - batch.returns).square()
    if cfg.value_clip is not None:
        near = batch.value + (value - batch.value).clamp(-cfg.value_clip, cfg.value_clip)
        error = torch.maximum(error, (near - batch.returns).square())
    value_error = 0.5 * error.mean()

    entropy = (policy.driven * (policy.log_std + 0.5 * log(2 * pi * 2.718281828459045))).sum()
    total = objective + cfg.value_coef * value_error - cfg.entropy_coef * entropy
    with torch.no_grad():
        kl = (ratio - 1 - log_ratio).mean()
    return total, {"loss/policy": objective, "loss/value": value_error, "entropy": entropy, "kl": kl}


def update(
    policy: GaussianPolicy,
    critic: Critic,
    optimiser: torch.optim.Optimizer,
    samples: Samples,
    cfg: PPOCfg,
    generator: torch.Generator,
    workers: Workers,
    fraction: float = 0.0,
) -> dict[str, float]:
    """Several epochs over `samples`; returns means of the losses, kl, lr, explained variance.

    `fraction` is how much of the training is over (0 to 1), for the linear schedule. Observation statistics must stay
    as they were when the samples were taken.
    """
    if cfg.schedule == "linear":
        _set_lr(optimiser, cfg.learning_rate * max(1.0 - fraction, 0.02))
    explained = 1 - (samples.returns - samples.value).var() / samples.returns.var().clamp(min=1e-12)
    samples = _standardise(samples, critic, cfg)
    rows, agents = samples.log_prob.shape
    size = max(1, min(cfg.minibatch // agents, rows))
    params = [p for group in optimiser.param_groups for p in group["params"]]
    sums: dict[str, Tensor] = {}
    count = 0
    for _ in range(cfg.epochs):
        epoch_kl, batches = torch.zeros(()), 0
        order = torch.randperm(rows, generator=generator, device=samples.log_prob.device)
        # A last, smaller minibatch would be as loud as a full one: its rows wait for the next epoch's permutation.
        for start in range(0, rows - size + 1, size):
            parts = _gradients(policy, critic, params, samples, order[start : start + size], cfg, workers)
            if cfg.max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(params, cfg.max_grad_norm)
            optimiser.step()
            with torch.no_grad():
                policy.log_std.clamp_(min=log(cfg.min_std))
            for name, value in parts.items():
                sums[name] = sums.get(name, torch.zeros(())) + value
            epoch_kl, batches, count = epoch_kl + parts["kl"], batches + 1, count + 1
        if cfg.schedule == "adaptive":
            _adapt_lr(optimiser, float(epoch_kl) / batches, cfg)
    means = {name: float(value) / count for name, value in sums.items()}
    std = float((policy.driven * policy.log_std.detach().exp()).sum() / policy.driven.sum())
    return means | {"lr": optimiser.param_groups[0]["lr"], "action_std": std, "explained_variance": float(explained)}


def _gradients(
    policy: GaussianPolicy,
    critic: Critic,
    params: list[torch.nn.Parameter],
    samples: Samples,
    index: Tensor,
    cfg: PPOCfg,
    workers: Workers,
) -> dict[str, Tensor]:
    """Set the gradients of a minibatch's loss, its pieces worked on in parallel; returns the parts of the loss."""

    def piece(rows: slice) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        total, parts = loss(policy, critic, samples.rows(index[rows]), cfg)
        share = (rows.stop - rows.start) / len(index)
        return torch.autograd.grad(total * share, params), {k: v.detach() * share for k, v in parts.items()}

    pieces = workers.over_rows(piece, len(index))
    for i, parameter in enumerate(params):
        parameter.grad = sum(grads[i] for grads, _ in pieces)  # type: ignore[assignment]
    return {name: sum(parts[name] for _, parts in pieces) for name in pieces[0][1]}  # type: ignore[misc]


def _standardise(samples: Samples, critic: Critic, cfg: PPOCfg) -> Samples:
    """Advantages to zero mean and unit variance; returns and values to the scale that the critic predicts."""
    advantage = samples.advantage
    if cfg.normalise_advantage:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    if cfg.normalise_returns:
        critic.returns.take(samples.returns.flatten())
    returns, value = (critic.returns(x[..., None]).squeeze(-1) for x in (samples.returns, samples.value))
    return replace(samples, advantage=advantage, returns=returns, value=value)


def _adapt_lr(optimiser: torch.optim.Optimizer, kl: float, cfg: PPOCfg) -> None:
    """Learning rate down when an epoch moved the policy too far, up when it hardly moved."""
    lr = optimiser.param_groups[0]["lr"]
    if kl > 2 * cfg.target_kl:
        _set_lr(optimiser, max(lr / 1.5, 1e-5))
    elif kl < cfg.target_kl / 2:
        _set_lr(optimiser, min(lr * 1.5, cfg.max_learning_rate))


def _set_lr(optimiser: torch.optim.Optimizer, lr: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = lr
