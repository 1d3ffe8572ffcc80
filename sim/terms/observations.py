"""What a policy sees. Own terms map (state, command, memory) to (..., k), peer terms (state, peers) to (..., P, k)."""

from collections.abc import Mapping

import torch

from hardware.rotation import down_b, rotate_inverse, rotate_inverse_each
from hardware.types import Peers, RobotState

Tensor = torch.Tensor
Named = Mapping[str, Tensor]


def goal_offset(state: RobotState, command: Named, memory: Named, limit_m: float) -> Tensor:
    """Vector to the goal, (..., 3) m, body; shortened to `limit_m` so that far goals all look alike."""
    return rotate_inverse(state.base_quat, _shortened(command["goal_pos"] - state.base_pos, limit_m))


def base_lin_vel(state: RobotState, command: Named, memory: Named) -> Tensor:
    """Velocity of the base, (..., 3) m/s, body."""
    return state.base_lin_vel


def base_ang_vel(state: RobotState, command: Named, memory: Named) -> Tensor:
    """Angular velocity of the base, (..., 3) rad/s, body."""
    return state.base_ang_vel


def base_height(state: RobotState, command: Named, memory: Named) -> Tensor:
    """Height of the base above the origin, (..., 1) m, world: how far the floor and the ceiling are."""
    return state.base_pos[..., 2:]


def projected_gravity(state: RobotState, command: Named, memory: Named) -> Tensor:
    """Direction of gravity, (..., 3) unit vector, body: attitude without heading."""
    return down_b(state.base_quat)


def remembered(state: RobotState, command: Named, memory: Named, name: str) -> Tensor:
    """A memory as it is, (..., k)."""
    return memory[name]


def remembered_vector(state: RobotState, command: Named, memory: Named, name: str) -> Tensor:
    """A remembered world vector, (..., 3), body."""
    return rotate_inverse(state.base_quat, memory[name])


def peer_pos(state: RobotState, peers: Peers) -> Tensor:
    """Where each peer is by now, (..., P, 3) m, body: what it said, carried on by its velocity for its age."""
    now = peers.pos + peers.lin_vel * peers.age.unsqueeze(-1)
    return rotate_inverse_each(state.base_quat, now - state.base_pos.unsqueeze(-2))


def peer_vel(state: RobotState, peers: Peers) -> Tensor:
    """Velocity of each peer relative to the robot's own, (..., P, 3) m/s, body."""
    return rotate_inverse_each(state.base_quat, peers.lin_vel) - state.base_lin_vel.unsqueeze(-2)


def peer_distance(state: RobotState, peers: Peers) -> Tensor:
    """Distance to where each peer is by now, (..., P, 1) m."""
    return torch.linalg.vector_norm(peer_pos(state, peers), dim=-1, keepdim=True)


def last_action(old: Tensor, state: RobotState, command: Named, action: Tensor) -> Tensor:
    """Memory of the last action, (..., U) in [-1, 1]."""
    return action


def goal_offset_sum(
    old: Tensor, state: RobotState, command: Named, action: Tensor, dt_s: float, limit_m: float, decay_s: float
) -> Tensor:
    """Leaky sum of the vector to the goal, (..., 3) m s, world: lets a policy cancel a steady error of mass or thrust.

    The vector counts for at most `limit_m`, so that flying far does not wind it up.
    """
    error = _shortened(command["goal_pos"] - state.base_pos, limit_m)
    return old * (1.0 - dt_s / decay_s) + error * dt_s


def _shortened(vector: Tensor, limit_m: float) -> Tensor:
    """`vector` (..., 3) with its length cut to `limit_m`."""
    length = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return vector / (length / limit_m).clamp(min=1.0)
