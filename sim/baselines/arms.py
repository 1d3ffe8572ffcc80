"""Arms that nobody trained: the tool goes straight to its goal, the joints by damped least squares."""

import torch

from hardware import load_robot
from hardware.rotation import multiply, rotate_inverse
from sim.baselines.ik import CONJUGATE, joint_velocity, pose_error
from sim.task import Percept
from sim.terms.arms import drive, tool_inverse, tool_pose_b

Tensor = torch.Tensor
GAIN = 4.0  # 1/s: how fast the tool closes in on its goal
SPEED_M_S, SPEED_RAD_S = 0.5, 1.5  # of the tool at most
DAMPING = 0.05


def reach(p: Percept, robot: str, gripper_m: tuple[float, ...] = ()) -> Tensor:
    """Target (..., U) of an arm that brings its tool straight to `goal_pos`, `goal_quat`; the gripper as it is told."""
    pos, quat = tool_pose_b(p.state, robot)
    goal = rotate_inverse(p.state.base_quat, p.command["goal_pos"] - p.state.base_pos)
    goal_quat = multiply(p.state.base_quat * torch.tensor(CONJUGATE, dtype=quat.dtype), p.command["goal_quat"])
    missing = GAIN * pose_error(pos, quat, goal, goal_quat)
    twist = torch.cat([_limited(missing[..., :3], SPEED_M_S), _limited(missing[..., 3:], SPEED_RAD_S)], dim=-1)
    chain, lead, _ = drive(robot)
    speed = joint_velocity(chain, p.state.joint_pos, twist, DAMPING)[..., : len(lead)]
    rest = torch.tensor(gripper_m).expand(*speed.shape[:-1], len(gripper_m))
    return torch.cat([p.state.joint_pos[..., : len(lead)] + torch.tensor(lead) * speed, rest], dim=-1)


def _limited(vector: Tensor, limit: float) -> Tensor:
    return vector * (limit / torch.linalg.vector_norm(vector, dim=-1, keepdim=True).clamp_min(1e-6)).clamp_max(1.0)


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
        step = (tool_inverse(joints, robot, elbow, DAMPING) @ missing.unsqueeze(-1)).squeeze(-1)
        step = torch.nn.functional.pad(step, (0, len(home) - len(lead)))
        joints = torch.minimum(torch.maximum(joints + step, low), high)
    off = pose_error(*chain.forward(joints), pos, quat).abs().amax(-1) > 1e-3
    if off.any():
        raise ValueError(f"robot {robot!r}: the tool does not get to {pos[off][0].tolist()} m")
    return joints
