"""Geometric flight control: thrust along the acceleration that is wanted, body rates that turn towards it.

Lee, Leok and McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010; the rate loop is the
robot's own.
"""

import torch

from deploy.shield.arrays import columns
from deploy.shield.drone.attitude import lift_of, missing_turn, rotated_back, rotation_matrix
from hardware import load_robot
from hardware.rotation import rotate
from sim.task import PolicyInput
from sim.terms.observations import shortened

Tensor = torch.Tensor
POSITION_GAIN, VELOCITY_GAIN, TURN_GAIN = 8.0, 5.0, 8.0  # 1/s^2, 1/s, 1/s
LOAD_GAIN, SWING_GAIN = 12.0, 0.5  # 1/s^3, 1/s
REACH_M = 0.8  # a goal farther away pulls no harder


def fly_to_goal(p: PolicyInput, robot: str, sum_gain: float = 0.0) -> Tensor:
    """Target (..., 4) of a drone that flies straight to `goal_pos` and knows nothing of the others.

    `sum_gain` 1/s^3 times the memory `goal_offset_sum` makes up for thrust and weight that are not as they should be.
    """
    vel = rotate(p.state.base_quat, p.state.base_lin_vel)
    accel = POSITION_GAIN * shortened(p.command["goal_pos"] - p.state.base_pos, REACH_M) - VELOCITY_GAIN * vel
    if sum_gain:
        accel = accel + sum_gain * p.memory["goal_offset_sum"]
    return accelerate(p, robot, accel)


def carry_load(p: PolicyInput, robot: str, cable_m: float, reach_m: float) -> Tensor:
    """Target (..., 4) of a drone that holds its end of a load's cable; its share of the weight it need not know.

    It flies to the point `reach_m` beside the load's goal, at the bearing at which it began, that lies a tight cable
    above it; the load follows. What the load is short of its goal, summed up, stands for its share of the weight.
    """
    load = p.objects["load"]
    above = torch.tensor([0.0, 0.0, (cable_m**2 - reach_m**2) ** 0.5])
    offset = p.command["load_goal"] + reach_m * p.memory["bearing"] + above - p.state.base_pos
    vel = rotate(p.state.base_quat, p.state.base_lin_vel)
    swing = rotate(load.quat, load.lin_vel) - vel
    accel = POSITION_GAIN * shortened(offset, REACH_M) - VELOCITY_GAIN * vel
    return accelerate(p, robot, accel + SWING_GAIN * swing + LOAD_GAIN * p.memory["load_goal_sum"])


def accelerate(p: PolicyInput, robot: str, accel_w: Tensor) -> Tensor:
    """Target (..., 4) = thrust N, body rates rad/s, towards the acceleration `accel_w` (..., 3) m/s^2, heading kept."""
    lift = rotated_back(rotation_matrix(columns(p.state.base_quat)), lift_of(columns(accel_w)))
    turn, thrust = missing_turn(lift)
    rates = [TURN_GAIN * angle for angle in turn]
    return torch.stack([load_robot(robot).mass_kg * thrust, *rates], dim=-1).float()
