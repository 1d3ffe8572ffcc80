"""swarm-track: Crazyflies follow goals that move among pillars, and keep clear of pillars and team mates."""

from collections.abc import Mapping
from dataclasses import replace
from math import pi

import mujoco
import torch

from sim.baselines import geometric
from sim.task import Curriculum, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.tasks.parts import crazyflie
from sim.tasks.parts.crazyflie import COLLISION_M, ELLIPSOID, ROBOT, SPACE
from sim.terms import MeanTerm, RewardTerm, Term, flight, observations, rewards, terminations
from sim.vectors import about_vertical

Tensor = torch.Tensor
PILLARS = ("pillar0", "pillar1", "pillar2", "pillar3")
PILLAR_M = 0.10  # radius
PILLAR_HEIGHT_M = 2.5  # as high as the space: there is no way over it
TOUCH_M = PILLAR_M + ROBOT.radius_m  # from a pillar's axis to a robot's centre
CLEAR_M = 0.45  # from a pillar's axis to where robots start and where goals come to rest
FOLLOW_S = 7.0  # goals move for so long
GAP_M = 0.8  # between the axes of two pillars: robots pass one at a time
LARGEST_TEAM = 12
CANDIDATES = 24


def add_pillars(scene: mujoco.MjSpec, robots: int) -> None:
    """Pillars that stand where each world puts them: free bodies that neither fall nor give way, solid to robots."""
    for index, name in enumerate(PILLARS):
        pillar = scene.worldbody.add_body(name=name, pos=[index, 4.0, PILLAR_HEIGHT_M / 2], gravcomp=1.0)
        pillar.add_freejoint()
        size = [PILLAR_M, PILLAR_HEIGHT_M / 2, 0.0]
        pillar.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=size, mass=500.0, contype=0, rgba=[0.5, 0.52, 0.56, 1]
        )
        scene.add_exclude(name=f"{name}_floor", bodyname1="world", bodyname2=name)


def starts(draw: Draw) -> dict[str, Start]:
    """A ring of robots somewhere in the room, of any heading; their goals, a ring too, turn as they cross the room.

    Each robot's goal is the one at its own bearing, so that following is possible; pillars stand anywhere that leaves
    `CLEAR_M` around starts and last goals. ValueError for a team that the room cannot hold.
    """
    n, uniform = draw.robots, draw.uniform
    if n > LARGEST_TEAM:
        raise ValueError(f"swarm-track has room for {LARGEST_TEAM} robots, not {n}")
    radius = uniform(0.0, 0.25, 1) + max(0.35, 0.30 / torch.sin(torch.tensor(pi / max(n, 2))).item())
    free = 2.1 - radius
    jitter = 0.25 * pi / max(n, 3)
    bearing = 2 * pi * torch.arange(n) / n + uniform(0.0, 2 * pi, 1)
    away, aside = uniform(-pi, pi), uniform(-0.8, 0.8) + pi
    middle = [
        uniform(0.6, 1.0, 1) * free * torch.stack([away.cos(), away.sin()], dim=-1),
        uniform(-0.6, 0.6, 2) * free,
        uniform(0.6, 1.0, 1) * free * torch.stack([(away + aside).cos(), (away + aside).sin()], dim=-1),
    ]
    height = [uniform(0.8, 1.6, 1).expand(-1, n) + uniform(-0.1, 0.1, n) for _ in range(3)]
    turn = uniform(-pi / 2, pi / 2, 1)
    points = [
        _ring(middle[i], radius, bearing + turn * i / 2, height[i]) for i in range(3)
    ]  # goals set off at the first, bend towards the second and rest at the third
    pos = _ring(middle[0], radius, bearing + uniform(-jitter, jitter, n), height[0])
    pos = pos + torch.cat([torch.zeros(draw.worlds, n, 2), uniform(-0.2, 0.2, n, 1)], dim=-1)
    yaw = uniform(-pi, pi, n)
    plan = dict(zip(("from", "via", "to"), points, strict=True))
    pillars = _pillars(draw, plan, torch.cat([pos[..., :2], points[2][..., :2]], dim=1))
    level = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(draw.worlds, -1)
    return {
        ROBOT.name: Start(
            pos=pos,
            quat=about_vertical(yaw),
            lin_vel=uniform(-0.2, 0.2, n, 3),
            command={"goal_pos": points[0].clone()},
            objects={name: (place, level) for name, place in zip(PILLARS, pillars.unbind(1), strict=True)},
            plan=plan,
        )
    }


def update_commands(plan: Mapping[str, Tensor], time_s: Tensor) -> dict[str, Tensor]:
    """Goals on their way, then at rest."""
    return {"goal_pos": flight.along_curve(plan, time_s, FOLLOW_S)}


def _ring(middle: Tensor, radius: Tensor, bearing: Tensor, height: Tensor) -> Tensor:
    """Points (K, N, 3) m at `bearing` (K, N) rad and `height` (K, N) m on circles about `middle` (K, 2) m."""
    x, y = middle[:, :1] + radius * bearing.cos(), middle[:, 1:] + radius * bearing.sin()
    return torch.stack([x, y, height], dim=-1)


