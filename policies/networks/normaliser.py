"""Running mean and variance of observations, part of the actor and therefore of the exported graph."""

from typing import Protocol

import torch
from torch import Tensor, nn

EPSILON = 1e-4  # floor of the variance: a feature that never changes must not be blown up
CLIP = 10.0  # standard deviations; keeps one absurd measurement from saturating the network


class ObsLayout(Protocol):
    """Where features lie in an observation: [own, critic, P x (peer features, valid)]."""

    @property
    def own_dim(self) -> int:
        """Features of the robot itself."""

    @property
    def peer_dim(self) -> int:
        """Features of each peer, without its validity flag; 0 for robots that hear nobody."""

    @property
    def critic_dim(self) -> int:
        """Features of the robot that only the critic is shown."""


class RunningMoments(nn.Module):
    """Mean and variance of rows (n, dim), merged batch by batch (Chan et al. 1979)."""

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, rows: Tensor, weight: Tensor | None = None) -> None:
        """Merge rows (n, dim); `weight` (n,) of 0 or 1 leaves rows out without a copy."""
        if weight is None:
            n = torch.tensor(float(rows.shape[0]), dtype=torch.float64, device=rows.device)
            if rows.numel() == 0:
                return
            var, mean = torch.var_mean(rows, dim=0, correction=0)
        else:
            n = weight.sum(dtype=torch.float64)
            if n == 0:
                return
            column = weight.to(rows.dtype)[:, None]
            mean = (rows * column).sum(0) / n.to(rows.dtype)
            var = ((rows - mean).square() * column).sum(0) / n.to(rows.dtype)
        total = self.count + n
        share = (n / total).to(self.mean.dtype)
        delta = mean - self.mean
        self.var.copy_(self.var * (1 - share) + var * share + delta.square() * share * (1 - share))
        self.mean.add_(delta * share)
        self.count.copy_(total)

    def forward(self, x: Tensor) -> Tensor:
        """Standardise x (..., dim)."""
        return (x - self.mean) * torch.rsqrt(self.var.clamp(min=EPSILON))

    def inverse(self, x: Tensor) -> Tensor:
        """Undo `forward`."""
        return x * torch.sqrt(self.var.clamp(min=EPSILON)) + self.mean


class ObsNormaliser(nn.Module):
    """Splits an observation and standardises it; all peers share statistics, taken over valid peers only."""

    def __init__(self, layout: ObsLayout) -> None:
        super().__init__()
        self.own_dim, self.peer_dim, self.critic_dim = layout.own_dim, layout.peer_dim, layout.critic_dim
        self.own = RunningMoments(layout.own_dim)
        self.peer = RunningMoments(layout.peer_dim)
        self.critic = RunningMoments(layout.critic_dim)

    def split(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Observation (..., D) -> own (..., own_dim), peers (P, ..., peer_dim), valid (P, ...) 0 or 1, critic's own.

        Peers lead because every sum over them then runs over contiguous memory: half the cost of a training step.
        """
        both = self.own_dim + self.critic_dim
        peers = obs[..., both:].unflatten(-1, (-1, self.peer_dim + 1)).movedim(-2, 0)
        own, critic = obs[..., : self.own_dim], obs[..., self.own_dim : both]
        return own, peers[..., : self.peer_dim], peers[..., self.peer_dim], critic

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Observation (..., D) -> standardised, clipped features and `valid`, as `split`; absent peers are 0."""
        return self.standardise(*self.split(obs))

    def standardise(
        self, own: Tensor, peers: Tensor, valid: Tensor, critic: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The parts of an observation, as `split` gives them, to what `forward` gives."""
        seen = self.own(own).clamp(-CLIP, CLIP), self.peer(peers).clamp(-CLIP, CLIP) * valid[..., None], valid
        # A policy that flies is not shown what only the critic sees.
        return *seen, self.critic(critic).clamp(-CLIP, CLIP) if critic.shape[-1] else critic

    def update(self, obs: Tensor) -> None:
        """Merge a batch of observations (..., D) into the statistics."""
        own, peers, valid, critic = self.split(obs)
        self.own.update(own.flatten(0, -2))
        self.peer.update(peers.flatten(0, -2), valid.flatten())
        self.critic.update(critic.flatten(0, -2))
