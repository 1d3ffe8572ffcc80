"""Running mean and variance of observations, part of the policy and therefore of the exported graph."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from policies.networks.mirror import Mirror, Mirrored
from policies.shards import ALONE, Shards

EPSILON = 1e-4  # floor of the variance: a feature that never changes must not be blown up
CLIP = 10.0  # standard deviations; keeps one absurd measurement from saturating the network


class ObsDims(NamedTuple):
    """Numbers of features in the parts of an observation."""

    policy: int  # of the robot itself
    neighbours: int  # of each neighbour; 0 for robots that observe no peers
    privileged: int = 0  # of the robot, for critics only


def dims_of(obs: Any) -> ObsDims:
    """Sizes of an `Observation`."""
    return ObsDims(obs.policy.shape[-1], obs.neighbours.shape[-1], obs.privileged.shape[-1])


class Features(NamedTuple):
    """A normalised observation, ready for networks. Neighbours lead: every sum over them then runs over contiguous
    memory, which is half the cost of a training step."""

    own: Tensor  # (..., policy)
    peers: Tensor  # (P, ..., neighbours), zero where absent
    valid: Tensor  # (P, ...) 0 or 1
    privileged: Tensor  # (..., privileged) for critics only

    def rows(self, index: Tensor) -> "Features":
        """The rows `index` (m,) of features (S, N, .)."""
        own, peers, valid, privileged = self
        return Features(
            own.index_select(0, index),
            peers.index_select(1, index),
            valid.index_select(1, index),
            privileged.index_select(0, index),
        )

    def whole(self) -> Tensor:
        """Own and privileged features (..., policy + privileged)."""
        return torch.cat([self.own, self.privileged], dim=-1) if self.privileged.shape[-1] else self.own


class RunningMoments(nn.Module):
    """Mean and variance of rows (n, dim), merged batch by batch (Chan et al. 1979).

    With `mirrored` all rows count a second time, as in the mirror.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, dim: int, mirrored: Mirrored | None = None) -> None:
        super().__init__()
        self.mirrored = mirrored
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, rows: Tensor, weight: Tensor | None = None, shards: Shards = ALONE) -> None:
        """Merge rows (n, dim) of all `shards`; `weight` (n,) of 0 or 1 leaves rows out without a copy."""
        if rows.numel() == 0:
            return
        if weight is None:
            n = torch.tensor(float(rows.shape[0]), dtype=torch.float64, device=rows.device)
            var, mean = torch.var_mean(rows, dim=0, correction=0)
        else:
            n = weight.sum(dtype=torch.float64)
            some, column = n.clamp(min=1).to(rows.dtype), weight.to(rows.dtype)[:, None]
            mean = (rows * column).sum(0) / some
            var = ((rows - mean).square() * column).sum(0) / some
        for moments in shards.gather(torch.cat([n[None], mean, var])):  # as float64, exactly what they were
            if moments[0] > 0:
                mean, var = moments[1:].to(rows.dtype).chunk(2)
                self._merge(moments[0], mean, var)
                if self.mirrored is not None:
                    self._merge(moments[0], self.mirrored(mean), self.mirrored.spread(var))

    def _merge(self, n: Tensor, mean: Tensor, var: Tensor) -> None:
        """Take in `n` rows () of this mean and variance, each (dim,)."""
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
        return x * torch.sqrt(self.var.clamp(min=EPSILON)) + self.mean


class ObsNormaliser(nn.Module):
    """Standardises the parts of an observation; all neighbours share statistics, taken over valid ones only."""

    def __init__(self, dims: ObsDims, mirror: Mirror | None = None) -> None:
        super().__init__()
        self.policy = RunningMoments(dims.policy, getattr(mirror, "policy", None))
        self.neighbours = RunningMoments(dims.neighbours, getattr(mirror, "neighbours", None))
        self.privileged = RunningMoments(dims.privileged, getattr(mirror, "privileged", None))

    def forward(self, obs: Any) -> Features:
        """`Observation` (..., .) -> standardised, clipped features; absent neighbours are 0."""
        valid = obs.valid.movedim(-1, 0)
        peers = self.neighbours(obs.neighbours.movedim(-2, 0)).clamp(-CLIP, CLIP) * valid[..., None]
        own, privileged = self.policy(obs.policy).clamp(-CLIP, CLIP), obs.privileged
        # A policy that flies is not shown what only the critic sees.
        return Features(
            own, peers, valid, self.privileged(privileged).clamp(-CLIP, CLIP) if privileged.shape[-1] else privileged
        )

    def update(self, obs: Any, shards: Shards = ALONE) -> None:
        """Merge a batch of observations (..., .) into the statistics, that of every shard."""
        self.policy.update(obs.policy.flatten(0, -2), shards=shards)
        peers, valid = obs.neighbours.movedim(-2, 0).flatten(0, -2), obs.valid.movedim(-1, 0).flatten()
        self.neighbours.update(peers, valid, shards)
        self.privileged.update(obs.privileged.flatten(0, -2), shards=shards)
