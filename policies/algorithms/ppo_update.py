"""One update of PPO: samples of an iteration, the loss of a minibatch, and the gradient steps of several epochs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log, pi
from typing import Any

import torch
from torch import Tensor

from policies.algorithms.adam import Adam
from policies.algorithms.algorithm import mean
from policies.algorithms.smooth import change, nearby, noise
from policies.networks.critic import Critic
from policies.networks.normaliser import Features
from policies.networks.policy import GaussianPolicy, log_prob
from policies.shards import Shards
from policies.threads import Workers


@dataclass
class Samples:
    """One iteration's experience of a group: S = T x W rows of N robots."""

    features: Features  # own (S, N, .), peers (P, S, N, .), valid (P, S, N), privileged (S, N, .)
    others: Mapping[str, Tensor]  # (S, M, .) of every other group, where the critic looks at them
    action: Tensor  # (S, N, U)
    log_prob: Tensor  # (S, N)
    value: Tensor  # (S, N) in units of reward; (S, N, K), as the next two, where K of its terms are learned apart
    advantage: Tensor  # (S, N)
    returns: Tensor  # (S, N)
    weight: Tensor | None = None  # (S, N) of mean 1; None where all samples count alike
    factor: Tensor | None = None  # (S, 1) or (S, N) of the objective, see happo.py and `PPO.targets`
    next_row: Tensor | None = None  # (S,) row of what was seen next, where that counts
    after: Features | None = None  # of a minibatch: what was seen next
    nearby: Features | None = None  # of a minibatch: what is seen, a little off

    def rows(self, index: Tensor) -> "Samples":
        """A minibatch: the rows `index` (m,)."""
        names = ("action", "log_prob", "value", "advantage", "returns", "weight", "factor")
        held = {name: getattr(self, name) for name in names}
        columns = {name: value.index_select(0, index) for name, value in held.items() if value is not None}
        others = {name: value.index_select(0, index) for name, value in self.others.items()}
        after = None if self.next_row is None else self.features.rows(self.next_row.index_select(0, index))
        return Samples(self.features.rows(index), others, **columns, after=after)

    def counted(self, values: Tensor, shards: Shards) -> Tensor:
        """Of `values` (S, N) those that count, of all shards."""
        everywhere = shards.joined(values)
        return everywhere if self.weight is None else everywhere[shards.joined(self.weight) > 0]


def make_optimiser(policy: GaussianPolicy, critic: Critic, cfg: Any) -> torch.optim.Optimizer:
    """One optimiser for both networks, at `cfg.learning_rate`."""
    params = [*policy.parameters(), *critic.parameters()]
    if cfg.optimiser == "sgd":
        return torch.optim.SGD(params, lr=cfg.learning_rate)
    return Adam(params, lr=cfg.learning_rate, eps=1e-5, fused=True)


