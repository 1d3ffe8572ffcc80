"""What tasks of the Panda share: poses to start from, actions that move the tool, and how arms vary."""

from dataclasses import replace
from functools import lru_cache

import torch

from hardware import load_robot
from sim import randomisation
from sim.baselines import arms as baselines
from sim.noise import Noise
from sim.task import ActionCfg
from sim.tasks.parts.links import in_time
from sim.terms import EventTerm, MemoryTerm, Term, arms, observations

Corner = tuple[float, float, float]
Quat = tuple[float, float, float, float]

ROBOT = load_robot("panda")
TOOL = {"robot": ROBOT.name}
ELBOW = "joint3"
DOWN = (0.0, 1.0, 0.0, 0.0)  # the tool looks straight down, its fingers open along y, wxyz
NONE = (0.0,) * len(ROBOT.channels)
LAST_ACTION = MemoryTerm(observations.last_action, initial=NONE)
PPO = {"gamma": 0.98, "init_std": 0.4, "target_kl": 0.015, "minibatch": 2048}

NOISE = Noise(pos_m=0.001, angle_rad=0.005, lin_vel_m_s=0.01, joint_pos_rad=0.0005, joint_vel_rad_s=0.01)
# Of a camera that looks at the table: places to 5 mm and speeds to 5 cm/s, 30 pictures in a second, so that 4 of 10
# control steps have no new one, some of them lost, each up to 80 ms older than the joints, and mounted to 3 mm.
CAMERA_NOISE = replace(NOISE, pos_m=0.005, angle_rad=0.02, lin_vel_m_s=0.05)
CAMERA = {
    "camera": EventTerm(
        randomisation.camera, {"delay_s": (0.02, 0.08), "missing": (0.4, 0.5), "offset": Noise(pos_m=0.003)}
    )
}
DRIVES = {
    "gains": EventTerm(randomisation.gains, {"stiffness": (0.95, 1.05), "damping": (0.95, 1.05)}),
    "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(joint_pos_rad=0.001)}),
    "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.008)}),
    "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.02)}),
    **in_time(ROBOT),
}


def move_tool(speed: tuple[float, ...], gripper_m: float, gripper_scale_m: float, quat: Quat | None) -> ActionCfg:
    """The tool at up to `speed` m/s, rad/s along its coordinates (see `arms.tool_steps`), the gripper about a width.

    With `quat` wxyz, base, the tool keeps that attitude and the elbow stays at home.
    """
    elbow = {**TOOL, "elbow": ELBOW}
    return ActionCfg(
        centre=(*NONE[:7], gripper_m),
        scale=(*speed, *NONE[: 7 - len(speed)], gripper_scale_m),
        relative=(*(True,) * 7, False),
        transform=Term(arms.tool_steps, elbow),
        bias=Term(arms.hold_attitude, {**elbow, "quat": quat, "rate": 4.0}) if quat is not None else None,
    )


@lru_cache
def poses(low: Corner, high: Corner, quat: Quat, finger_m: float | None = None, count: int = 512) -> torch.Tensor:
    """(count, J) joint positions with the tool anywhere from `low` to `high` m, turned as `quat` wxyz, base.

    The fingers are where they are at home, or at `finger_m`. ValueError for a place out of reach.
    """
    corner, size = torch.tensor(low), torch.tensor(high) - torch.tensor(low)
    pos = corner + size * torch.rand(count, 3, generator=torch.Generator().manual_seed(0))
    joints = baselines.poses(ROBOT.name, pos, torch.tensor(quat).expand(count, 4), ELBOW)
    if finger_m is not None:
        joints[:, -1] = finger_m
    return joints
