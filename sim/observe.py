"""From what a robot measures to what its network sees, and from the network's output to actuators.

The environment and the exported controller call these same functions, so that training and deployment cannot differ.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from hardware.types import ActuatorCommand, Peers, RobotState
from sim.task import ActionCfg, ObservationCfg, Tensor


class Seen(NamedTuple):
    """The parts of an observation."""

    own: Tensor  # (..., own_dim)
    peers: Tensor  # (..., P, peer_dim), anything finite where absent
    valid: Tensor  # (..., P) 0 or 1

    def flat(self) -> Tensor:
        """Observation (..., D): own features, then each peer's (zero where absent) and its flag; see `ObsLayout`."""
        valid = self.valid.unsqueeze(-1)
        return torch.cat([self.own, torch.cat([self.peers * valid, valid], dim=-1).flatten(-2)], dim=-1)


def see(
    cfg: ObservationCfg, state: RobotState, peers: Peers, command: Mapping[str, Tensor], memory: Mapping[str, Tensor]
) -> Seen:
    """What a robot sees: own terms in order, and each peer's terms in order."""
    own = torch.cat([t.func(state, command, memory, **t.params) for t in cfg.own.values()], dim=-1)
    others = torch.cat([t.func(state, peers, **t.params) for t in cfg.peer.values()], dim=-1)
    return Seen(own, others, peers.valid.to(own.dtype))


def observe(
    cfg: ObservationCfg, state: RobotState, peers: Peers, command: Mapping[str, Tensor], memory: Mapping[str, Tensor]
) -> Tensor:
    """Observation (..., D), as `Seen.flat`."""
    return see(cfg, state, peers, command, memory).flat()


def decode(cfg: ActionCfg, action: Tensor) -> ActuatorCommand:
    """Actuator set-points (..., U) of a network output (..., U), which is clipped to [-1, 1] first."""
    scale = torch.tensor(cfg.scale, dtype=action.dtype, device=action.device)
    centre = torch.tensor(cfg.centre, dtype=action.dtype, device=action.device)
    return ActuatorCommand(target=centre + scale * action.clamp(-1.0, 1.0))


def remember(
    cfg: ObservationCfg, memory: Mapping[str, Tensor], state: RobotState, command: Mapping[str, Tensor], action: Tensor
) -> dict[str, Tensor]:
    """Memory for the next step, after `action` (..., U) was taken on what was seen."""
    clipped = action.clamp(-1.0, 1.0)
    return {name: t.func(memory[name], state, command, clipped, **t.params) for name, t in cfg.memory.items()}


def initial_memory(cfg: ObservationCfg, batch: tuple[int, ...]) -> dict[str, Tensor]:
    """Memory at the start of an episode, each (*batch, size)."""
    return {name: torch.tensor(t.initial).expand(*batch, -1).clone() for name, t in cfg.memory.items()}
