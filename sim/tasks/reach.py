"""reach: a Panda brings its tool to a pose, from any other one."""

from math import pi

import torch

from sim import randomisation
from sim.baselines import arms as baselines
from sim.noise import Noise
from sim.task import CommandCfg, Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts import panda
from sim.tasks.parts.panda import ROBOT, TOOL
from sim.terms import EventTerm, RewardTerm, Term, arms, observations, rewards

# Joint angles, rad, in which the tool is in front of the arm and looks down, more or less; the gripper is open.
LOW = (-0.9, -0.9, -0.5, -2.7, -0.6, 1.0, pi / 4 - 0.9, 0.04)
HIGH = (0.9, 0.5, 0.5, -1.4, 0.6, 2.4, pi / 4 + 0.9, 0.04)
SPACE = ((0.30, -0.5, 0.12), (0.70, 0.5, 0.75))  # m: the corners of where a tool starts and shall go
LARGEST_TEAM = 2
DRAWS = 16  # of joint angles, of which the first that puts the tool into that space counts


def starts(draw: Draw) -> dict[str, Start]:
    """Joints and goal drawn alike: a pose that the arm can take with its tool in `SPACE`.

    Arms stand a metre apart. The goals of two lie in the one space between them, each on its arm's side.
    """
    n = draw.robots
    if n > LARGEST_TEAM:
        raise ValueError(f"reach has room for {LARGEST_TEAM} robots, not {n}")
    base = torch.zeros(n, 3)
    base[:, 1] = torch.arange(n) - (n - 1) / 2
    pos, quat = arms.forward(ROBOT.name, _comfortable(draw, base))
    joint_pos = _comfortable(draw, torch.zeros(n, 3))
    return {ROBOT.name: Start(command={"goal_pos": pos + base, "goal_quat": quat}, joint_pos=joint_pos)}


def _comfortable(draw: Draw, base: torch.Tensor) -> torch.Tensor:
    """Joint positions (K, N, J) with the tool in `SPACE`, as the arm at `base` (N, 3) m sees it and as the world does.

    The middle of the ranges in the rare case that no draw fits.
    """
    low, high = torch.tensor(LOW), torch.tensor(HIGH)
    joints = low + (high - low) * draw.uniform(0.0, 1.0, draw.robots, DRAWS, len(LOW))
    joints[..., -1, :] = (low + high) / 2
    tool, _ = arms.forward(ROBOT.name, joints)
    fits = _within(tool) & _within(tool + base.unsqueeze(1))
    fits[..., -1] = True
    first = fits.int().argmax(-1)[..., None, None].expand(-1, -1, 1, len(LOW))
    return joints.gather(-2, first).squeeze(-2)


def _within(pos: torch.Tensor) -> torch.Tensor:
    return ((pos > torch.tensor(SPACE[0])) & (pos < torch.tensor(SPACE[1]))).all(-1)


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=1,
    commands={
        "goal_pos": CommandCfg(*SPACE, "m", "world", "where the tool shall be"),
        "goal_quat": CommandCfg((-1.0,) * 4, (1.0,) * 4, "wxyz", "world", "how the tool shall be turned"),
    },
    observation=ObservationCfg(
        own={
            "tool_to_goal": Term(arms.tool_to_goal, {**TOOL, "limit_m": 0.3}),
            "joint_offset": Term(observations.joint_offset, TOOL),
            "joint_vel": Term(observations.joint_vel),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={"last_action": panda.LAST_ACTION},
    ),
    # m/s, rad/s of the tool, rad/s of the elbow; gripper open
    action=panda.move_tool((0.5, 0.5, 0.5, 1.5, 1.5, 1.5, 0.5), gripper_m=0.04, gripper_scale_m=0.0, quat=None),
    rewards={
        "near": RewardTerm(arms.tool_near, {"scale_m": 0.3}, weight=0.5),
        "close": RewardTerm(arms.tool_near, {"scale_m": 0.03}, weight=0.5),
        "aligned": RewardTerm(arms.tool_aligned, {"scale_rad": 0.6}, weight=0.5),
        "well_aligned": RewardTerm(arms.tool_aligned, {"scale_rad": 0.1}, weight=0.5),
        "action_change": RewardTerm(rewards.action_change, {"channels": tuple(range(7))}, weight=-0.02),
        "joint_speed": RewardTerm(rewards.joint_speed, weight=-0.002),
        "near_joint_limit": RewardTerm(arms.near_joint_limit, {"margin_rad": 0.15}, weight=-0.5),
        "low": RewardTerm(arms.tool_low, {"height_m": 0.03}, weight=-20.0),
    },
    terminations={"low": Term(arms.tool_low, {"height_m": 0.03})},
    success=Term(arms.tool_there, {"distance_m": 0.02, "angle_rad": pi / 18}),
    noise=Noise(joint_pos_rad=0.0005, joint_vel_rad_s=0.01),
    randomisation={
        "gains": EventTerm(randomisation.gains, {"stiffness": (0.9, 1.1), "damping": (0.9, 1.1)}),
        "joint_friction": EventTerm(randomisation.joint_friction, {"scale": (0.5, 1.5)}),
        "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(joint_pos_rad=0.001)}),
        "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.008)}),
        "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.008)}),
    },
    baseline=Term(baselines.reach, {**TOOL, "gripper_m": (0.04,)}),
    training={"ppo": {"gamma": 0.95, "gae_lambda": 0.9, "init_std": 0.4, "target_kl": 0.02}},
)

REACH = TaskCfg(
    name="reach",
    summary="a Panda brings its tool to a pose and keeps it there",
    episode_s=3.0,
    success_hold_s=0.5,
    groups={ROBOT.name: GROUP},
    starts=starts,
    train_steps=1_500_000,
)
