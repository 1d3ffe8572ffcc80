"""From what a robot measures to what its network sees.

The environment and the exported controller call these same functions, so that training and deployment cannot differ.
"""

from dataclasses import dataclass

import torch

from hardware.once import worked_out_once
from sim.task import ObservationCfg, PolicyInput, Tensor


@dataclass(slots=True)
class Observation:
    """What N robots of a group see in W worlds, in parts that only a network joins."""

    policy: Tensor  # (W, N, D) of the robot itself
    neighbours: Tensor  # (W, N, P, F) of each neighbour, zero where absent
    valid: Tensor  # (W, N, P) 0 or 1
    privileged: Tensor  # (W, N, C) from the truth, for critics only: no robot has it

    @classmethod
    def alone(cls, own: Tensor, privileged: Tensor | None = None) -> "Observation":
        """Of robots that see themselves (W, N, D) and no neighbour; `privileged` (W, N, C) is nothing by default."""
        none = own[..., :0]
        return cls(own, own[..., None, :0][..., :0, :], none, none if privileged is None else privileged)

    def flat(self) -> Tensor:
        """(W, N, D + P (F + 1)): all that a policy may see, for learners that take one vector."""
        if not self.valid.shape[-1]:
            return self.policy
        neighbours = torch.cat([self.neighbours, self.valid.unsqueeze(-1)], dim=-1)
        return torch.cat([self.policy, neighbours.flatten(-2)], dim=-1)


@worked_out_once()
def observe(cfg: ObservationCfg, inputs: PolicyInput, privileged: Tensor | None = None) -> Observation:
    """Own terms in order, and each neighbour's terms in order; `privileged` (..., C) is handed on."""
    own = torch.cat([t.func(inputs, **t.params) for t in cfg.own.values()], dim=-1)
    if not cfg.peer:
        return Observation.alone(own, privileged)
    valid = inputs.peers.valid.to(own.dtype)
    neighbours = torch.cat([t.func(inputs, **t.params) for t in cfg.peer.values()], dim=-1)
    hidden = own[..., :0] if privileged is None else privileged
    return Observation(own, neighbours * valid.unsqueeze(-1), valid, hidden)


def update_memory(cfg: ObservationCfg, inputs: PolicyInput, action: Tensor) -> dict[str, Tensor]:
    """Memory for the next step, after `action` (..., U) was taken on what was seen."""
    clipped = action.clamp(-1.0, 1.0)
    return {name: t.func(inputs.memory[name], inputs, clipped, **t.params) for name, t in cfg.memory.items()}


def initial_memory(cfg: ObservationCfg, batch: tuple[int, ...]) -> dict[str, Tensor]:
    """Memory at the start of an episode, each (*batch, size)."""
    return {name: torch.tensor(t.initial).expand(*batch, -1).clone() for name, t in cfg.memory.items()}
