"""Policies: what is exported, whatever learned it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import log, pi
from typing import Any

import torch
from torch import Tensor, nn

from policies.networks.chunk import COUNT, next_action, nothing_left
from policies.networks.history import no_past, with_past
from policies.networks.mirror import Flips, Mirror
from policies.networks.normaliser import Features, ObsDims, ObsNormaliser
from policies.networks.trunk import Activation, Trunk, orthogonal

Memory = Mapping[str, Tensor]


class Policy(nn.Module, ABC):
    """What is exported, whatever learned it: observation -> action in [-1, 1], with what it remembers.

    An algorithm's own policy adds how actions are drawn while learning (`draw`), or its own `forward` and `memory`.
    """

    driven: Tensor  # (U,) 1 where a component of the action moves something, else 0; (k U,) with chunks of k actions
    memory: Mapping[str, tuple[float, ...]] = {}  # what it carries from step to step: name -> value at the start

    def __init__(
        self,
        dims: Sequence[int],
        action_dim: int,
        hidden: int = 64,
        peer_embed: int = 32,
        driven: Sequence[bool] | None = None,
        chunk: int = 1,
        mirror: Flips | None = None,
        history: int = 1,
        activation: Activation = "elu",
    ) -> None:
        """`dims` count the robot's own features of all control periods of its `history`, the present one among them.

        `mirror` says how the features of one period and actions mirror, of a policy that treats both sides alike.
        """
        super().__init__()
        dims = ObsDims(*dims)
        self._spec = {"dims": list(dims), "action_dim": action_dim, "hidden": hidden, "peer_embed": peer_embed}
        self._spec |= {"activation": activation, "chunk": chunk, "history": history, "mirror": mirror}
        self.mirror = None if mirror is None else Mirror(mirror, chunk, history)
        self.normaliser = ObsNormaliser(dims, self.mirror)
        self.trunk = Trunk(dims.policy, dims.neighbours, hidden, peer_embed, activation)
        self.width, self.chunk, self.history = action_dim, chunk, history
        self.head = orthogonal(nn.Linear(hidden, chunk * action_dim), 0.01)
        counted = torch.ones(action_dim) if driven is None else torch.tensor(driven, dtype=torch.float32)
        self.register_buffer("driven", counted.repeat(chunk), persistent=False)
        if chunk > 1:
            self.memory = nothing_left(chunk, action_dim)
        if history > 1:
            self.memory = {**self.memory, **no_past(history, dims.policy // history)}
            self.trunk.begin_without(slice(dims.policy // history, dims.policy))
        self.idle = not bool(counted.all())  # some components move nothing: they are 0, in the file too

    @property
    def own_dim(self) -> int:
        """Numbers that a robot sees of itself in one control period."""
        return len(self.normaliser.policy.mean) // self.history

    def recall(self, obs: Any, memory: Memory) -> tuple[Any, Memory]:
        """The `Observation` (..., .) with what the memory (..., n) has of the past, and the memory for the next one.

        This is what networks are shown, and what is learned from.
        """
        if self.history == 1:
            return obs, memory
        seen, past = with_past(obs, memory)
        return seen, {**memory, **past}

    def forward(self, obs: Any, memory: Memory) -> tuple[Tensor, Memory]:
        """`Observation` with its past and memory (..., n) -> mean action (..., U), not yet clipped, and the new memory.

        With chunks of k actions it is the mean of a whole one (..., k U), whether or not it is time to decide.
        """
        return self.mean(self.normaliser(obs)), memory

    def mean(self, features: Features) -> Tensor:
        """Features, which stay the same while the normaliser does -> mean action (..., U)."""
        mean: Tensor = self.head(self.body(features))
        if self.mirror is not None:
            mean = 0.5 * (mean + self.mirror.action(self.head(self.body(self.mirror.seen(features)))))
        return mean * self.driven if self.idle else mean

    def body(self, features: Features) -> Tensor:
        """What all outputs come from (..., hidden)."""
        hidden: Tensor = self.trunk(features.own, features.peers, features.valid)
        return hidden

    def best(self, obs: Any, memory: Memory) -> tuple[Tensor, Memory]:
        """The action (..., U) in [-1, 1] that is believed best: what is traced into the exported file.

        `obs` is what the robot sees now.
        """
        mean, memory = self(*self.recall(obs, memory))
        return self.paced(mean.clamp(-1.0, 1.0), memory)[:2]

    @abstractmethod
    def draw(self, mean: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """An action (..., U) to learn from, about the `mean`, and what the algorithm wants to know of it."""

    def sample(self, obs: Any, memory: Memory, generator: torch.Generator) -> tuple[Tensor, Memory, dict[str, Tensor]]:
        """An action that is drawn for an `obs` with its past, new memory, and extras of the draw (...)."""
        mean, memory = self(obs, memory)
        drawn, extras = self.draw(mean, generator)
        action, memory, more = self.paced(drawn, memory)
        return action, memory, {**extras, **more}

    def paced(self, drawn: Tensor, memory: Memory) -> tuple[Tensor, Memory, dict[str, Tensor]]:
        """The action (..., U) for what was decided, or the next one of the chunk that is under way.

        Extras of chunks: whether this period `decides` (...) bool, and on what `chunk` (..., k U).
        """
        if COUNT not in self.memory:
            return drawn, memory, {}
        action, left, decides = next_action(drawn, memory, self.width)
        return action, {**memory, **left}, {"decides": decides, "chunk": drawn}

    def initial_memory(self, *batch: int) -> dict[str, Tensor]:
        """Memory at the start of an episode, each (*batch, n)."""
        return {name: torch.tensor(value).expand(*batch, -1).clone() for name, value in self.memory.items()}

    def spec(self) -> dict[str, Any]:
        """How to build it again, as plain data: keywords of the constructor."""
        return {**self._spec, "driven": [bool(value) for value in self.driven[: self.width]]}


class GaussianPolicy(Policy):
    """Draws actions from a Gaussian about the mean; `log_std` (U,) does not depend on the observation.

    No gradient is taken of components that are not `driven`.
    """

    def __init__(self, *args: Any, init_std: float = 0.6, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log_std = nn.Parameter(torch.full_like(self.driven, log(init_std)))
        if (mirror := self.mirror) is not None:  # both sides explore alike, and learn that together
            self.log_std.register_hook(lambda grad: 0.5 * (grad + mirror.action.spread(grad)))

    def draw(self, mean: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """An action (..., U) and its log-probability (...)."""
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        spread = self.log_std.exp()
        action = mean + noise * (spread * self.driven if self.idle else spread)
        return action, {"log_prob": log_prob(action, mean, self.log_std, self.driven)}


def log_prob(action: Tensor, mean: Tensor, log_std: Tensor, driven: Tensor | float = 1.0) -> Tensor:
    """Log density (...) of action (..., U) under the Gaussian of mean (..., U) and log_std (U,) or (..., U).

    Only components where `driven` (U,) is 1 count: what no actuator feels would be noise to learning.
    """
    scaled = (action - mean) * torch.exp(-log_std)
    constant = (driven * (log_std + 0.5 * log(2 * pi))).sum(-1)
    return -0.5 * (driven * scaled.square()).sum(-1) - constant
