"""What tasks of humanoids share: the joints that are driven, how one stands at first, how it learns and varies."""

from collections.abc import Mapping

import torch

from hardware import load_robot
from hardware.spec import RobotSpec
from sim import randomisation
from sim.noise import Noise
from sim.task import Draw
from sim.tasks.parts.links import in_time
from sim.terms import EventTerm, MemoryTerm, observations

NOISE = Noise(angle_rad=0.01, ang_vel_rad_s=0.1, joint_pos_rad=0.005, joint_vel_rad_s=0.2)
VARIATION: Mapping[str, EventTerm] = {
    "mass": EventTerm(randomisation.mass, {"scale": (0.9, 1.1)}),
    "centre_of_mass": EventTerm(randomisation.centre_of_mass, {"shift_m": (-0.03, 0.03)}),
    "friction": EventTerm(randomisation.friction, {"scale": (0.6, 1.3)}),
    "gains": EventTerm(randomisation.gains, {"stiffness": (0.9, 1.1), "damping": (0.9, 1.1)}),
    "motor_strength": EventTerm(randomisation.motor_strength, {"scale": (0.85, 1.0)}),
    "sensor_bias": EventTerm(
        randomisation.sensor_bias, {"bias": Noise(angle_rad=0.01, ang_vel_rad_s=0.02, joint_pos_rad=0.01)}
    ),
    "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.015)}),
    "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.01)}),
    **in_time(load_robot("g1")),  # as of every humanoid
}
PPO = {
    **{"gamma": 0.98, "gae_lambda": 0.9, "num_steps": 16, "epochs": 4, "minibatch": 4096, "hidden": 128},
    **{"init_std": 0.3, "min_std": 0.05, "target_kl": 0.02},
}


def of_joints(robot: RobotSpec, values: Mapping[str, float]) -> tuple[float, ...]:
    """(J,) for each joint of `robot` the value of the part that its name contains, such as "knee"; 0 if of none."""
    return tuple(next((value for part, value in values.items() if part in name), 0.0) for name in robot.joint_names)


def last_action(joints: tuple[int, ...]) -> MemoryTerm:
    """Memory of the last action of `joints`, by their places in the robot's order."""
    return MemoryTerm(observations.last_action, {"channels": joints}, initial=(0.0,) * len(joints))


def near_pose(draw: Draw, pose: tuple[float, ...], joints: tuple[int, ...]) -> torch.Tensor:
    """Joint positions (K, N, J) rad: `pose` (J,), with `joints` up to 0.05 rad off."""
    joint_pos = torch.tensor(pose).repeat(draw.worlds, draw.robots, 1)
    joint_pos[..., list(joints)] += draw.uniform(-0.05, 0.05, draw.robots, len(joints))
    return joint_pos
