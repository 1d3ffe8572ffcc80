"""stand: a Unitree G1 stays on its feet although it is pushed, and comes to rest about where it was."""

from math import pi

import torch

from sim import randomisation
from sim.task import ActionCfg, Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts import g1
from sim.tasks.parts.g1 import HOME, ROBOT
from sim.terms import EventTerm, RewardTerm, Term, humanoids, observations, rewards
from sim.vectors import about_vertical

# Reach of the action about home, rad. Arms and hands keep their pose: fewer channels are learned sooner.
HIPS = {"hip_pitch": 0.5, "hip_roll": 0.35, "hip_yaw": 0.25}
REACH = {**HIPS, "knee": 0.6, "ankle_pitch": 0.4, "ankle_roll": 0.25, "waist": 0.2}
SCALE = g1.of_joints(REACH)
DRIVEN = tuple(index for index, scale in enumerate(SCALE) if scale)
OF_DRIVEN = {"joints": DRIVEN, "home": tuple(HOME[index] for index in DRIVEN)}
FALLEN = {"height_m": 0.5, "tilt_rad": 0.9}
PUSH_M_S = (0.3, 0.6)  # added to the velocity of the whole robot at once, in any horizontal direction
PUSH_EVERY_S = (2.0, 3.0)


def starts(draw: Draw) -> dict[str, Start]:
    """At home above the origin, within 5 cm, facing anywhere, moving at up to 0.2 m/s along each horizontal axis."""
    if draw.robots > 1:
        raise ValueError(f"stand is for one robot at the origin, not for {draw.robots}")
    n, uniform = draw.robots, draw.uniform
    yaw = uniform(-pi, pi, n)
    none = torch.zeros_like(yaw)
    height = torch.full_like(yaw, ROBOT.home_height_m)
    joint_pos = g1.near_pose(draw, HOME, DRIVEN)
    return {
        ROBOT.name: Start(
            pos=torch.stack([uniform(-0.05, 0.05, n), uniform(-0.05, 0.05, n), height], dim=-1),
            quat=about_vertical(yaw),
            lin_vel=torch.cat([uniform(-0.2, 0.2, n, 2), none.unsqueeze(-1)], dim=-1),
            joint_pos=joint_pos,
            command={},
        )
    }


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=1,
    commands={},
    observation=ObservationCfg(
        own={
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "joint_offset": Term(observations.joint_offset, {"robot": ROBOT.name, "joints": DRIVEN}),
            "joint_vel": Term(observations.joint_vel, {"joints": DRIVEN}),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={"last_action": g1.last_action(DRIVEN)},
        privileged={
            "base_motion": Term(humanoids.base_motion),
            "place": Term(humanoids.place),
            "feet": Term(humanoids.feet),
        },
    ),
    action=ActionCfg(centre=HOME, scale=SCALE),
    rewards={
        "balance": RewardTerm(humanoids.balance, {"scale_m": 0.25}, weight=1.0),
        "pose": RewardTerm(humanoids.pose, {**OF_DRIVEN, "scale_rad": 0.15}, weight=0.7),
        "stillness": RewardTerm(humanoids.stillness, {"scale_m_s": 0.2}, weight=0.5),
        "alive": RewardTerm(humanoids.alive, weight=0.3),
        "lean": RewardTerm(humanoids.lean, weight=-2.0),
        "rocking": RewardTerm(humanoids.rocking, weight=-0.03),
        "feet_apart": RewardTerm(humanoids.feet_apart, {"least_m": 0.16}, weight=-4.0),
        "action_change": RewardTerm(rewards.action_change, {"channels": DRIVEN}, weight=-0.02),
        "joint_speed": RewardTerm(rewards.joint_speed, weight=-0.0005),
        "fallen": RewardTerm(humanoids.fallen, FALLEN, weight=-20.0),
    },
    terminations={"fallen": Term(humanoids.fallen, FALLEN)},
    success=Term(humanoids.standing, {"height_m": 0.65, "tilt_rad": 0.5, "distance_m": 1.0}),
    noise=g1.NOISE,
    randomisation={
        **g1.VARIATION,
        "push": EventTerm(randomisation.push, {"speed_m_s": PUSH_M_S}, interval_range_s=PUSH_EVERY_S),
    },
    training={"ppo": g1.PPO},
)

STAND = TaskCfg(
    name="stand",
    summary="a Unitree G1 stays on its feet under pushes",
    episode_s=8.0,
    success_hold_s=0.5,
    groups={ROBOT.name: GROUP},
    starts=starts,
    train_steps=3_000_000,
)
