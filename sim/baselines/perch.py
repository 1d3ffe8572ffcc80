"""A drone that lands on a tray, and the arm that holds the tray under it; neither is trained."""

import torch

from hardware.rotation import rotate
from sim.baselines.geometric import POSITION_GAIN, REACH_M, VELOCITY_GAIN, accelerate
from sim.task import PolicyInput
from sim.terms.arms import drive, forward, hold_attitude, tool_steps
from sim.terms.observations import shortened
from sim.terms.perch import above_seat

Tensor = torch.Tensor
STEEPNESS, MOST_M, SLACK_M = 2.5, 0.3, 0.03  # the drone stays above a cone on its seat, up to a height, outside a slack
PRESS_M = 0.06  # how far below its seat it aims at last: it has to come down whatever its weight
GAIN, SPEED_M_S = 4.0, 0.25  # 1/s, m/s at most: how fast the arm follows
SINK_M_S, SINK_RATE = 0.12, 1.5  # how fast it sinks at the seat, and how much faster for each metre above, 1/s


def land(p: PolicyInput, robot: str, tray: str, seat_m: float) -> Tensor:
    """Target (..., 4) of a drone that flies over its seat on the tray, sinks onto it and lets go."""
    thing = p.objects[tray]
    offset = above_seat(p.state, thing, seat_m)
    aside = torch.linalg.vector_norm(offset[..., :2], dim=-1, keepdim=True)
    height = (STEEPNESS * (aside - SLACK_M)).clamp(0.0, MOST_M)
    aim = torch.cat([torch.zeros_like(offset[..., :2]), torch.where(height > 0.0, height, -PRESS_M)], dim=-1)
    vel = rotate(p.state.base_quat, p.state.base_lin_vel) - rotate(thing.quat, thing.lin_vel)
    wanted = POSITION_GAIN / VELOCITY_GAIN * shortened(aim - offset, REACH_M)
    slowest = -SINK_M_S - SINK_RATE * offset[..., 2:].clamp(min=0.0)
    wanted = torch.cat([wanted[..., :2], torch.maximum(wanted[..., 2:], slowest)], dim=-1)
    accel = VELOCITY_GAIN * (wanted - vel)
    down = (offset[..., 2:] < 0.012) & (aside < 0.07)
    return accelerate(p, robot, torch.where(down, torch.tensor([0.0, 0.0, -6.0]), accel))


def hold_under(
    p: PolicyInput,
    robot: str,
    ahead_m: float,
    low_m: tuple[float, ...],
    high_m: tuple[float, ...],
    finger_m: float,
    quat: tuple[float, ...],
    elbow: str,
) -> Tensor:
    """Target (..., U) of an arm whose tool, turned as `quat`, keeps the tray, `ahead_m` before it, under its peer.

    The tool stays in the box from `low_m` to `high_m`, base, at the height at which it is.
    """
    pos, _ = forward(robot, p.state.joint_pos)
    goal = p.peers.pos[..., 0, :] - p.state.base_pos - torch.tensor([ahead_m, 0.0, 0.0])
    goal = torch.cat([goal[..., :2], pos[..., 2:]], dim=-1)
    missing = torch.minimum(torch.maximum(goal, torch.tensor(low_m)), torch.tensor(high_m)) - pos
    held = hold_attitude(p.state, robot, quat, elbow, GAIN)
    asked = held + torch.nn.functional.pad(shortened(GAIN * missing, SPEED_M_S), (0, held.shape[-1] - 3))
    step = tool_steps(p.state, asked, robot, elbow)
    size = len(drive(robot)[1])
    finger = torch.full_like(step[..., :1], finger_m)
    return torch.cat([p.state.joint_pos[..., :size] + step[..., :size], finger], dim=-1)
