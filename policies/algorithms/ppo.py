"""Proximal policy optimisation (Schulman et al. 2017) with parameters shared by all robots of a team."""

from dataclasses import dataclass, replace
from math import log, pi
from typing import Literal

import torch
from torch import Tensor

from policies.networks.actor_critic import Actor, Critic, Features
from policies.threads import Workers


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
    hidden: int = 64
    peer_embed: int = 32
    init_std: float = 0.6
    min_std: float = 0.05
    optimiser: Literal["adam", "sgd"] = "adam"
    threads: int = 2  # pieces of a minibatch worked on at once; not read off the machine, for it changes the last bits

    def __post_init__(self) -> None:
        for name in ("num_steps", "epochs", "minibatch", "hidden", "peer_embed", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"ppo.{name} = {getattr(self, name)}: at least 1")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"ppo.{name} = {getattr(self, name)}: 0 to 1")


@dataclass
class Samples:
    """One iteration's experience: S = T x W rows of N robots."""

    features: Features  # own (S, N, .), peers (P, S, N, .), valid (P, S, N), critic (S, N, .)
    action: Tensor  # (S, N, U)
    log_prob: Tensor  # (S, N)
    value: Tensor  # (S, N) in units of reward
    advantage: Tensor  # (S, N)
    returns: Tensor  # (S, N)

    def rows(self, index: Tensor) -> "Samples":
        """A minibatch: the rows `index` (m,)."""
        own, peers, valid, critic = self.features
        own, critic = own.index_select(0, index), critic.index_select(0, index)
        picked = Features(own, peers.index_select(1, index), valid.index_select(1, index), critic)
        columns = {k: getattr(self, k).index_select(0, index) for k in ("action", "log_prob", "value")}
        return replace(
            self,
            features=picked,
            advantage=self.advantage.index_select(0, index),
            returns=self.returns.index_select(0, index),
            **columns,
        )


def log_prob(action: Tensor, mean: Tensor, log_std: Tensor, driven: Tensor | float = 1.0) -> Tensor:
    """Log density (...) of action (..., U) under the Gaussian of mean (..., U) and log_std (U,).

    Only components where `driven` (U,) is 1 count: what no actuator feels would be noise to learning.
    """
    scaled = (action - mean) * torch.exp(-log_std)
    constant = (driven * (log_std + 0.5 * log(2 * pi))).sum()
    return -0.5 * (driven * scaled.square()).sum(-1) - constant


def make_optimiser(actor: Actor, critic: Critic, cfg: PPOCfg) -> torch.optim.Optimizer:
    """One optimiser for both networks, at `cfg.learning_rate`."""
    params = [*actor.parameters(), *critic.parameters()]
    if cfg.optimiser == "sgd":
        return torch.optim.SGD(params, lr=cfg.learning_rate)
    return torch.optim.Adam(params, lr=cfg.learning_rate, eps=1e-5, fused=True)


def loss(actor: Actor, critic: Critic, batch: Samples, cfg: PPOCfg) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO loss of a minibatch, and its parts (each a scalar tensor)."""
    new_log_prob = log_prob(batch.action, actor.mean(batch.features), actor.log_std, actor.driven)
    log_ratio = new_log_prob - batch.log_prob
    ratio = log_ratio.exp()
    gain = ratio * batch.advantage
    if cfg.clip is not None:
        gain = torch.minimum(gain, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * batch.advantage)
    policy = -gain.mean()

    value = critic(batch.features)
    error = (value - batch.returns).square()
    if cfg.value_clip is not None:
        near = batch.value + (value - batch.value).clamp(-cfg.value_clip, cfg.value_clip)
        error = torch.maximum(error, (near - batch.returns).square())
    value_error = 0.5 * error.mean()

    entropy = (actor.driven * (actor.log_std + 0.5 * log(2 * pi * 2.718281828459045))).sum()
    total = policy + cfg.value_coef * value_error - cfg.entropy_coef * entropy
    with torch.no_grad():
        kl = (ratio - 1 - log_ratio).mean()
    return total, {"loss/policy": policy, "loss/value": value_error, "entropy": entropy, "kl": kl}


def update(
    actor: Actor,
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
            parts = _gradients(actor, critic, params, samples, order[start : start + size], cfg, workers)
            if cfg.max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(params, cfg.max_grad_norm)
            optimiser.step()
            with torch.no_grad():
                actor.log_std.clamp_(min=log(cfg.min_std))
            for name, value in parts.items():
                sums[name] = sums.get(name, torch.zeros(())) + value
            epoch_kl, batches, count = epoch_kl + parts["kl"], batches + 1, count + 1
        if cfg.schedule == "adaptive":
            _adapt_lr(optimiser, float(epoch_kl) / batches, cfg)
    means = {name: float(value) / count for name, value in sums.items()}
    std = float((actor.driven * actor.log_std.detach().exp()).sum() / actor.driven.sum())
    return means | {"lr": optimiser.param_groups[0]["lr"], "action_std": std, "explained_variance": float(explained)}


def _gradients(
    actor: Actor,
    critic: Critic,
    params: list[torch.nn.Parameter],
    samples: Samples,
    index: Tensor,
    cfg: PPOCfg,
    workers: Workers,
) -> dict[str, Tensor]:
    """Set the gradients of a minibatch's loss, its pieces worked on in parallel; returns the parts of the loss."""

    def piece(rows: slice) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        total, parts = loss(actor, critic, samples.rows(index[rows]), cfg)
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
        critic.returns.update(samples.returns.reshape(-1, 1))
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
