"""Geometric flight control: thrust along the acceleration that is wanted, body rates that turn towards it.

Lee, Leok and McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010; the rate loop is the
robot's own.
"""

import torch

from deploy.shield.arrays import columns
from deploy.shield.attitude import lift_of, missing_turn, rotated_back, rotation_matrix
from hardware import load_robot
from hardware.rotation import rotate
from sim.task import Percept

Tensor = torch.Tensor
POSITION_GAIN, VELOCITY_GAIN, TURN_GAIN = 2.0, 2.5, 8.0  # 1/s^2, 1/s, 1/s
REACH_M = 0.8  # a goal farther away pulls no harder


def fly_to_goal(p: Percept, robot: str) -> Tensor:
    """Target (..., 4) of a drone that flies straight to `goal_pos` and knows nothing of the others."""
    offset = p.command["goal_pos"] - p.state.base_pos
    far = torch.linalg.vector_norm(offset, dim=-1, keepdim=True).clamp_min(1e-6)
    vel = rotate(p.state.base_quat, p.state.base_lin_vel)
    return accelerate(p, robot, POSITION_GAIN * offset * (REACH_M / far).clamp_max(1.0) - VELOCITY_GAIN * vel)


def accelerate(p: Percept, robot: str, accel_w: Tensor) -> Tensor:
    """Target (..., 4) = thrust N, body rates rad/s, towards the acceleration `accel_w` (..., 3) m/s^2, heading kept."""
    lift = rotated_back(rotation_matrix(columns(p.state.base_quat)), lift_of(columns(accel_w)))
    turn, thrust = missing_turn(lift)
    rates = [TURN_GAIN * angle for angle in turn]
    return torch.stack([load_robot(robot).mass_kg * thrust, *rates], dim=-1).float()
