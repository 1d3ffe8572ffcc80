"""Arms without training: the tool goes straight to its goal, the joints by damped least squares."""

import torch

from hardware import load_robot
from hardware.rotation import multiply, rotate_inverse
from sim.baselines.ik import CONJUGATE, joint_velocity, pose_error
from sim.task import PolicyInput
from sim.terms.arms import drive, forward, hold_attitude, joint_speeds, tool_steps
from sim.terms.bars import ends_to_height, grip_from_tool
from sim.terms.objects import object_from_tool, object_to_goal, push_point_from_tool
from sim.terms.observations import shortened

Tensor = torch.Tensor
GAIN = 4.0  # 1/s: how fast the tool closes in on its goal
SPEED_M_S, SPEED_RAD_S = 0.5, 1.5  # of the tool at most
DAMPING = 0.05
OVER_M, STANDOFF_M = 0.05, 0.03  # how high the tool goes over what it is to push; how far behind it comes down
PUSH_M_S, CARRY_M_S = 0.15, 0.25
SAG_M_S = 0.04  # by which a drive that leads what it measures sinks under half of the bar


def reach(p: PolicyInput, robot: str, gripper_m: tuple[float, ...] = ()) -> Tensor:
    """Target (..., U) of an arm that brings its tool straight to `goal_pos`, `goal_quat`; the gripper as commanded."""
    pos, quat = forward(robot, p.state.joint_pos)
    goal = rotate_inverse(p.state.base_quat, p.command["goal_pos"] - p.state.base_pos)
    goal_quat = multiply(p.state.base_quat * torch.tensor(CONJUGATE, dtype=quat.dtype), p.command["goal_quat"])
    missing = GAIN * pose_error(pos, quat, goal, goal_quat)
    twist = torch.cat([shortened(missing[..., :3], SPEED_M_S), shortened(missing[..., 3:], SPEED_RAD_S)], dim=-1)
    chain, lead, _ = drive(robot)
    speed = joint_velocity(chain, p.state.joint_pos, twist, DAMPING)[..., : len(lead)]
    rest = torch.tensor(gripper_m).expand(*speed.shape[:-1], len(gripper_m))
    return torch.cat([p.state.joint_pos[..., : len(lead)] + torch.tensor(lead) * speed, rest], dim=-1)


def push(
    p: PolicyInput, robot: str, name: str, behind_m: float, height_m: float, quat: tuple[float, ...], elbow: str
) -> Tensor:
    """Target (..., U) of an arm that goes over the object to behind it, comes down and pushes; gripper closed."""
    away = push_point_from_tool(p, robot, name, behind_m + STANDOFF_M, height_m)
    way = object_to_goal(p, name, 1.0)[..., :2]
    far = torch.linalg.vector_norm(way, dim=-1, keepdim=True)
    way = way / far.clamp_min(1e-6)
    ahead = (away[..., :2] * way).sum(-1, keepdim=True)
    aside = away[..., :2] - ahead * way
    off = torch.linalg.vector_norm(aside, dim=-1, keepdim=True)
    low = away[..., 2:].abs() < 0.02
    behind = low & (off < 0.03) & (ahead > -STANDOFF_M - 0.03) & (ahead < 0.03)
    gap = torch.linalg.vector_norm(away[..., :2], dim=-1, keepdim=True)
    over = away[..., 2:] + torch.where(gap > 0.02, OVER_M, 0.0)
    sideways = torch.where(over.abs() < 0.02, GAIN * away[..., :2], 0.0)
    pushing = GAIN * aside + way * (3.0 * far).clamp_max(PUSH_M_S)
    velocity = torch.where(
        behind, torch.cat([pushing, GAIN * away[..., 2:]], dim=-1), torch.cat([sideways, GAIN * over], dim=-1)
    )
    velocity = torch.where((far < 0.01).expand_as(velocity), 0.0, shortened(velocity, SPEED_M_S))
    return _moved(p, robot, velocity, torch.zeros_like(far), quat, elbow)


