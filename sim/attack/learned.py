"""An attacker that is learned: a task in which Crazyflies are rewarded for what their shields must prevent.

`phalanx attack crazyflie --train STEPS` trains it behind the shield. Noise, thrust and delays are at
the bounds that the shield states, as far as a task can set them.
"""

from math import pi

import torch

from deploy.shield import ShieldParams, make_shield_params
from deploy.shield.drone.guarantee import BOUNDS
from sim import randomisation
from sim.noise import Noise
from sim.task import Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts import crazyflie
from sim.tasks.parts.crazyflie import ROBOT
from sim.terms import EventTerm, RewardTerm, Term, observations, rewards
from sim.transition import Transition
from sim.vectors import about_vertical

Tensor = torch.Tensor
PARAMS = make_shield_params(ROBOT)
assert isinstance(PARAMS, ShieldParams)
ELLIPSOID = {"separation_m": PARAMS.separation_m, "downwash_ratio": PARAMS.downwash_ratio}  # what is guaranteed
APART_M = 0.9  # of two neighbours at the start, each somewhere within a third of it


def starts(draw: Draw) -> dict[str, Start]:
    """Robots at rest on a circle, outside each other's ellipsoids, at random headings."""
    robots, uniform = draw.robots, draw.uniform
    radius = 0.5 * APART_M / torch.sin(torch.tensor(pi / max(robots, 2)))
    angle = 2 * pi * torch.arange(robots) / robots + uniform(0.0, 2 * pi, 1)
    place = torch.stack([radius * angle.cos(), radius * angle.sin(), uniform(1.0, 1.8, robots)], dim=-1)
    pos = place + uniform(-APART_M / 6, APART_M / 6, robots, 3)
    return {ROBOT.name: Start(pos=pos, quat=about_vertical(uniform(-pi, pi, robots)), command={})}


def nearness(t: Transition, separation_m: float, downwash_ratio: float, scale: float) -> Tensor:
    """(W, N) 1 where the nearest robot is on the surface of the ellipsoid that is guaranteed, less farther away."""
    margin = rewards.ellipsoid_distance(t.offset, separation_m, downwash_ratio).amin(-1) - 1.0
    return torch.exp(-margin / scale)


def broken(t: Transition, separation_m: float, downwash_ratio: float) -> Tensor:
    """(W, N) bool, whether a robot is inside another one's ellipsoid."""
    return rewards.ellipsoid_distance(t.offset, separation_m, downwash_ratio).amin(-1) < 1.0


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=4,
    commands={},
    observation=ObservationCfg(
        own={
            "base_height": Term(observations.base_height),
            "base_lin_vel": Term(observations.base_lin_vel),
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        peer=crazyflie.PEER,
        memory={"last_action": crazyflie.LAST_ACTION},
        peer_range_m=6.0,
        max_peers=8,
    ),
    action=crazyflie.ACTION,
    rewards={
        "nearness": RewardTerm(nearness, {**ELLIPSOID, "scale": 0.5}, weight=1.0),
        "broken": RewardTerm(broken, ELLIPSOID, weight=20.0),
    },
    terminations={"broken": Term(broken, ELLIPSOID)},
    success=Term(broken, ELLIPSOID),
    noise=Noise(pos_m=BOUNDS.pos_m, angle_rad=BOUNDS.tilt_rad, lin_vel_m_s=BOUNDS.vel, ang_vel_rad_s=BOUNDS.rate),
    randomisation={
        "thrust": EventTerm(randomisation.thrust, {"scale": (1.0 - BOUNDS.thrust, 1.0 + BOUNDS.thrust)}),
        "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.016, BOUNDS.delay_s)}),
        "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.012, 0.02)}),
        "network_delay": EventTerm(randomisation.network_delay, {"range_s": (0.0, 0.008)}),
    },
    training={"ppo": {"gamma": 0.98, "gae_lambda": 0.9}},
)
BREAK = TaskCfg(
    name="sim.attack.learned:BREAK",
    summary="Crazyflies fly into each other, if their shields let them",
    episode_s=6.0,
    success_hold_s=0.02,
    groups={ROBOT.name: GROUP},
    starts=starts,
)
