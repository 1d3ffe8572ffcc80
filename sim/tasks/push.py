"""push: a Panda with its gripper closed pushes a puck over the table to a point."""

import mujoco
import torch

from sim import randomisation
from sim.baselines import arms as baselines
from sim.task import CommandCfg, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.tasks.parts import panda
from sim.tasks.parts.panda import DOWN, ELBOW, ROBOT, TOOL
from sim.terms import EventTerm, RewardTerm, Term, arms, objects, observations, rewards

PUCK = {"name": "puck"}
RADIUS_M, HALF_HEIGHT_M, MASS_KG = 0.05, 0.025, 0.4
WORK_M = 0.03  # height of the tool at work, where its pads meet the puck's side
ABOVE_M = 0.075  # lowest start of the tool, clear of the puck
TIP_M = 0.012  # from the middle of the closed finger tips to their corners
PUSHED = {**PUCK, "behind_m": RADIUS_M + TIP_M, "height_m": WORK_M}
TABLE = ((0.38, -0.25), (0.62, 0.25))  # m, where puck, goal and tool start: x, y
REACH = {"low_m": (0.25, -0.45, -0.02), "high_m": (0.8, 0.45, 0.08)}
DRAWS = 16


def props(scene: mujoco.MjSpec, robots: int) -> None:
    """The puck, of wood or plastic: 0.35 on the table, where a condim of 3 does for something that slides."""
    puck = scene.worldbody.add_body(name="puck", pos=[0.5, 0.0, HALF_HEIGHT_M])
    puck.add_freejoint()
    size = [RADIUS_M, HALF_HEIGHT_M, 0.0]
    puck.add_geom(type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=size, mass=MASS_KG, friction=[0.35, 0.005, 0.0001])
    scene.geom("floor").friction = [0.35, 0.005, 0.0001]  # of a pair the larger one counts
    scene.geom("floor").rgba = [0.78, 0.7, 0.6, 1]


def starts(draw: Draw) -> dict[str, Start]:
    """Puck and goal anywhere on the table, 8 to 25 cm apart; the tool anywhere above."""
    n, (low, high) = draw.robots, (torch.tensor(corner) for corner in TABLE)
    size = high - low
    puck = low + size * draw.uniform(0.0, 1.0, 2)
    goals = low + size * draw.uniform(0.0, 1.0, DRAWS, 2)
    way = torch.linalg.vector_norm(goals - puck.unsqueeze(1), dim=-1)
    goal = _first(goals, (way > 0.08) & (way < 0.25))
    bank = panda.poses((*TABLE[0], ABOVE_M), (*TABLE[1], ABOVE_M + 0.04), DOWN, finger_m=0.0, count=1024)
    joints = bank[torch.randint(0, len(bank), (draw.worlds, n), generator=draw.generator)]
    level = torch.full((draw.worlds, 1), HALF_HEIGHT_M)
    upright = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(draw.worlds, 4)
    return {
        ROBOT.name: Start(
            command={"goal_pos": torch.cat([goal, level], dim=-1).unsqueeze(1).expand(-1, n, -1)},
            joint_pos=joints,
            objects={"puck": (torch.cat([puck, level], dim=-1), upright)},
        )
    }


def _first(drawn: torch.Tensor, fits: torch.Tensor) -> torch.Tensor:
    """Of drawn (K, DRAWS, n) the first that `fits` (K, DRAWS), else the first."""
    return drawn[torch.arange(len(drawn)), fits.int().argmax(-1)]


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=1,
    commands={
        "goal_pos": CommandCfg(
            (*TABLE[0], HALF_HEIGHT_M - 0.005),
            (*TABLE[1], HALF_HEIGHT_M + 0.005),
            "m",
            "world",
            "where the middle of the puck shall be",
        )
    },
    observation=ObservationCfg(
        own={
            "push_point_from_tool": Term(objects.push_point_from_tool, {**TOOL, **PUSHED}),
            "puck_from_tool": Term(objects.object_from_tool, {**TOOL, **PUCK}),
            "puck_to_goal": Term(objects.object_to_goal, {**PUCK, "limit_m": 0.2}),
            "puck_vel": Term(objects.object_vel, PUCK),
            "tool_pos": Term(arms.tool_pos, TOOL),
            "tool_turn": Term(arms.tool_turn, {**TOOL, "quat": DOWN}),
            "joint_offset": Term(observations.joint_offset, TOOL),
            "joint_vel": Term(observations.joint_vel),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={"last_action": panda.LAST_ACTION},
    ),
    action=panda.move_tool((0.4, 0.4, 0.25), gripper_m=0.0, gripper_scale_m=0.0, quat=DOWN),  # gripper closed
    rewards={
        "near": RewardTerm(objects.object_near, {**PUCK, "scale_m": 0.1}, weight=0.5),
        "close": RewardTerm(objects.object_near, {**PUCK, "scale_m": 0.02}, weight=1.0),
        "towards": RewardTerm(objects.object_speed_to_goal, {**PUCK, "limit_m_s": 0.2}, weight=0.5),
        "at_push_point": RewardTerm(objects.at_push_point, {**PUSHED, "scale_m": 0.05, "there_m": 0.02}, weight=0.5),
        "action_change": RewardTerm(rewards.action_change, {"channels": (0, 1, 2)}, weight=-0.02),
        "near_joint_limit": RewardTerm(arms.near_joint_limit, {"margin_rad": 0.15}, weight=-0.5),
        "correction": RewardTerm(rewards.correction, {"scale": 0.05}, weight=-0.5),  # behind the shield only
        "outside": RewardTerm(objects.object_outside, {**PUCK, **REACH}, weight=-20.0),
    },
    terminations={"outside": Term(objects.object_outside, {**PUCK, **REACH})},
    success=Term(objects.object_there, {**PUCK, "distance_m": 0.03}),
    noise=panda.NOISE,
    randomisation={
        "object_mass": EventTerm(randomisation.object_mass, {"scale": (0.7, 1.3)}),
        "friction": EventTerm(randomisation.friction, {"scale": (0.7, 1.3)}),
        **panda.DRIVES,
        "gains": EventTerm(randomisation.gains, {"stiffness": (0.9, 1.1), "damping": (0.9, 1.1)}),
    },
    baseline=Term(baselines.push, {**TOOL, **PUSHED, "quat": DOWN, "elbow": ELBOW}),
    training={"ppo": panda.PPO},
)

PUSH = TaskCfg(
    name="push",
    summary="a Panda pushes a puck over the table to a point",
    episode_s=5.0,
    success_hold_s=0.5,
    groups={ROBOT.name: GROUP},
    starts=starts,
    scene=SceneCfg(props=props, objects=("puck",)),
    min_success=0.9,
    train_steps=1_200_000,
)
