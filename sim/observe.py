"""From what a robot measures to what its network sees, and from the network's output to actuators.

The environment and the exported controller call these same functions, so that training and deployment cannot differ.
"""

from typing import NamedTuple

import torch

from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState
from sim.task import ActionCfg, ObservationCfg, Percept, Tensor


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


def see(cfg: ObservationCfg, percept: Percept) -> Seen:
    """What a robot sees: own terms in order, and each peer's terms in order."""
    own = torch.cat([t.func(percept, **t.params) for t in cfg.own.values()], dim=-1)
    if not cfg.peer:
        return Seen(own, own[..., None, :0][..., :0, :], own[..., :0])
    others = torch.cat([t.func(percept, **t.params) for t in cfg.peer.values()], dim=-1)
    return Seen(own, others, percept.peers.valid.to(own.dtype))


def decode(cfg: ActionCfg, action: Tensor, state: RobotState, robot: RobotSpec) -> ActuatorCommand:
    """Actuator set-points (..., U) of a network output (..., U), which is clipped to [-1, 1] first.

    None leaves the range of its channel, however far the task lets an action reach.
    """
    scale = torch.tensor(cfg.scale, dtype=action.dtype, device=action.device)
    centre = torch.tensor(cfg.centre, dtype=action.dtype, device=action.device)
    if any(cfg.relative):
        relative = torch.tensor(cfg.relative, device=action.device)
        joints = torch.tensor([max(joint, 0) for joint in robot.joint_of_channel], device=action.device)
        centre = torch.where(relative, state.joint_pos[..., joints], centre)
    offset = scale * action.clamp(-1.0, 1.0)
    if cfg.hold is not None:
        offset = offset + cfg.hold.func(state, **cfg.hold.params)
    if cfg.moves is not None:
        offset = cfg.moves.func(state, offset, **cfg.moves.params)
    low, high = (action.new_tensor(limits) for limits in (robot.command_low, robot.command_high))
    return ActuatorCommand(target=(centre + offset).clamp(low, high))


def encode(cfg: ActionCfg, target: Tensor, state: RobotState, robot: RobotSpec) -> Tensor:
    """The action (..., U) in [-1, 1] that comes nearest to `target` (..., U): the inverse of `decode`."""
    centre = decode(cfg, torch.zeros_like(target), state, robot).target
    offset = target - centre
    if cfg.moves is not None:
        units = torch.eye(offset.shape[-1])
        columns = [cfg.moves.func(state, unit.expand_as(offset), **cfg.moves.params) for unit in units]
        offset = torch.linalg.solve(torch.stack(columns, dim=-1), offset)
    scale = torch.tensor(cfg.scale, dtype=target.dtype)
    return torch.where(scale == 0.0, 0.0, offset / scale).clamp(-1.0, 1.0)


def remember(cfg: ObservationCfg, percept: Percept, action: Tensor) -> dict[str, Tensor]:
    """Memory for the next step, after `action` (..., U) was taken on what was seen."""
    clipped = action.clamp(-1.0, 1.0)
    return {name: t.func(percept.memory[name], percept, clipped, **t.params) for name, t in cfg.memory.items()}


def initial_memory(cfg: ObservationCfg, batch: tuple[int, ...]) -> dict[str, Tensor]:
    """Memory at the start of an episode, each (*batch, size)."""
    return {name: torch.tensor(t.initial).expand(*batch, -1).clone() for name, t in cfg.memory.items()}