def loss(policy: GaussianPolicy, critic: Critic, batch: Samples, cfg: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO loss of a minibatch, and its parts (each a scalar tensor)."""
    action = policy.mean(batch.features)
    new_log_prob = log_prob(batch.action, action, policy.log_std, policy.driven)
    log_ratio = new_log_prob - batch.log_prob
    ratio = log_ratio.exp()
    gain = ratio * batch.advantage
    if cfg.clip is not None:
        gain = torch.minimum(gain, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * batch.advantage)
    if batch.factor is not None:
        gain = gain * batch.factor
    objective = -mean(gain, batch.weight)

    value = critic(batch.features, batch.others)
    error = (value - batch.returns).square()
    if cfg.value_clip is not None:
        near = batch.value + (value - batch.value).clamp(-cfg.value_clip, cfg.value_clip)
        error = torch.maximum(error, (near - batch.returns).square())
    if error.dim() > new_log_prob.dim():
        error = error.mean(-1)
    value_error = 0.5 * mean(error, batch.weight)

    entropy = (policy.driven * (policy.log_std + 0.5 * log(2 * pi * 2.718281828459045))).sum()
    total = objective + cfg.value_coef * value_error - cfg.entropy_coef * entropy
    with torch.no_grad():
        kl = mean(ratio - 1 - log_ratio, batch.weight)
    parts = {"loss/policy": objective, "loss/value": value_error, "entropy": entropy, "kl": kl}
    smooth = {"temporal": (batch.after, cfg.temporal_smoothness), "spatial": (batch.nearby, cfg.spatial_smoothness)}
    for name, (features, weight) in smooth.items():
        if features is not None:
            changed = change(action, policy.mean(features), batch.weight)
            total, parts[f"loss/{name}"] = total + weight * changed, changed
    return total, parts


def update(
    policy: GaussianPolicy,
    critic: Critic,
    optimiser: torch.optim.Optimizer,
    samples: Samples,
    cfg: Any,
    generator: torch.Generator,
    workers: Workers,
    fraction: float = 0.0,
    only_critic: bool = False,
) -> dict[str, float]:
    """Several epochs over `samples`; returns means of the losses, kl, lr, explained variance.

    `fraction` is how much of the training is over (0 to 1), for the linear schedule. Observation statistics must stay
    as they were when the samples were taken. With `only_critic` the policy stays as it is.
    """
    if cfg.schedule == "linear":
        _set_lr(optimiser, cfg.learning_rate * max(1.0 - fraction, 0.02))
    shards = workers.shards
    returns, value = (x if x.dim() == 2 else x.sum(-1) for x in (samples.returns, samples.value))
    error = samples.counted(returns - value, shards)
    explained = 1 - error.var() / samples.counted(returns, shards).var().clamp(min=1e-12)
    samples = _standardise(samples, critic, cfg, shards)
    rows, agents = samples.log_prob.shape
    size = max(1, min(cfg.minibatch // (agents * shards.count), rows))
    params = [p for group in optimiser.param_groups for p in group["params"]]
    sums: dict[str, Tensor] = {}
    count = 0
    for _ in range(cfg.epochs):
        epoch_kl, batches = torch.zeros(()), 0
        order = torch.randperm(rows, generator=generator, device=samples.log_prob.device)
        # A last, smaller minibatch would be as loud as a full one: its rows wait for the next epoch's permutation.
        for start in range(0, rows - size + 1, size):
            parts = _gradients(policy, critic, params, samples, order[start : start + size], cfg, generator, workers)
            if only_critic:
                for parameter in policy.parameters():
                    parameter.grad = torch.zeros_like(parameter)
            if cfg.max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(params, cfg.max_grad_norm)
            optimiser.step()
            with torch.no_grad():
                policy.log_std.clamp_(min=log(cfg.min_std))
            for name, value in parts.items():
                sums[name] = sums.get(name, torch.zeros(())) + value
            epoch_kl, batches, count = epoch_kl + parts["kl"], batches + 1, count + 1
        if cfg.schedule == "adaptive" and not only_critic:  # a policy that stands still says nothing of the rate
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
    cfg: Any,
    generator: torch.Generator,
    workers: Workers,
) -> dict[str, Tensor]:
    """Set the gradients of a minibatch's loss, its pieces worked on in parallel; returns the parts of the loss."""
    own, off = samples.features.own, None
    if cfg.spatial_smoothness:
        off = noise(own, len(index), cfg, generator)

    def piece(rows: slice) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        batch = samples.rows(index[rows])
        if off is not None:
            batch.nearby = nearby(batch.features, off[rows])
        total, parts = loss(policy, critic, batch, cfg)
        share = (rows.stop - rows.start) / len(index)
        return torch.autograd.grad(total * share, params), {k: v.detach() * share for k, v in parts.items()}

    pieces = workers.over_rows(piece, len(index))
    names = list(pieces[0][1])
    sums: list[Any] = [sum(grads[i] for grads, _ in pieces) for i in range(len(params))]
    sums += [sum(parts[name] for _, parts in pieces) for name in names]
    means = workers.shards.mean(sums)
    for parameter, grad in zip(params, means, strict=False):
        parameter.grad = grad
    return dict(zip(names, means[len(params) :], strict=True))


def _standardise(samples: Samples, critic: Critic, cfg: Any, shards: Shards) -> Samples:
    """Advantages to zero mean and unit variance; returns and values to the scale that the critic predicts."""
    advantage = samples.advantage
    if advantage.dim() > 2:
        advantage = torch.stack([_normalised(term, samples, cfg, shards) for term in advantage.unbind(-1)]).sum(0)
    if cfg.normalise_advantage:
        advantage = _normalised(advantage, samples, cfg, shards)
    if cfg.normalise_returns:
        critic.returns.take(samples.counted(samples.returns, shards).reshape(-1, len(critic.returns.mean)))
    returns, value = (critic.standardised(x) for x in (samples.returns, samples.value))
    return replace(samples, advantage=advantage, returns=returns, value=value)


def _normalised(advantage: Tensor, samples: Samples, cfg: Any, shards: Shards) -> Tensor:
    """Advantages (S, N) with zero mean and unit variance over what counts: of the group, or of each robot."""
    robots = [slice(None)] if cfg.normalise_per == "group" else [slice(n, n + 1) for n in range(advantage.shape[1])]
    parts = []
    for some in robots:
        part, weight = advantage[:, some], None if samples.weight is None else samples.weight[:, some]
        counted = replace(samples, weight=weight).counted(part, shards)
        parts.append(
            (part - counted.mean()) / (counted.std() + 1e-8) if counted.numel() > 1 else torch.zeros_like(part)
        )
    return torch.cat(parts, dim=1)


def _adapt_lr(optimiser: torch.optim.Optimizer, kl: float, cfg: Any) -> None:
    """Learning rate down when an epoch moved the policy too far, up when it hardly moved."""
    lr = optimiser.param_groups[0]["lr"]
    if kl > 2 * cfg.target_kl:
        _set_lr(optimiser, max(lr / 1.5, 1e-5))
    elif kl < cfg.target_kl / 2:
        _set_lr(optimiser, min(lr * 1.5, cfg.max_learning_rate))


def _set_lr(optimiser: torch.optim.Optimizer, lr: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = lr
