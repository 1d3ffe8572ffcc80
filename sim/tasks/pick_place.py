"""pick-place: a Panda takes a cube from the table and holds it where it shall be."""

import mujoco
import torch

from sim import randomisation
from sim.baselines import arms as baselines
from sim.task import CommandCfg, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.tasks.parts import panda
from sim.tasks.parts.panda import DOWN, ELBOW, ROBOT, TOOL
from sim.terms import EventTerm, RewardTerm, Term, arms, objects, observations, rewards
from sim.vectors import about_vertical

CUBE = {"name": "cube"}
WIDTH_M, MASS_KG = 0.045, 0.15
REST_M = WIDTH_M / 2
TABLE = ((0.42, -0.15), (0.60, 0.15))  # m, x and y: where the cube lies and the tool starts
GOALS = ((0.40, -0.2, 0.1), (0.62, 0.2, 0.3))  # m
SPACE = {"low_m": (0.2, -0.5, -0.02), "high_m": (0.85, 0.5, 0.7)}


def props(scene: mujoco.MjSpec, robots: int) -> None:
    """The cube, of wood."""
    cube = scene.worldbody.add_body(name="cube", pos=[0.5, 0.0, REST_M])
    cube.add_freejoint()
    cube.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[WIDTH_M / 2] * 3, mass=MASS_KG, friction=[0.5, 0.005, 0.0001])
    scene.geom("floor").friction = [0.5, 0.005, 0.0001]
    scene.geom("floor").rgba = [0.78, 0.7, 0.6, 1]


def starts(draw: Draw) -> dict[str, Start]:
    """Cube and hand anywhere on and above the table, the cube turned by up to 0.2 rad; the goal in the air."""
    k, n = draw.worlds, draw.robots
    low, high = (torch.tensor(corner) for corner in TABLE)
    cube = low + (high - low) * draw.uniform(0.0, 1.0, 2)
    goal_low, goal_high = (torch.tensor(corner) for corner in GOALS)
    goal = goal_low + (goal_high - goal_low) * draw.uniform(0.0, 1.0, 1, 3)
    bank = panda.poses((*TABLE[0], 0.09), (*TABLE[1], 0.15), DOWN, count=1024)  # the hand is open
    joints = bank[torch.randint(0, len(bank), (k, n), generator=draw.generator)]
    quat = about_vertical(draw.uniform(-0.2, 0.2))
    return {
        ROBOT.name: Start(
            command={"goal_pos": goal.expand(-1, n, -1)},
            joint_pos=joints,
            objects={"cube": (torch.cat([cube, torch.full((k, 1), REST_M)], dim=-1), quat)},
        )
    }


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=1,
    commands={"goal_pos": CommandCfg(*GOALS, "m", "world", "where the cube shall be")},
    observation=ObservationCfg(
        own={
            "cube_from_tool": Term(objects.object_from_tool, {**TOOL, **CUBE}),
            "cube_to_goal": Term(objects.object_to_goal, {**CUBE, "limit_m": 0.3}),
            "cube_vel": Term(objects.object_vel, CUBE),
            "tool_pos": Term(arms.tool_pos, TOOL),
            "tool_turn": Term(arms.tool_turn, {**TOOL, "quat": DOWN}),
            "joint_offset": Term(observations.joint_offset, TOOL),
            "joint_vel": Term(observations.joint_vel),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={"last_action": panda.LAST_ACTION},
    ),
    action=panda.move_tool((0.3, 0.3, 0.3), gripper_m=0.02, gripper_scale_m=0.03, quat=DOWN),
    rewards={
        "at_cube": RewardTerm(objects.at_object, {**CUBE, "scale_m": 0.05}, weight=0.5),
        "grasped": RewardTerm(objects.grasped, {**CUBE, "near_m": 0.02, "width_m": WIDTH_M}, weight=0.3),
        "lifted": RewardTerm(objects.lifted, {**CUBE, "rest_m": REST_M, "full_m": 0.05}, weight=0.5),
        "near": RewardTerm(objects.object_near, {**CUBE, "scale_m": 0.15}, weight=0.5),
        "close": RewardTerm(objects.object_near, {**CUBE, "scale_m": 0.03}, weight=1.0),
        "action_change": RewardTerm(rewards.action_change, {"channels": (0, 1, 2)}, weight=-0.02),
        "near_joint_limit": RewardTerm(arms.near_joint_limit, {"margin_rad": 0.15}, weight=-0.5),
        "outside": RewardTerm(objects.object_outside, {**CUBE, **SPACE}, weight=-20.0),
    },
    terminations={"outside": Term(objects.object_outside, {**CUBE, **SPACE})},
    success=Term(objects.object_there, {**CUBE, "distance_m": 0.03}),
    noise=panda.NOISE,
    randomisation={
        "object_mass": EventTerm(randomisation.object_mass, {"scale": (0.5, 1.5)}),
        "friction": EventTerm(randomisation.friction, {"scale": (0.7, 1.2)}),
        **panda.DRIVES,
    },
    baseline=Term(baselines.pick, {**TOOL, **CUBE, "width_m": WIDTH_M, "quat": DOWN, "elbow": ELBOW}),
    training={
        "collection": {"shield": True},  # lets fingers close more slowly: without it no grasp is learned that holds
        "ppo": panda.PPO,
    },
)

PICK_PLACE = TaskCfg(
    name="pick-place",
    summary="a Panda takes a cube from the table and holds it where it shall be",
    episode_s=5.0,
    success_hold_s=0.5,
    groups={ROBOT.name: GROUP},
    starts=starts,
    scene=SceneCfg(props=props, objects=("cube",)),
    train_steps=3_000_000,
)
