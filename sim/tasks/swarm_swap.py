"""swarm-swap: Crazyflies on a circle fly through one middle to the opposite point and hover there."""

from math import pi

import torch

from sim.baselines import geometric
from sim.task import Curriculum, Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts import crazyflie
from sim.tasks.parts.crazyflie import COLLISION_M, ELLIPSOID, ROBOT, SPACE
from sim.terms import RewardTerm, Term, observations, rewards, terminations
from sim.vectors import about_vertical

LARGEST_TEAM = 16  # on the widest circle, 2.2 m, that leaves 0.3 m to the walls


def starts(draw: Draw) -> dict[str, Start]:
    """Robots spread over a circle of random radius and phase, at random heights and headings; goals opposite.

    While they learn, robots of some worlds begin on the circle nearer their goals, all of a world by the same angle:
    what a goal is worth is known from the first step on, and the way around the circle becomes that through its middle.

    The circle widens with the team, so that neighbours start at least 0.44 m apart. ValueError for a team that it would
    take out of the space.
    """
    robots, uniform = draw.robots, draw.uniform
    if robots > LARGEST_TEAM:
        raise ValueError(f"swarm-swap has room for {LARGEST_TEAM} robots, not {robots}")
    least = max(0.7, 0.32 / torch.sin(torch.tensor(pi / max(robots, 2))).item())
    radius = uniform(least, least + 0.5, 1)
    jitter = 0.3 * pi / max(robots, 3)
    angle = 2 * pi * torch.arange(robots) / robots + uniform(0.0, 2 * pi, 1) + uniform(-jitter, jitter, robots)
    height, goal_height = uniform(0.9, 1.5, robots), uniform(0.9, 1.5, robots)
    x, y = radius * angle.cos(), radius * angle.sin()
    nearer = angle + pi * (1.0 - draw.difficulty[:, None]) * uniform(0.0, 1.0, 1)
    yaw = uniform(-pi, pi, robots)
    return {
        ROBOT.name: Start(
            pos=torch.stack([radius * nearer.cos(), radius * nearer.sin(), height], dim=-1),
            quat=about_vertical(yaw),
            lin_vel=uniform(-0.2, 0.2, robots, 3),
            command={"goal_pos": torch.stack([-x, -y, goal_height], dim=-1)},
        )
    }


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=4,
    commands={"goal_pos": crazyflie.GOAL_POS},
    observation=ObservationCfg(
        own={
            "goal_offset": Term(observations.goal_offset, {"limit_m": 1.0}),
            "base_height": Term(observations.base_height),
            "base_lin_vel": Term(observations.base_lin_vel),
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "goal_offset_sum": Term(observations.remembered_vector, {"name": "goal_offset_sum"}),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        peer=crazyflie.PEER,
        memory={"last_action": crazyflie.LAST_ACTION, "goal_offset_sum": crazyflie.GOAL_OFFSET_SUM},
        peer_range_m=2.5,
        max_peers=8,
    ),
    action=crazyflie.ACTION,
    rewards={
        "near_goal": RewardTerm(rewards.near_goal, {"scale_m": 1.0}, weight=0.4),
        "at_goal": RewardTerm(rewards.at_goal, {"scale_m": 0.15}, weight=1.2),
        "goal_speed": RewardTerm(rewards.goal_speed, {"limit_m_s": 1.5, "slow_m": 0.5}, weight=0.4),
        "crowding": RewardTerm(rewards.crowding, ELLIPSOID, weight=-2.0),
        "closing_in": RewardTerm(rewards.closing_in, {**ELLIPSOID, "brake_m_s2": 2.0}, weight=-0.3),
        "near_wall": RewardTerm(rewards.near_wall, {"margin_m": 0.4, **SPACE}, weight=-1.0),
        "speeding": RewardTerm(rewards.speeding, {"limit_m_s": 1.8}, weight=-0.5),
        "action_change": RewardTerm(rewards.action_change, weight=-0.05),
        "spin": RewardTerm(rewards.spin, weight=-0.005),
        "correction": RewardTerm(rewards.correction, {"scale": 1.0}, weight=-2.0),
        "failed": RewardTerm(rewards.failed, {"separation_m": COLLISION_M, **SPACE}, weight=-10.0),
    },
    terminations={
        "collision": Term(terminations.collided, {"distance_m": COLLISION_M}),
        "outside": Term(terminations.outside, SPACE),
    },
    success=Term(terminations.reached, {"distance_m": 0.2}),
    noise=crazyflie.NOISE,
    randomisation=crazyflie.TEAM_VARIATION,
    training={
        "collection": {"shield": True},  # what costs a correction is not done without a shield either
        # A second ahead is what a crossing needs; an update old, a rollout is learned from while the next one is flown
        "ppo": {"gamma": 0.98, "lag": 1},
    },
    baseline=Term(geometric.fly_to_goal, {"robot": ROBOT.name}),
    shield=crazyflie.GEOFENCE,
)

SWARM_SWAP = TaskCfg(
    name="swarm-swap",
    summary="Crazyflies on a circle fly through the same middle to the opposite point and hover there",
    episode_s=8.0,
    episode_robots=8,  # more have a longer way, and queue before the middle
    success_hold_s=1.0,
    curriculum=Curriculum(up=0.34, down=0.1),
    groups={ROBOT.name: GROUP},
    starts=starts,
    num_envs=384,  # of 512 some seeds learn too late, of 256 all need their shields more
    train_steps=2_600_000,
    verify_teams=(2, 4, 8),
)