def _pillars(draw: Draw, plan: Mapping[str, Tensor], taken: Tensor) -> Tensor:
    """Places (K, pillars, 3) m, half of them in the way of some goal, the others anywhere.

    Each is the first of a few draws that is clear of `taken` (K, M, 2) m and of the pillars before it. A pillar that
    finds none stays outside the walls, and so do the more of them the easier the world is to be.
    """
    places: list[Tensor] = []
    every = torch.arange(draw.worlds)
    for index in range(len(PILLARS)):
        tried = draw.uniform(-2.2, 2.2, CANDIDATES, 2)
        if index < len(PILLARS) // 2:
            when = draw.uniform(0.25, 0.75, CANDIDATES, 1) * FOLLOW_S
            goal = (draw.uniform(0.0, 1.0, CANDIDATES) * draw.robots).long().clamp(max=draw.robots - 1)
            picked = {k: v.gather(1, goal.unsqueeze(-1).expand(-1, -1, 3)) for k, v in plan.items()}
            tried = flight.along_curve(picked, when, FOLLOW_S)[..., :2] + draw.uniform(-0.4, 0.4, CANDIDATES, 2)
        room = torch.cdist(tried, taken).amin(-1)
        if places:
            room = torch.minimum(room, torch.cdist(tried, torch.stack(places, dim=1)).amin(-1) - GAP_M + CLEAR_M)
        best = room.clamp(max=CLEAR_M).argmax(-1)
        place, clear = tried[every, best], room[every, best] >= CLEAR_M
        clear &= draw.uniform(0.0, 1.0) < draw.difficulty
        places.append(torch.where(clear.unsqueeze(-1), place, torch.tensor([float(index), 4.0])))
    flat = torch.stack(places, dim=1)
    return torch.cat([flat, torch.full_like(flat[..., :1], PILLAR_HEIGHT_M / 2)], dim=-1)


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=4,
    commands={"goal_pos": replace(crazyflie.GOAL_POS, meaning="point to follow")},
    observation=ObservationCfg(
        own={
            "goal_offset": Term(observations.goal_offset, {"limit_m": 1.0}),
            "pillars": Term(flight.pillar_nearness, {"names": PILLARS, "limit_m": 1.0, "nearest": 2}),
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
        "near_goal": RewardTerm(rewards.near_goal, {"scale_m": 0.6}, weight=0.6),
        "at_goal": RewardTerm(rewards.at_goal, {"scale_m": 0.15}, weight=0.3),
        "goal_speed": RewardTerm(rewards.goal_speed, {"limit_m_s": 1.5, "slow_m": 0.5}, weight=0.4),
        "crowding": RewardTerm(rewards.crowding, ELLIPSOID, weight=-2.0),
        "closing_in": RewardTerm(rewards.closing_in, {**ELLIPSOID, "brake_m_s2": 2.0}, weight=-0.3),
        "near_pillar": RewardTerm(flight.near_pillar, {"names": PILLARS, "clear_m": 0.45}, weight=-8.0),
        "closing_on_pillar": RewardTerm(
            flight.closing_on_pillar, {"names": PILLARS, "clear_m": 0.25, "brake_m_s2": 1.5}, weight=-1.0
        ),
        "near_wall": RewardTerm(rewards.near_wall, {"margin_m": 0.3, **SPACE}, weight=-1.0),
        "speeding": RewardTerm(rewards.speeding, {"limit_m_s": 1.8}, weight=-0.5),
        "action_change": RewardTerm(rewards.action_change, weight=-0.05),
        "spin": RewardTerm(rewards.spin, weight=-0.005),
        "failed": RewardTerm(rewards.failed, {"separation_m": COLLISION_M, **SPACE}, weight=-30.0),
        "pillar": RewardTerm(flight.hit_pillar, {"names": PILLARS, "distance_m": TOUCH_M}, weight=-30.0),
    },
    terminations={
        "collision": Term(terminations.collided, {"distance_m": COLLISION_M}),
        "pillar": Term(flight.hit_pillar, {"names": PILLARS, "distance_m": TOUCH_M}),
        "outside": Term(terminations.outside, SPACE),
    },
    success=Term(flight.followed, {"distance_m": 0.2, "mean_m": 0.3}),
    means={"goal_gap": MeanTerm(flight.goal_gap, window_s=FOLLOW_S + 1.5)},  # most of the way and the rest after it
    noise=crazyflie.NOISE,
    randomisation=crazyflie.TEAM_VARIATION,
    training={
        "ppo": {"gamma": 0.98, "gae_lambda": 0.9, "init_std": 0.5, "schedule": "linear", "learning_rate": 2e-3}
        | {"min_std": 0.1, "hidden": 128}
    },
    update_commands=update_commands,
    baseline=Term(geometric.fly_to_goal, {"robot": ROBOT.name, "sum_gain": 16.0}),
    shield=crazyflie.GEOFENCE,
)

SWARM_TRACK = TaskCfg(
    name="swarm-track",
    summary="Crazyflies follow goals that move among pillars, and touch neither pillars nor one another",
    episode_s=10.0,
    success_hold_s=1.0,
    groups={ROBOT.name: GROUP},
    starts=starts,
    curriculum=Curriculum(initial=0.5, up=0.1, down=0.05),
    num_envs=256,
    train_steps=4_000_000,
    scene=SceneCfg(props=add_pillars, objects=PILLARS),
    verify_teams=(2, 4, 8),
)
