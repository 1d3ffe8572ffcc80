"""Experience of one iteration, and how it is collected."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from policies.algorithms.gae import gae, next_values
from policies.algorithms.ppo import PPOCfg, Samples, log_prob
from policies.networks.actor_critic import Actor, Critic
from policies.threads import Workers


@dataclass
class Episodes:
    """Running return of every world's episode for one role, and what those that ended in this rollout came to."""

    running: Tensor  # (W,) return so far, mean over the robots
    returns: list[Tensor] = field(default_factory=list)
    success: list[Tensor] = field(default_factory=list)
    length: list[Tensor] = field(default_factory=list)
    failures: dict[str, list[Tensor]] = field(default_factory=dict)  # of any robot of the world
    terms: dict[str, Tensor] = field(default_factory=dict)  # sum over the rollout's steps, worlds and robots

    def clear(self) -> None:
        """Forget the last rollout; running returns go on."""
        for column in (self.returns, self.success, self.length, self.failures, self.terms):
            column.clear()

    def add(self, reward: Tensor, ended: Tensor, info: dict[str, Any]) -> None:
        """One step: reward (W, N), ended (W,) and what `TeamEnv.step` says of it."""
        self.running += reward.mean(-1)
        for name, value in info["reward_terms"].items():
            self.terms[name] = self.terms.get(name, 0.0) + value.sum()
        if ended.any():
            self.returns.append(self.running[ended])
            self.success.append(info["success"][ended].float())
            for name, failed in info["terminations"].items():
                self.failures.setdefault(name, []).append(failed[ended].any(-1).float())
            self.length.append(info["episode_length"][ended].float())
            self.running[ended] = 0.0

    def summary(self, steps: int) -> dict[str, float]:
        """Means over the episodes that ended, and of each reward term per step; `steps` = T x W x N."""
        out = {f"reward/{name}": float(total) / steps for name, total in self.terms.items()}
        if self.returns:
            out["mean_return"] = float(torch.cat(self.returns).mean())
            out["success_rate"] = float(torch.cat(self.success).mean())
            out |= {f"failure/{name}": float(torch.cat(column).mean()) for name, column in self.failures.items()}
            out["episode_steps"] = float(torch.cat(self.length).mean())
        return out


class Rollout:
    """Preallocated [T, W, N] buffers of one iteration."""

    def __init__(self, num_steps: int, obs: Tensor, action_dim: int) -> None:
        worlds, agents, _ = obs.shape
        self.obs = obs.new_zeros(num_steps, *obs.shape)
        self.action = obs.new_zeros(num_steps, worlds, agents, action_dim)
        self.log_prob = obs.new_zeros(num_steps, worlds, agents)
        self.reward = obs.new_zeros(num_steps, worlds, agents)
        self.terminated = torch.zeros(num_steps, worlds, agents, dtype=torch.bool, device=obs.device)
        self.ended = torch.zeros_like(self.terminated)
        self.terminal_obs: list[Tensor] = []

    @torch.no_grad()
    def act(self, t: int, actor: Actor, obs: Tensor, generator: torch.Generator, workers: Workers) -> Tensor:
        """Step `t`: what is done, (W, N, U), on seeing `obs` (W, N, D)."""
        self.obs[t] = obs
        self.action[t], self.log_prob[t] = sampled(actor, _over_rows(actor, obs, workers), generator)
        return self.action[t]

    def done(self, t: int, obs: Tensor, action: Tensor, log_prob: Tensor) -> None:
        """Step `t`, where somebody else has acted."""
        self.obs[t], self.action[t], self.log_prob[t] = obs, action, log_prob

    def keep(self, t: int, reward: Tensor, terminated: Tensor, truncated: Tensor, terminal_obs: Tensor) -> Tensor:
        """Step `t`: what came of it; returns the worlds (W,) that ended."""
        self.reward[t], self.terminated[t], self.ended[t] = reward, terminated, terminated | truncated
        worlds = self.ended[t].any(-1)
        if worlds.any():
            self.terminal_obs.append(terminal_obs[worlds])
        return worlds

    @torch.no_grad()
    def samples(self, actor: Actor, critic: Critic, last_obs: Tensor, cfg: PPOCfg, workers: Workers) -> Samples:
        """Advantages, and everything flattened to (T x W, N, ...) with the observations normalised once."""
        steps, worlds, agents, _ = self.obs.shape

        def value(obs: Tensor) -> Tensor:
            return critic.value(actor.features(obs))

        values = _over_rows(value, self.obs.flatten(0, 1), workers).reshape(steps, worlds, agents)
        last_value = value(last_obs)
        terminal_values = value(torch.cat(self.terminal_obs)).flatten() if self.terminal_obs else last_value[:0, 0]
        following = next_values(values, last_value, self.ended, terminal_values)
        advantages, returns = gae(
            self.reward, values, following, self.terminated, self.ended, cfg.gamma, cfg.gae_lambda
        )
        return Samples(
            features=actor.features(self.obs.flatten(0, 1)),
            action=self.action.flatten(0, 1),
            log_prob=self.log_prob.flatten(0, 1),
            value=values.flatten(0, 1),
            advantage=advantages.flatten(0, 1),
            returns=returns.flatten(0, 1),
        )


def sampled(actor: Actor, mean: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """An action (..., U) about the `mean` (..., U) that the actor gave, and its log-probability (...)."""
    noise = torch.randn(mean.shape, generator=generator, device=mean.device)
    action = mean + noise * actor.log_std.exp()
    return action, log_prob(action, mean, actor.log_std, actor.driven)


def _over_rows(func: Callable[[Tensor], Tensor], obs: Tensor, workers: Workers) -> Tensor:
    """`func` of observations (S, N, D), piece by piece on the workers; they do not inherit no_grad from the caller."""

    def piece(rows: slice) -> Tensor:
        with torch.no_grad():
            return func(obs[rows])

    return torch.cat(workers.over_rows(piece, len(obs)))
