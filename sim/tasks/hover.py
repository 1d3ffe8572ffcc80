"""hover: one Crazyflie flies to a point, from wherever and however it starts, and stays there."""

from math import pi

import torch

from sim import randomisation
from sim.baselines import geometric
from sim.noise import Noise
from sim.task import Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts import crazyflie
from sim.tasks.parts.crazyflie import ROBOT, SPACE
from sim.terms import EventTerm, RewardTerm, Term, flight, observations, rewards, terminations


def starts(draw: Draw) -> dict[str, Start]:
    """Anywhere within 1.2 m of the goal, tilted by up to 25 degrees, moving at up to 0.5 m/s along each axis."""
    n, uniform = draw.robots, draw.uniform
    goal = torch.stack([uniform(-0.8, 0.8, n), uniform(-0.8, 0.8, n), uniform(0.8, 1.6, n)], dim=-1)
    offset = uniform(-0.7, 0.7, n, 3)
    yaw, tilt, towards = uniform(-pi, pi, n), uniform(0.0, 0.44, n), uniform(-pi, pi, n)
    half, flat = (tilt / 2).sin(), (tilt / 2).cos()
    # A turn by `tilt` about a level axis, then by `yaw` about the vertical one.
    quat = [
        flat * (yaw / 2).cos(),
        half * (towards + yaw / 2).cos(),
        half * (towards + yaw / 2).sin(),
        flat * (yaw / 2).sin(),
    ]
    return {
        ROBOT.name: Start(
            pos=(goal + offset).clamp(torch.tensor([-2.0, -2.0, 0.5]), torch.tensor([2.0, 2.0, 2.1])),
            quat=torch.stack(quat, dim=-1),
            lin_vel=uniform(-0.5, 0.5, n, 3),
            command={"goal_pos": goal},
        )
    }


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=1,
    commands={"goal_pos": crazyflie.GOAL_POS},
    observation=ObservationCfg(
        own={
            "goal_offset": Term(observations.goal_offset, {"limit_m": 1.0}),
            "base_lin_vel": Term(observations.base_lin_vel),
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "goal_offset_sum": Term(observations.remembered_vector, {"name": "goal_offset_sum"}),
            "frames": Term(observations.remembered, {"name": "frames"}),
        },
        memory={"frames": crazyflie.FRAMES, "goal_offset_sum": crazyflie.GOAL_OFFSET_SUM},
        privileged={"true_motion": Term(flight.true_motion)},
    ),
    action=crazyflie.ACTION,
    rewards={
        "near_goal": RewardTerm(rewards.near_goal, {"scale_m": 0.4}, weight=0.6),
        "at_goal": RewardTerm(rewards.at_goal, {"scale_m": 0.08}, weight=0.8),
        "goal_speed": RewardTerm(rewards.goal_speed, {"limit_m_s": 1.5, "slow_m": 0.5}, weight=0.4),
        "action_change": RewardTerm(rewards.action_change, weight=-0.1),
        "spin": RewardTerm(rewards.spin, weight=-0.005),
        "outside": RewardTerm(terminations.outside, SPACE, weight=-10.0),
    },
    terminations={"outside": Term(terminations.outside, SPACE)},
    success=Term(terminations.reached, {"distance_m": 0.1}),
    noise=crazyflie.NOISE,
    randomisation={
        "mass": EventTerm(randomisation.mass, {"scale": (0.95, 1.05)}),
        "centre_of_mass": EventTerm(randomisation.centre_of_mass, {"shift_m": (-0.002, 0.002)}),
        "thrust_curve": EventTerm(randomisation.thrust_curve, {"exponent": (0.95, 1.05)}),
        "wind": EventTerm(randomisation.wind, {"force_n": (0.0, 0.03)}, interval_range_s=(1.0, 3.0)),
        "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(pos_m=0.002, angle_rad=0.02)}),
        **crazyflie.FIRMWARE,
    },
    baseline=Term(geometric.fly_to_goal, {"robot": ROBOT.name, "sum_gain": 16.0}),
    training={"ppo": {"gamma": 0.98, "gae_lambda": 0.9, "minibatch": 2048, "init_std": 0.5}},
    shield=crazyflie.GEOFENCE,
    rate_loop=True,
)

HOVER = TaskCfg(
    name="hover",
    summary="a Crazyflie flies to a point and stays there, whatever its start",
    episode_s=5.0,
    success_hold_s=1.0,
    groups={ROBOT.name: GROUP},
    starts=starts,
    min_success=0.99,
    train_steps=3_000_000,
)
