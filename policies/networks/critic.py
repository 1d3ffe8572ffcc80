"""Critics: what training needs beside a policy."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from policies.networks.mirror import Mirror
from policies.networks.normaliser import Features, ObsDims, RunningMoments
from policies.networks.trunk import NetworkCfg, Trunk, activated, orthogonal

MEMORY = 50  # updates that the scale of returns remembers, so that what a beginner's were worth is forgotten
OUTLIER = 5.0  # times the range of nearly all returns; what lies farther out is one glitch, not how large returns are


class ReturnScale(RunningMoments):
    """Mean and variance of the returns of the last updates."""

    @torch.no_grad()
    def take(self, returns: Tensor) -> None:
        """Merge the returns (n, dim) of one update."""
        some = returns[:: 1 + len(returns) // 20_000]  # quantiles of so many are good enough, and cheap
        low, high = torch.quantile(some, some.new_tensor([0.005, 0.995]), dim=0)
        reach = OUTLIER * torch.maximum(high - low, self.var.sqrt())
        self.update(returns.clamp(low - reach, high + reach))
        self.count.clamp_(max=MEMORY * len(returns))


class TeamNetwork(nn.Module):
    """Numbers for features (..., N): from each robot's own view ("own") or from the whole team's ("team").

    A team's network pools what all other robots see, those of the other `groups` too (name -> number of features).
    """

    def __init__(
        self,
        dims: ObsDims,
        kind: Literal["own", "team"] = "own",
        network: NetworkCfg | None = None,
        num_agents: int = 2,
        groups: Mapping[str, int] | None = None,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        if kind not in ("own", "team"):
            raise ValueError(f"critic kind {kind!r}: it is 'own' or 'team'")
        network = network or NetworkCfg()
        team, hidden = kind == "team", network.hidden
        own_dim, sizes = dims.policy + dims.privileged, (hidden, network.peer_embed)
        self.trunk = Trunk(own_dim, dims.neighbours, *sizes, network.activation, team=team and num_agents > 1)
        if network.history > 1:
            self.trunk.begin_without(slice(dims.policy // network.history, dims.policy))
        self.head = orthogonal(nn.Linear(hidden, outputs), 1.0)
        others = (groups or {}) if team else {}
        self.groups = nn.ModuleDict({name: orthogonal(nn.Linear(dim, hidden)) for name, dim in others.items()})
        self.pooled = nn.ModuleDict({name: orthogonal(nn.Linear(hidden, hidden)) for name in others})

    def forward(self, features: Features, others: Mapping[str, Tensor] | None = None) -> Tensor:
        """Features of (..., N) robots, and those (..., M, D) of each other group -> (..., N), or (..., N, outputs)."""
        team: Tensor | None = None
        for name, encode in self.groups.items():
            assert isinstance(encode, nn.Linear) and others is not None, "a team's critic is shown every group"
            seen = activated(encode, others[name], self.trunk.activation)
            part = self.pooled[name](seen.mean(-2, keepdim=True))
            team = part if team is None else team + part
        return self.head(self.trunk(features.whole(), features.peers, features.valid, team)).squeeze(-1)


class Critic(TeamNetwork):
    """Value of features (..., N): from each robot's own view ("own", IPPO) or from the whole team's ("team", MAPPO).

    It predicts standardised returns; `returns` holds their scale, so that rewards need no tuning of their size. With
    several `outputs` each is the value of one term of the reward, (..., N, outputs). With a `mirror` it values both
    sides alike.
    """

    def __init__(self, *args: Any, mirror: Mirror | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mirror = mirror
        self.returns = ReturnScale(self.head.out_features)

    def forward(self, features: Features, others: Mapping[str, Tensor] | None = None) -> Tensor:
        value = super().forward(features, others)
        if self.mirror is None:
            return value
        return 0.5 * (value + super().forward(self.mirror.features(features), others))

    def value(self, features: Features, others: Mapping[str, Tensor] | None = None) -> Tensor:
        """Features of (..., N) robots -> value (..., N) in units of reward."""
        value = self(features, others)
        return self.returns.inverse(value.view(self.by_output(value))).view_as(value)

    def standardised(self, returns: Tensor) -> Tensor:
        """Returns, shaped as values, on the scale that it predicts."""
        return self.returns(returns.view(self.by_output(returns))).view_as(returns)

    def by_output(self, values: Tensor) -> tuple[int, ...]:
        """The shape of values (..., N) or (..., N, outputs) with the outputs as their last dimension in any case."""
        return (*values.shape, 1) if self.head.out_features == 1 else tuple(values.shape)


class QFunction(nn.Module):
    """Independent estimates of an action's value, from a robot's own view or from the whole team's and its actions."""

    def __init__(
        self, dims: ObsDims, action_dim: int, count: int = 2, mirror: Mirror | None = None, **team_network: Any
    ) -> None:
        """The rest as of a `TeamNetwork`, whose `groups` are here the numbers of features and actions."""
        super().__init__()
        self.mirror = mirror
        shown = dims._replace(privileged=dims.privileged + action_dim)  # an action is one more thing that it is shown
        nets = [TeamNetwork(shown, **team_network) for _ in range(count)]
        self.nets = nn.ModuleList(nets)
        for net in nets:
            orthogonal(net.head, 0.01)

    def forward(self, features: Features, action: Tensor, others: Mapping[str, Tensor] | None = None) -> Tensor:
        """Features and actions (..., N, U), and those (..., M, D) of each other group -> (count, ..., N[, outputs])."""
        values = self._of(features, action, others)
        if self.mirror is None:
            return values
        return 0.5 * (values + self._of(self.mirror.features(features), self.mirror.action(action), others))

    def _of(self, features: Features, action: Tensor, others: Mapping[str, Tensor] | None) -> Tensor:
        shown = features._replace(privileged=torch.cat([features.privileged, action], dim=-1))
        return torch.stack([net(shown, others) for net in self.nets])
