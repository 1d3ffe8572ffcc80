"""Generalised advantage estimation (Schulman et al. 2016) as pure functions of [T, B] tensors."""

import torch
from torch import Tensor


def next_values(values: Tensor, last_value: Tensor, ended: Tensor, terminal_values: Tensor) -> Tensor:
    """Value of the state that each step really led to, [T, ...].

    values [T, ...] of the observations acted on; last_value [...] of the one after the last step; ended [T, ...] bool;
    terminal_values [k] of the true last observations of the k ended entries, in index order. Without them a time limit
    would be bootstrapped with the value of the next episode's start.
    """
    following = torch.cat([values[1:], last_value[None]])
    following[ended] = terminal_values
    return following


def gae(
    rewards: Tensor,
    values: Tensor,
    following: Tensor,
    terminated: Tensor,
    ended: Tensor,
    gamma: float,
    lam: float | Tensor,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns [T, B].

    following [T, B]: value of the state each step led to; terminated [T, B] bool: no future, so no bootstrap; ended
    [T, B] bool: terminated or truncated, so the next row belongs to another episode and nothing flows back from it;
    lam may be [T, B]: where it is 1, the value of the next row plays no part.
    """
    delta = rewards + gamma * following * (~terminated) - values
    decay = gamma * lam * (~ended)
    advantages = torch.empty_like(rewards)
    running = torch.zeros_like(rewards[0])
    for t in range(rewards.shape[0] - 1, -1, -1):
        running = delta[t] + decay[t] * running
        advantages[t] = running
    return advantages, advantages + values
