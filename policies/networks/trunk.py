"""The body of policies and critics: an encoder of the robot itself, and attention over the neighbours there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import elu_

from hardware.ranges import check_fields

ABSENT = 1e4  # taken off the score of a peer that is not there: its weight is then exactly 0 in float32
Activation = Literal["elu", "relu", "tanh"]
IN_PLACE: Mapping[Activation, Callable[[Tensor], Tensor]] = {"elu": elu_, "relu": torch.relu_, "tanh": torch.tanh_}


@dataclass(frozen=True)
class NetworkCfg:
    """Sizes of policy and critics, what a policy begins with, and how often it decides."""

    hidden: int = 64  # units of each layer of policies and critics
    peer_embed: int = 32  # units that a neighbour is encoded in, for the attention over neighbours
    activation: Activation = "elu"  # between the layers of policies and critics
    init_std: float = 0.6  # of the actions of a policy that draws them
    chunk: int = 1  # control periods between two decisions, each of which is an action for every one of them
    history: int = 1  # control periods of which the robot's own observations are seen, the present one among them
    independent: bool = False  # parameters of its own for each robot of a group, and so a policy file
    symmetric: bool = False  # left and right are alike to policy and critics: for robots and tasks of which it is true

    def __post_init__(self) -> None:
        check_fields("network.", self, hidden=(1, 16384), peer_embed=(1, 16384), init_std=(1e-6, 10))
        check_fields("network.", self, chunk=(1, 1000), history=(1, 100))
        if self.activation not in IN_PLACE:
            raise ValueError(f"network.activation = {self.activation!r}: {', '.join(IN_PLACE)}")


OLD_DEFAULTS = {"activation": "elu", "chunk": 1, "history": 1}  # of a policy that was trained before there was a choice


def orthogonal(layer: nn.Linear, gain: float = sqrt(2.0)) -> nn.Linear:
    """The layer with orthogonal weights of `gain` and zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def activated(layer: nn.Linear, seen: Tensor, activation: Activation) -> Tensor:
    """`activation` of what the layer makes of `seen` (..., n): (..., m), worked on in place.

    Rows are flat where gradients are wanted: autograd copies those of what is changed through a view, a tenth of an
    update of PPO.
    """
    if not torch.is_grad_enabled():
        return IN_PLACE[activation](layer(seen))
    return IN_PLACE[activation](layer(seen.flatten(0, -2))).view(*seen.shape[:-1], layer.out_features)


class PeerAttention(nn.Module):
    """Pools any number of peers into one vector, whatever their order; a learned null slot stands for "no peer"."""

    def __init__(self, peer_dim: int, query_dim: int, embed: int, activation: Activation) -> None:
        super().__init__()
        self.activation = activation
        self.encode = orthogonal(nn.Linear(peer_dim, embed))
        self.query = orthogonal(nn.Linear(query_dim, embed), 1.0 / sqrt(embed))
        self.null_score = nn.Parameter(torch.zeros(()))

    def forward(self, own: Tensor, peers: Tensor, valid: Tensor) -> Tensor:
        """Own (..., query_dim), peers (P, ..., peer_dim), valid (P, ...) of 0/1 -> pooled (..., embed)."""
        values = activated(self.encode, peers, self.activation)
        query = self.query(own)
        scores = (values * query).sum(-1) + (valid - 1.0) * ABSENT
        null = self.null_score.expand(query.shape[:-1])[None]
        weights = torch.softmax(torch.cat([scores, null]), dim=0)[:-1]
        return (weights[..., None] * values).sum(0)


class Trunk(nn.Module):
    """Own encoder, peer attention and two joint layers: the body of policies and of critics."""

    def __init__(
        self,
        own_dim: int,
        peer_dim: int,
        hidden: int,
        peer_embed: int,
        activation: Activation = "elu",
        team: bool = False,
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.own = orthogonal(nn.Linear(own_dim, hidden))
        self.peers = PeerAttention(peer_dim, own_dim, peer_embed, activation) if peer_dim else None
        self.joint = orthogonal(nn.Linear(hidden + (peer_embed if peer_dim else 0), hidden))
        self.team = orthogonal(nn.Linear(hidden, hidden)) if team else None
        self.last = orthogonal(nn.Linear(hidden, hidden))

    def begin_without(self, past: slice) -> None:
        """What was seen before, the own features `past`, counts for nothing at first.

        It is nearly what is seen now: with weights for all of it units get several times too much.
        """
        firsts = [(self.own, sqrt(2.0))]
        if self.peers is not None:
            firsts.append((self.peers.query, 1.0 / sqrt(self.peers.query.out_features)))
        for layer, gain in firsts:
            counts = torch.ones(layer.in_features, dtype=torch.bool)
            counts[past] = False
            with torch.no_grad():
                layer.weight[:, past] = 0.0
                layer.weight[:, counts] = nn.init.orthogonal_(layer.weight[:, counts].clone(), gain)

    def forward(self, own: Tensor, peers: Tensor, valid: Tensor, others: Tensor | None = None) -> Tensor:
        """Features of (..., N) robots -> (..., N, hidden); only a team trunk lets the N robots see one another.

        `others` (..., 1, hidden), of the other groups of the team, is added before the last nonlinearity.
        """
        seen = activated(self.own, own, self.activation)
        if self.peers is not None:
            seen = torch.cat([seen, self.peers(own, peers, valid)], dim=-1)
        joint = activated(self.joint, seen, self.activation)
        if self.team is None and others is None:
            return activated(self.last, joint, self.activation)
        last = self.last(joint)
        if self.team is not None:
            last = last + self.team((joint.sum(-2, keepdim=True) - joint) / (joint.shape[-2] - 1))
        return IN_PLACE[self.activation](last if others is None else last + others)
