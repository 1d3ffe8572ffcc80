"""V-trace (Espeholt et al. 2018, arXiv:1802.01561): advantages and values of what another policy did."""

import torch
from torch import Tensor


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
