"""From the network's output to actuators, and back.

The environment and the exported controller call these same functions, so that training and deployment cannot differ.
"""

import torch

from hardware.once import worked_out_once
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState
from sim.task import ActionCfg, Tensor
from sim.tree import on_tensors


@worked_out_once()
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
    if cfg.bias is not None:
        offset = offset + cfg.bias.func(state, **cfg.bias.params)
    if cfg.transform is not None:
        offset = cfg.transform.func(state, offset, **cfg.transform.params)
    if cfg.limit is not None:
        offset = cfg.limit.func(state, offset, **cfg.limit.params)
    low, high = (action.new_tensor(limits) for limits in (robot.command_low, robot.command_high))
    return ActuatorCommand(target=(centre + offset).clamp(low, high))


def encode(cfg: ActionCfg, target: Tensor, state: RobotState, robot: RobotSpec) -> Tensor:
    """The action (..., U) in [-1, 1] that comes nearest to `target` (..., U): `decode` backwards, inside its limit."""
    centre = decode(cfg, torch.zeros_like(target), state, robot).target
    offset = target - centre
    if cfg.transform is not None:
        width = offset.shape[-1]
        units = torch.eye(width).view(width, *[1] * (offset.ndim - 1), width).expand(-1, *offset.shape)
        states = on_tensors(lambda tensor: tensor.expand(width, *tensor.shape), state)
        columns = cfg.transform.func(states, units, **cfg.transform.params)
        offset = torch.linalg.solve(columns.movedim(0, -1), offset)
    scale = torch.tensor(cfg.scale, dtype=target.dtype)
    return torch.where(scale == 0.0, 0.0, offset / scale).clamp(-1.0, 1.0)
