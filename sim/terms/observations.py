"""What a policy sees: own terms map a inputs to (..., k), peer terms to (..., P, k), memory terms to a new value."""

import torch

from hardware import load_robot
from hardware.rotation import down_b, rotate_inverse, rotate_inverse_each
from sim.mirror import SCALAR, TURN, VECTOR, Flip, joined, mirrored, of_action, of_joints, of_memory
from sim.task import GroupCfg, PolicyInput
from sim.terms import MemoryTerm, Term

Tensor = torch.Tensor
Joints = tuple[int, ...]
MOTION = 13  # numbers of a frame of `motion_frames`


@mirrored(VECTOR)
def goal_offset(p: PolicyInput, limit_m: float) -> Tensor:
    """Vector to the goal, (..., 3) m, body; shortened to `limit_m` so that far goals all look alike."""
    return rotate_inverse(p.state.base_quat, shortened(p.command["goal_pos"] - p.state.base_pos, limit_m))


@mirrored(VECTOR)
def base_lin_vel(p: PolicyInput) -> Tensor:
    """Velocity of the base, (..., 3) m/s, body."""
    return p.state.base_lin_vel


@mirrored(TURN)
def base_ang_vel(p: PolicyInput) -> Tensor:
    """Angular velocity of the base, (..., 3) rad/s, body."""
    return p.state.base_ang_vel


@mirrored(SCALAR)
def base_height(p: PolicyInput) -> Tensor:
    """Height of the base above the origin, (..., 1) m, world: how far the floor and the ceiling are."""
    return p.state.base_pos[..., 2:]


@mirrored(VECTOR)
def projected_gravity(p: PolicyInput) -> Tensor:
    """Direction of gravity, (..., 3) unit vector, body: attitude without heading."""
    return down_b(p.state.base_quat)


@mirrored(of_memory)
def remembered(p: PolicyInput, name: str) -> Tensor:
    """A memory as it is, (..., k)."""
    return p.memory[name]


@mirrored(VECTOR)
def remembered_vector(p: PolicyInput, name: str) -> Tensor:
    """A remembered world vector, (..., 3), body."""
    return rotate_inverse(p.state.base_quat, p.memory[name])


@mirrored(of_joints)
def joint_offset(p: PolicyInput, robot: str, joints: Joints | None = None) -> Tensor:
    """Joint positions from home, of `joints` or of all, (..., k) rad, m for a slide."""
    home = p.state.joint_pos.new_tensor(load_robot(robot).home)
    return _picked(p.state.joint_pos - home, joints)


@mirrored(of_joints)
def joint_vel(p: PolicyInput, joints: Joints | None = None) -> Tensor:
    """Joint velocities, of `joints` or of all, (..., k) rad/s, m/s for a slide."""
    return _picked(p.state.joint_vel, joints)


@mirrored(VECTOR)
def peer_pos(p: PolicyInput) -> Tensor:
    """Where each peer is by now, (..., P, 3) m, body: what it said, carried on by its velocity for its age."""
    now = p.peers.pos + p.peers.lin_vel * p.peers.age.unsqueeze(-1)
    return rotate_inverse_each(p.state.base_quat, now - p.state.base_pos.unsqueeze(-2))


@mirrored(VECTOR)
def peer_vel(p: PolicyInput) -> Tensor:
    """Velocity of each peer relative to the robot's own, (..., P, 3) m/s, body."""
    return rotate_inverse_each(p.state.base_quat, p.peers.lin_vel) - p.state.base_lin_vel.unsqueeze(-2)


@mirrored(SCALAR)
def peer_distance(p: PolicyInput) -> Tensor:
    """Distance to where each peer is by now, (..., P, 1) m."""
    return torch.linalg.vector_norm(peer_pos(p), dim=-1, keepdim=True)


@mirrored(of_action)
def last_action(old: Tensor, p: PolicyInput, action: Tensor, channels: Joints | None = None) -> Tensor:
    """Memory of the last action, of `channels` or of all, (..., k) in [-1, 1]."""
    return _picked(action, channels)


@mirrored(of_action)
def correction(p: PolicyInput, scale: tuple[float, ...]) -> Tensor:
    """What the shield sent a control period ago, less what the policy had requested, (..., U) in shares of `scale`.

    `scale` (U,), in units of the channels, is best that of the action: what the shield took off is then comparable
    with what the policy did. Zero without a shield, and where the robot does not know it.
    """
    return p.correction / p.correction.new_tensor(scale)


def _of_frames(group: GroupCfg, memory: Term) -> Flip:
    assert isinstance(memory, MemoryTerm)
    return joined([VECTOR, VECTOR, TURN, of_action(group, memory)] * (len(memory.initial) // MOTION))


@mirrored(_of_frames)
def motion_frames(old: Tensor, p: PolicyInput, action: Tensor) -> Tensor:
    """Last control steps, (..., n MOTION) m/s, 1, rad/s, 1, body: velocity, gravity, angular velocity, action of each.

    Gravity's is a direction, the action the network's. How a drone answered its commands shows which loop, lag and
    delay it flies with.
    """
    frame = [p.state.base_lin_vel, projected_gravity(p), p.state.base_ang_vel, action]
    return torch.cat([old[..., MOTION:], *frame], dim=-1)


def goal_offset_sum(old: Tensor, p: PolicyInput, action: Tensor, dt_s: float, limit_m: float, decay_s: float) -> Tensor:
    """Leaky sum of the vector to the goal, (..., 3) m s, world: lets a policy cancel a steady error of mass or thrust.

    The vector counts for at most `limit_m`, so that flying far does not wind it up.
    """
    error = shortened(p.command["goal_pos"] - p.state.base_pos, limit_m)
    return old * (1.0 - dt_s / decay_s) + error * dt_s


def shortened(vector: Tensor, limit_m: float) -> Tensor:
    """`vector` (..., 3) with its length cut to `limit_m`."""
    length = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return vector / (length / limit_m).clamp(min=1.0)


def _picked(values: Tensor, entries: Joints | None) -> Tensor:
    return values if entries is None else values[..., list(entries)]
