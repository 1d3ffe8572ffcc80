"""Actor and critic: a small encoder of the robot itself, and attention over whichever peers are there."""

from collections.abc import Sequence
from math import log, sqrt
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

from policies.networks.normaliser import ObsLayout, ObsNormaliser, RunningMoments

ABSENT = 1e4  # taken off the score of a peer that is not there: its weight is then exactly 0 in float32


class Features(NamedTuple):
    """A normalised observation, ready for actor and critic."""

    own: Tensor  # (..., own_dim)
    peers: Tensor  # (P, ..., peer_dim), zero where absent
    valid: Tensor  # (P, ...) 0 or 1
    critic: Tensor  # (..., critic_dim) for the critic only


def orthogonal(layer: nn.Linear, gain: float = sqrt(2.0)) -> nn.Linear:
    """The layer with orthogonal weights of `gain` and zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class PeerAttention(nn.Module):
    """Pools any number of peers into one vector, whatever their order; a learned null slot stands for "nobody"."""

    def __init__(self, peer_dim: int, query_dim: int, embed: int) -> None:
        super().__init__()
        self.encode = orthogonal(nn.Linear(peer_dim, embed))
        self.query = orthogonal(nn.Linear(query_dim, embed), 1.0 / sqrt(embed))
        self.null_score = nn.Parameter(torch.zeros(()))

    def forward(self, own: Tensor, peers: Tensor, valid: Tensor) -> Tensor:
        """Own (..., query_dim), peers (P, ..., peer_dim), valid (P, ...) of 0/1 -> pooled (..., embed)."""
        values = elu(self.encode(peers), inplace=True)
        query = self.query(own)
        scores = (values * query).sum(-1) + (valid - 1.0) * ABSENT
        null = self.null_score.expand(query.shape[:-1])[None]
        weights = torch.softmax(torch.cat([scores, null]), dim=0)[:-1]
        return (weights[..., None] * values).sum(0)


class Trunk(nn.Module):
    """Own encoder, peer attention and two joint layers: the body of the actor and of the critic."""

    def __init__(self, own_dim: int, peer_dim: int, hidden: int, peer_embed: int, team: bool = False) -> None:
        super().__init__()
        self.own = orthogonal(nn.Linear(own_dim, hidden))
        self.peers = PeerAttention(peer_dim, own_dim, peer_embed) if peer_dim else None
        self.joint = orthogonal(nn.Linear(hidden + (peer_embed if peer_dim else 0), hidden))
        self.team = orthogonal(nn.Linear(hidden, hidden)) if team else None
        self.last = orthogonal(nn.Linear(hidden, hidden))

    def forward(self, own: Tensor, peers: Tensor, valid: Tensor) -> Tensor:
        """Features of (..., N) robots -> (..., N, hidden); only a team trunk lets the N robots see one another."""
        seen = elu(self.own(own), inplace=True)
        if self.peers is not None:
            seen = torch.cat([seen, self.peers(own, peers, valid)], dim=-1)
        joint = elu(self.joint(seen), inplace=True)
        if self.team is None:
            return elu(self.last(joint), inplace=True)
        others = (joint.sum(-2, keepdim=True) - joint) / max(joint.shape[-2] - 1, 1)
        return elu(self.last(joint) + self.team(others))


class Actor(nn.Module):
    """Gaussian policy over actions: observation (..., D) -> mean (..., U); `log_std` (U,) does not depend on it.

    Components that are not `driven` move nothing, and no gradient is taken of them.
    """

    driven: Tensor

    def __init__(
        self,
        layout: ObsLayout,
        action_dim: int,
        hidden: int = 64,
        peer_embed: int = 32,
        init_std: float = 0.6,
        driven: Sequence[bool] | None = None,
    ) -> None:
        super().__init__()
        self.normaliser = ObsNormaliser(layout)
        self.trunk = Trunk(layout.own_dim, layout.peer_dim, hidden, peer_embed)
        self.head = orthogonal(nn.Linear(hidden, action_dim), 0.01)
        self.log_std = nn.Parameter(torch.full((action_dim,), log(init_std)))
        counted = torch.ones(action_dim) if driven is None else torch.tensor(driven, dtype=torch.float32)
        self.register_buffer("driven", counted, persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        """Observation (..., D) -> mean action (..., U), not yet clipped to [-1, 1]."""
        return self.mean(self.features(obs))

    def features(self, obs: Tensor) -> Features:
        """Observation (..., D) -> normalised features, which stay the same while the normaliser is frozen."""
        return Features(*self.normaliser(obs))

    def mean(self, features: Features) -> Tensor:
        """Features of `features` -> mean action (..., U)."""
        return self.head(self.trunk(features.own, features.peers, features.valid))


class Critic(nn.Module):
    """Value of features (..., N): from each robot's own view ("own", IPPO) or from the whole team's ("team", MAPPO).

    It predicts standardised returns; `returns` holds their scale, so that rewards need no tuning of their size.
    """

    def __init__(
        self, layout: ObsLayout, kind: Literal["own", "team"] = "own", hidden: int = 64, peer_embed: int = 32
    ) -> None:
        super().__init__()
        if kind not in ("own", "team"):
            raise ValueError(f"critic kind {kind!r}: it is 'own' or 'team'")
        own_dim = layout.own_dim + layout.critic_dim
        self.trunk = Trunk(own_dim, layout.peer_dim, hidden, peer_embed, team=kind == "team")
        self.head = orthogonal(nn.Linear(hidden, 1), 1.0)
        self.returns = RunningMoments(1)

    def forward(self, features: Features) -> Tensor:
        """Features of (..., N) robots -> standardised value (..., N)."""
        own = torch.cat([features.own, features.critic], dim=-1) if features.critic.shape[-1] else features.own
        return self.head(self.trunk(own, features.peers, features.valid)).squeeze(-1)

    def value(self, features: Features) -> Tensor:
        """Features of (..., N) robots -> value (..., N) in units of reward."""
        return self.returns.inverse(self(features)[..., None]).squeeze(-1)
