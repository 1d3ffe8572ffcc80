"""bimanual-lift: two Pandas, one policy and no word between them, lift a bar that is too heavy and too long for one."""

from dataclasses import replace
from math import sqrt

import mujoco
import numpy as np
import torch

from sim import randomisation
from sim.baselines import arms as baselines
from sim.task import CommandCfg, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.tasks.parts import panda
from sim.tasks.parts.panda import ELBOW, ROBOT, TOOL
from sim.terms import EventTerm, RewardTerm, Term, arms, bars, objects, observations, rewards
from sim.vectors import about_vertical

SPACING_M = 1.0  # between the arms, side by side
LENGTH_M, WIDTH_M, HEIGHT_M = 1.2, 0.04, 0.05
MASS_KG = 5.0  # an arm may carry 3
GRIP_M = 0.5  # from the middle of the bar to where an arm takes it
REST_M = 0.15  # height of the bar's middle on its two stands
BAR = {"name": "bar", "grip_m": GRIP_M}
ACROSS = (0.0, sqrt(0.5), sqrt(0.5), 0.0)  # the tool looks straight down, its fingers on either side of the bar, wxyz
X_M = 0.5  # of the bar, from the arms


def props(scene: mujoco.MjSpec, robots: int) -> None:
    """A steel tube on two stands, between the arms' places; friction of the pads decides over the grasp."""
    bar = scene.worldbody.add_body(name="bar", pos=[X_M, 0.0, REST_M])
    bar.add_freejoint()
    size = [WIDTH_M / 2, LENGTH_M / 2, HEIGHT_M / 2]
    bar.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=size, mass=MASS_KG, friction=[0.4, 0.005, 0.0001])
    half = (REST_M - HEIGHT_M / 2) / 2
    for side in (-1.0, 1.0):
        scene.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[X_M, side * 0.25, half],
            size=[0.06, 0.02, half],
            friction=[0.4, 0.005, 0.0001],
            rgba=[0.5, 0.45, 0.4, 1],
        )


def bases(robots: int) -> np.ndarray:
    """(N, 4): side by side, looking at the bar. ValueError for any other team than two."""
    if robots != 2:
        raise ValueError(f"bimanual-lift is for two arms, not {robots}")
    return np.array([[0.0, -SPACING_M / 2, 0.0, 0.0], [0.0, SPACING_M / 2, 0.0, 0.0]])


def starts(draw: Draw) -> dict[str, Start]:
    """Hands open above or around the bar, which lies a little askew; the operator asks for 5 to 25 cm."""
    k, uniform = draw.worlds, draw.uniform
    bank = panda.poses((X_M - 0.01, -0.03, REST_M), (X_M + 0.01, 0.03, REST_M + 0.12), ACROSS)
    joints = bank[torch.randint(0, len(bank), (k, draw.robots), generator=draw.generator)]
    place = torch.stack([X_M + uniform(-0.005, 0.005), uniform(-0.03, 0.03), torch.full((k,), REST_M)], dim=-1)
    quat = about_vertical(uniform(-0.01, 0.01))
    height = (REST_M + uniform(0.05, 0.25, 1, 1)).expand(-1, draw.robots, -1)
    return {ROBOT.name: Start(command={"height": height}, joint_pos=joints, objects={"bar": (place, quat)})}


DROP = {"name": "bar", "low_m": (X_M - 0.2, -0.3, REST_M - 0.05), "high_m": (X_M + 0.2, 0.3, 0.8)}

GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=2,
    commands={
        "height": CommandCfg(
            (REST_M + 0.05,), (REST_M + 0.25,), "m", "world", "height at which both ends of the bar shall be"
        )
    },
    observation=ObservationCfg(
        own={
            "grip_from_tool": Term(bars.grip_from_tool, {**TOOL, **BAR}),
            "ends_to_height": Term(bars.ends_to_height, BAR),
            "bar_vel": Term(objects.object_vel, {"name": "bar"}),
            "tool_pos": Term(arms.tool_pos, TOOL),
            "tool_turn": Term(arms.tool_turn, {**TOOL, "quat": ACROSS}),
            "joint_offset": Term(observations.joint_offset, TOOL),
            "joint_vel": Term(observations.joint_vel),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={"last_action": panda.LAST_ACTION},
    ),
    action=panda.move_tool((0.2, 0.2, 0.3), gripper_m=0.01, gripper_scale_m=0.035, quat=ACROSS),
    rewards={
        "at_grip": RewardTerm(bars.at_grip, {**BAR, "scale_m": 0.05}, weight=0.5),
        "gripped": RewardTerm(bars.gripped, {**BAR, "near_m": 0.02, "width_m": WIDTH_M}, weight=0.3),
        "own_end_raised": RewardTerm(bars.end_raised, {**BAR, "own": True, "rest_m": REST_M}, weight=3.0),
        "far_end_raised": RewardTerm(bars.end_raised, {**BAR, "own": False, "rest_m": REST_M}, weight=0.5),
        "own_end_there": RewardTerm(bars.end_near_height, {**BAR, "own": True, "scale_m": 0.03}, weight=1.0),
        "tilt": RewardTerm(bars.tilt, BAR, weight=-1.0),
        "action_change": RewardTerm(rewards.action_change, {"channels": (0, 1, 2)}, weight=-0.02),
        "near_joint_limit": RewardTerm(arms.near_joint_limit, {"margin_rad": 0.15}, weight=-0.5),
        "dropped": RewardTerm(objects.object_outside, DROP, weight=-20.0),
    },
    terminations={"dropped": Term(objects.object_outside, DROP)},
    success=Term(bars.level_at_height, {**BAR, "tolerance_m": 0.03}),
    noise=replace(panda.NOISE, angle_rad=0.003),
    randomisation={
        "object_mass": EventTerm(randomisation.object_mass, {"scale": (0.8, 1.1)}),
        "friction": EventTerm(randomisation.friction, {"scale": (0.7, 1.2)}),
        **panda.DRIVES,
    },
    baseline=Term(baselines.lift, {**TOOL, **BAR, "width_m": WIDTH_M, "quat": ACROSS, "elbow": ELBOW}),
    training={
        "collection": {"shield": True},  # lets fingers close more slowly: without it no grasp is learned that holds
        "ppo": {**panda.PPO, "hidden": 128},
    },
)

BIMANUAL_LIFT = TaskCfg(
    name="bimanual-lift",
    summary="two Pandas lift a bar that is too much for one, and hold it level",
    episode_s=5.0,
    success_hold_s=0.5,
    groups={ROBOT.name: GROUP},
    starts=starts,
    scene=SceneCfg(props=props, objects=("bar",), bases=bases),
    min_success=0.9,
    num_envs=256,
    train_steps=3_000_000,
)
