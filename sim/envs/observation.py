"""From what a robot measures to what its network sees.

The environment and the exported controller call these same functions, so that training and deployment cannot differ.
"""

from typing import NamedTuple

import torch

from sim.task import ObservationCfg, PolicyInput, Tensor


class Seen(NamedTuple):
    """The parts of an observation."""

    own: Tensor  # (..., own_dim)
    peers: Tensor  # (..., P, peer_dim), anything finite where absent
    valid: Tensor  # (..., P) 0 or 1

    def flat(self, critic: Tensor | None = None) -> Tensor:
        """Observation (..., D): own features, the critic's own, each peer's (zero where absent) and its flag."""
        valid = self.valid.unsqueeze(-1)
        parts = [self.own] if critic is None else [self.own, critic]
        if valid.shape[-2]:
            parts.append(torch.cat([self.peers * valid, valid], dim=-1).flatten(-2))
        return torch.cat(parts, dim=-1) if len(parts) > 1 else self.own


def see(cfg: ObservationCfg, inputs: PolicyInput) -> Seen:
    """What a robot sees: own terms in order, and each peer's terms in order."""
    own = torch.cat([t.func(inputs, **t.params) for t in cfg.own.values()], dim=-1)
    if not cfg.peer:
        return Seen(own, own[..., None, :0][..., :0, :], own[..., :0])
    others = torch.cat([t.func(inputs, **t.params) for t in cfg.peer.values()], dim=-1)
    return Seen(own, others, inputs.peers.valid.to(own.dtype))


def remember(cfg: ObservationCfg, inputs: PolicyInput, action: Tensor) -> dict[str, Tensor]:
    """Memory for the next step, after `action` (..., U) was taken on what was seen."""
    clipped = action.clamp(-1.0, 1.0)
    return {name: t.func(inputs.memory[name], inputs, clipped, **t.params) for name, t in cfg.memory.items()}


def initial_memory(cfg: ObservationCfg, batch: tuple[int, ...]) -> dict[str, Tensor]:
    """Memory at the start of an episode, each (*batch, size)."""
    return {name: torch.tensor(t.initial).expand(*batch, -1).clone() for name, t in cfg.memory.items()}