def pick(p: PolicyInput, robot: str, name: str, width_m: float, quat: tuple[float, ...], elbow: str) -> Tensor:
    """Target (..., U) of an arm that comes down on the object, grasps it and brings it to `goal_pos`."""
    to = object_from_tool(p, robot, name)
    velocity, gripper, held = _grasp(p, to, width_m)
    velocity = torch.where(held, GAIN * object_to_goal(p, name, 1.0), velocity)
    return _moved(p, robot, shortened(velocity, CARRY_M_S), gripper, quat, elbow)


def lift(
    p: PolicyInput, robot: str, name: str, grip_m: float, width_m: float, quat: tuple[float, ...], elbow: str
) -> Tensor:
    """Target (..., U) of an arm that grasps its end of a bar and lifts it to `height`, whatever the other arm does."""
    to = grip_from_tool(p, robot, name, grip_m)
    velocity, gripper, held = _grasp(p, to, width_m)
    rise = SAG_M_S + GAIN * ends_to_height(p, name, grip_m)[..., :1]
    velocity = torch.where(held, torch.cat([GAIN * to[..., :2], rise], dim=-1), velocity)
    return _moved(p, robot, shortened(velocity, CARRY_M_S), gripper, quat, elbow)


def _grasp(p: PolicyInput, to: Tensor, width_m: float) -> tuple[Tensor, Tensor, Tensor]:
    """Velocity of the tool (..., 3) m/s, gripper (..., 1) m, whether it holds (..., 1) what is `to` (..., 3) m away."""
    aside = torch.linalg.vector_norm(to[..., :2], dim=-1, keepdim=True)
    over = to[..., 2:] + OVER_M * (aside / 0.02 - 1.0).clamp(0.0, 1.0)
    near = torch.linalg.vector_norm(to, dim=-1, keepdim=True) < 0.015
    finger = p.state.joint_pos[..., -1:]
    closing = near | ((finger < width_m / 2 + 0.01) & (aside < 0.03))
    held = closing & (finger < width_m / 2 + 0.002)
    gripper = torch.where(closing, 0.0, 0.04)
    return GAIN * torch.cat([to[..., :2], over], dim=-1), gripper, held


def _moved(
    p: PolicyInput, robot: str, velocity: Tensor, gripper: Tensor, quat: tuple[float, ...], elbow: str
) -> Tensor:
    """Target (..., U) that moves the tool at `velocity` (..., 3) m/s, base, turned as `quat`; `gripper` (..., 1) m."""
    held = hold_attitude(p.state, robot, quat, elbow, GAIN)
    asked = torch.nn.functional.pad(velocity, (0, held.shape[-1] - 3)) + held
    step = tool_steps(p.state, asked, robot, elbow)
    size = len(drive(robot)[1])
    return torch.cat([p.state.joint_pos[..., :size] + step[..., :size], gripper], dim=-1)


def poses(robot: str, pos: Tensor, quat: Tensor, elbow: str | None, rounds: int = 100) -> Tensor:
    """Joint positions (..., J) with the tool at `pos` (..., 3) m and `quat` (..., 4) wxyz, base, and the elbow at home.

    Found from home by search. ValueError where it ends more than a millimetre or milliradian away: out of reach.
    """
    spec = load_robot(robot)
    chain, lead, home = drive(robot)
    low, high = (torch.tensor([getattr(joint, side) for joint in spec.joints]) for side in ("low", "high"))
    joints = torch.tensor(home).expand(*pos.shape[:-1], -1)
    for _ in range(rounds):
        missing = pose_error(*chain.forward(joints), pos, quat)
        if elbow is not None:
            joint = spec.joint_names.index(elbow)
            missing = torch.cat([missing, home[joint] - joints[..., joint : joint + 1]], dim=-1)
        step = joint_speeds(joints, missing, robot, elbow, DAMPING)
        step = torch.nn.functional.pad(step, (0, len(home) - len(lead)))
        joints = torch.minimum(torch.maximum(joints + step, low), high)
    off = pose_error(*chain.forward(joints), pos, quat).abs().amax(-1) > 1e-3
    if off.any():
        raise ValueError(f"robot {robot!r}: the tool does not get to {pos[off][0].tolist()} m")
    return joints
