"""payload-lift: Crazyflies lift a load on cables and carry it along a path; one may die on the way.

No robot observes another and all fly the same policy. Each sees itself, the load and where the load is to be; its place
around the load is the bearing at which it began. After "Decentralized Aerial Manipulation of a Cable-Suspended Load
using Multi-Agent Reinforcement Learning", arXiv 2508.01522.
"""

from collections.abc import Mapping
from math import pi

import mujoco
import torch

from sim import randomisation
from sim.baselines import geometric
from sim.scenes.scene import robot_prefix
from sim.task import ActionCfg, CommandCfg, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.tasks.parts import crazyflie
from sim.tasks.parts.crazyflie import COLLISION_M, HOVER_N, ROBOT
from sim.tasks.parts.links import in_time
from sim.tasks.parts.multirotor import FRAMES, firmware
from sim.terms import EventTerm, MeanTerm, MemoryTerm, RewardTerm, Term, flight, observations, rewards
from sim.vectors import about_vertical

Tensor = torch.Tensor
SPACE = {"low_m": (-2.5, -2.5, 0.0), "high_m": (2.5, 2.5, 2.5)}
CABLE_M = 0.8
LOAD_KG = 0.010  # three carry 3 g each; two that also hold the third, 43 g, fly at 85 % of their thrust
LOAD_RADIUS_M = 0.03
REACH_M = 0.50  # level distance of a robot to the load: of three, when one falls, the jerk does not throw two together
PLACE = {"reach_m": REACH_M, "cable_m": CABLE_M}
HEIGHT_M = (0.7, 1.0)  # of the load's goal
CABLE_S = 0.06  # time constant of a cable's stretch: a cord that gives a little
CARRY_S = 6.0  # the goal of the load moves for so long
TIMES = {"dt_s": 1.0 / ROBOT.control_hz, "limit_m": 0.2, "decay_s": 2.0}


def add_load(scene: mujoco.MjSpec, robots: int) -> None:
    """A ball, and a cable to its middle from that of each robot: slack when short, never longer than `CABLE_M`."""
    load = scene.worldbody.add_body(name=flight.LOAD, pos=[0.0, 0.0, 0.5])  # away from the robots: cables have a length
    load.add_freejoint()
    load.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[LOAD_RADIUS_M, 0, 0], mass=LOAD_KG, rgba=[0.9, 0.6, 0.1, 1])
    load.add_site(name="load_hook")
    for index in range(robots):
        cable = scene.add_tendon(name=f"cable{index}", limited=True, range=[0.0, CABLE_M], width=0.002)
        cable.solref_limit = [CABLE_S, 1.0]
        cable.wrap_site(robot_prefix(index) + "imu")
        cable.wrap_site("load_hook")


def starts(draw: Draw) -> dict[str, Start]:
    """Robots around and above the load, cables almost tight; the load on the floor in half of the worlds.

    They need not be spread evenly. The load's goal rises from near its start and moves along a curve to another place.
    """
    n, uniform = draw.robots, draw.uniform
    first = torch.stack([uniform(-1.0, 1.0), uniform(-1.0, 1.0), uniform(*HEIGHT_M)], dim=-1)
    via = torch.stack([uniform(-1.0, 1.0), uniform(-1.0, 1.0), uniform(*HEIGHT_M)], dim=-1)
    last = torch.stack([uniform(-1.0, 1.0), uniform(-1.0, 1.0), uniform(*HEIGHT_M)], dim=-1)
    load = first + uniform(-0.15, 0.15, 3)
    load[:, 2] = torch.where(uniform(0.0, 1.0) < 0.5, LOAD_RADIUS_M, load[:, 2])
    jitter = 0.3 * pi / max(n, 2)
    bearing = 2 * pi * torch.arange(n) / n + uniform(0.0, 2 * pi, 1) + uniform(-jitter, jitter, n)
    reach, length = uniform(REACH_M - 0.04, REACH_M + 0.06, n), uniform(0.85, 0.99, n) * CABLE_M
    yaw = uniform(-pi, pi, n)
    above = torch.sqrt(length**2 - reach**2)
    place = torch.stack([reach * bearing.cos(), reach * bearing.sin(), above], dim=-1)
    level = torch.tensor([1.0, 0.0, 0.0, 0.0])
    plan = {name: point.unsqueeze(1).expand(-1, n, -1) for name, point in (("from", first), ("via", via), ("to", last))}
    return {
        ROBOT.name: Start(
            pos=load.unsqueeze(1) + place,
            quat=about_vertical(yaw),
            lin_vel=uniform(-0.1, 0.1, n, 3),
            command={flight.LOAD_GOAL: plan["from"].clone()},
            objects={flight.LOAD: (load, level.expand(draw.worlds, -1))},
            plan=plan,
        )
    }


def update_commands(plan: Mapping[str, Tensor], time_s: Tensor) -> dict[str, Tensor]:
    """The load's goal: for a second where it is lifted to, then on its way, then at rest."""
    return {flight.LOAD_GOAL: flight.along_curve(plan, time_s - 1.0, CARRY_S)}


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=3,
    commands={
        flight.LOAD_GOAL: CommandCfg((-2.0, -2.0, 0.4), (2.0, 2.0, 1.8), "m", "world", "where to carry the load")
    },
    observation=ObservationCfg(
        own={
            "load_offset": Term(flight.load_offset),
            "load_velocity": Term(flight.load_velocity),
            "load_goal_offset": Term(flight.load_goal_offset, {"limit_m": 0.6}),
            "base_lin_vel": Term(observations.base_lin_vel),
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "bearing": Term(observations.remembered_vector, {"name": "bearing"}),
            "load_goal_sum": Term(observations.remembered_vector, {"name": "load_goal_sum"}),
            "frames": Term(observations.remembered, {"name": "frames"}),
        },
        privileged={"team_flying": Term(flight.team_flying)},
        memory={
            "frames": FRAMES,
            "bearing": MemoryTerm(flight.first_bearing, initial=(0.0, 0.0, 0.0)),
            "load_goal_sum": MemoryTerm(flight.load_goal_sum, TIMES, initial=(0.0, 0.0, 0.0)),
        },
    ),
    action=ActionCfg(centre=(1.1 * HOVER_N, 0.0, 0.0, 0.0), scale=(0.75 * HOVER_N, 4.0, 4.0, 2.0)),
    rewards={
        "load_near_goal": RewardTerm(flight.load_near_goal, {"scale_m": 0.4}, weight=0.4),
        "load_at_goal": RewardTerm(flight.load_at_goal, {"scale_m": 0.12}, weight=0.8),
        "load_speed": RewardTerm(flight.load_speed, weight=-0.1),
        "near_place": RewardTerm(flight.near_place, {**PLACE, "scale_m": 0.4}, weight=0.6),
        "crowding": RewardTerm(flight.crowding_above, {"separation_m": 0.6, "downwash_ratio": 2.0}, weight=-1.0),
        "action_change": RewardTerm(rewards.action_change, weight=-0.1),
        "spin": RewardTerm(rewards.spin, weight=-0.01),
        "collision": RewardTerm(flight.collided_in_flight, {"distance_m": COLLISION_M}, weight=-10.0),
        "dropped": RewardTerm(flight.load_dropped, {"height_m": 0.1, "after_s": 2.5}, weight=-10.0),
        "outside": RewardTerm(flight.beyond_walls, SPACE, weight=-10.0),
    },
    terminations={
        "collision": Term(flight.collided_in_flight, {"distance_m": COLLISION_M}),
        "dropped": Term(flight.load_dropped, {"height_m": 0.1, "after_s": 2.5}),
        "outside": Term(flight.beyond_walls, SPACE),
    },
    success=Term(flight.load_carried, {"distance_m": 0.2, "mean_m": 0.3}),
    means={"load_gap": MeanTerm(flight.load_gap, window_s=CARRY_S + 3.5)},  # the way and the rest after it
    noise=crazyflie.NOISE,
    randomisation={
        "mass": EventTerm(randomisation.mass, {"scale": (0.97, 1.03)}),
        "load_mass": EventTerm(randomisation.object_mass, {"scale": (0.7, 1.3)}),
        **firmware(ROBOT),
        **in_time(ROBOT),
        "thrust": EventTerm(randomisation.thrust, {"scale": (0.95, 1.05)}),  # with less, two do not hold the third
        "motor_failure": EventTerm(randomisation.motor_failure, {"probability": 0.3}, interval_range_s=(6.0, 8.0)),
    },
    rate_loop=True,
    training={
        "ppo": {
            "gamma": 0.98,
            "gae_lambda": 0.9,
            "minibatch": 2048,
            "init_std": 0.5,
            "schedule": "linear",  # a team whose gains still change from update to update rocks its load
            "learning_rate": 2e-3,
        }
    },
    update_commands=update_commands,
    baseline=Term(geometric.carry_load, {"robot": ROBOT.name, **PLACE}),
    # Thrust that holds a load and a dead robot looks like a climb to a shield that knows only the robot's own weight.
    shield={"geofence_low": (-2.4, -2.4, 0.1), "geofence_high": (2.4, 2.4, 2.4), "max_climb_accel": 9.0},
)

PAYLOAD_LIFT = TaskCfg(
    name="payload-lift",
    summary="Crazyflies carry a load on cables along a path, without a word between them; one may die on the way",
    episode_s=12.0,
    success_hold_s=1.0,
    groups={ROBOT.name: GROUP},
    starts=starts,
    min_success=0.9,
    max_collisions=0.02,  # of a drone that dies and falls among the others
    num_envs=256,
    train_steps=5_000_000,
    scene=SceneCfg(props=add_load, objects=(flight.LOAD,)),
)
