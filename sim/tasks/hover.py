"""hover: one drone flies to a point, from wherever and however it starts, and stays there.

`hover_task` makes the task of any multirotor that flies by thrust and body rates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi
from typing import Any

import torch

from hardware.spec import RobotSpec
from sim import randomisation
from sim.baselines import geometric
from sim.noise import Noise
from sim.task import ActionCfg, CommandCfg, Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts import crazyflie
from sim.tasks.parts.multirotor import FRAMES, firmware, goal_offset_sum
from sim.terms import EventTerm, RewardTerm, Term, flight, observations, rewards, terminations

Corner = tuple[float, float, float]
# Slower than the Crazyflie of a team: of faster rates the shield corrects more, and slower ones are too slow for 10 cm.
ACTION = ActionCfg(centre=(crazyflie.HOVER_N, 0.0, 0.0, 0.0), scale=(0.6 * crazyflie.HOVER_N, 2.5, 2.5, 2.0))


@dataclass(frozen=True)
class Hover:
    """A multirotor and the room that it hovers in."""

    robot: RobotSpec
    goals: tuple[Corner, Corner]  # m, world: the corners of where goals are drawn
    starts: tuple[Corner, Corner]  # m, world: where it may start, at most `offset_m` from its goal along each axis
    offset_m: float
    space: Mapping[str, Corner]  # leaving it is a failure
    geofence: Mapping[str, Corner]
    goal_pos: CommandCfg
    action: ActionCfg
    noise: Noise
    centre_of_mass_m: float  # by which it may be off along each axis
    wind_n: float  # at most
    success_m: float  # from the goal
    success_m_s: float | None = None  # and no faster; None: at any speed
    sum_gain: float = 16.0  # of the scripted baseline, 1/s^3
    in_time: Mapping[str, EventTerm] = field(default_factory=dict)  # how links and sensors change in an episode

    def draw(self, draw: Draw) -> dict[str, Start]:
        """Anywhere near the goal, tilted by up to 25 degrees, moving at up to 0.5 m/s along each axis."""
        n, uniform = draw.robots, draw.uniform
        goal = torch.stack([uniform(low, high, n) for low, high in zip(*self.goals, strict=True)], dim=-1)
        offset = uniform(-self.offset_m, self.offset_m, n, 3)
        yaw, tilt, towards = uniform(-pi, pi, n), uniform(0.0, 0.44, n), uniform(-pi, pi, n)
        half, flat = (tilt / 2).sin(), (tilt / 2).cos()
        # A turn by `tilt` about a level axis, then by `yaw` about the vertical one.
        quat = [
            flat * (yaw / 2).cos(),
            half * (towards + yaw / 2).cos(),
            half * (towards + yaw / 2).sin(),
            flat * (yaw / 2).sin(),
        ]
        low, high = (torch.tensor(corner) for corner in self.starts)
        return {
            self.robot.name: Start(
                pos=(goal + offset).clamp(low, high),
                quat=torch.stack(quat, dim=-1),
                lin_vel=uniform(-0.5, 0.5, n, 3),
                command={"goal_pos": goal},
            )
        }


def hover_task(name: str, summary: str, hover: Hover, **changes: Any) -> TaskCfg:
    """A drone that flies to a point and stays there for a second; `changes` are fields of the task."""
    robot, space = hover.robot, dict(hover.space)
    success = Term(terminations.reached, {"distance_m": hover.success_m})
    if hover.success_m_s is not None:
        success = Term(terminations.settled, {"distance_m": hover.success_m, "speed_m_s": hover.success_m_s})
    group = GroupCfg(
        robot=robot.name,
        num_agents=1,
        commands={"goal_pos": hover.goal_pos},
        observation=ObservationCfg(
            own={
                "goal_offset": Term(observations.goal_offset, {"limit_m": 1.0}),
                "base_lin_vel": Term(observations.base_lin_vel),
                "projected_gravity": Term(observations.projected_gravity),
                "base_ang_vel": Term(observations.base_ang_vel),
                "goal_offset_sum": Term(observations.remembered_vector, {"name": "goal_offset_sum"}),
                "frames": Term(observations.remembered, {"name": "frames"}),
            },
            memory={"frames": FRAMES, "goal_offset_sum": goal_offset_sum(robot)},
            privileged={"true_motion": Term(flight.true_motion)},
        ),
        action=hover.action,
        rewards={
            "near_goal": RewardTerm(rewards.near_goal, {"scale_m": 0.4}, weight=0.6),
            "at_goal": RewardTerm(rewards.at_goal, {"scale_m": 0.08}, weight=0.8),
            "goal_speed": RewardTerm(rewards.goal_speed, {"limit_m_s": 1.5, "slow_m": 0.5}, weight=0.4),
            "action_change": RewardTerm(rewards.action_change, weight=-0.1),
            "spin": RewardTerm(rewards.spin, weight=-0.005),
            "correction": RewardTerm(rewards.correction, {"scale": 1.0}, weight=-2.0),  # behind the shield only
            "outside": RewardTerm(terminations.outside, space, weight=-10.0),
        },
        terminations={"outside": Term(terminations.outside, space)},
        success=success,
        noise=hover.noise,
        randomisation={
            "mass": EventTerm(randomisation.mass, {"scale": (0.95, 1.05)}),
            "centre_of_mass": EventTerm(
                randomisation.centre_of_mass, {"shift_m": (-hover.centre_of_mass_m, hover.centre_of_mass_m)}
            ),
            "thrust_curve": EventTerm(randomisation.thrust_curve, {"exponent": (0.95, 1.05)}),
            "wind": EventTerm(randomisation.wind, {"force_n": (0.0, hover.wind_n)}, interval_range_s=(1.0, 3.0)),
            "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(pos_m=0.002, angle_rad=0.02)}),
            **firmware(robot),
            **hover.in_time,
        },
        baseline=Term(geometric.fly_to_goal, {"robot": robot.name, "sum_gain": hover.sum_gain}),
        training={"ppo": {"gamma": 0.98, "gae_lambda": 0.9, "minibatch": 2048, "init_std": 0.5}},
        shield=dict(hover.geofence),
        rate_loop=True,
    )
    task = {"episode_s": 5.0, "success_hold_s": 1.0, "min_success": 0.99, "train_steps": 3_000_000}
    return TaskCfg(name=name, summary=summary, groups={robot.name: group}, starts=hover.draw, **(task | changes))


HOVER = hover_task(
    "hover",
    "a Crazyflie flies to a point and stays there, whatever its start",
    Hover(
        robot=crazyflie.ROBOT,
        goals=((-0.8, -0.8, 0.8), (0.8, 0.8, 1.6)),
        starts=((-2.0, -2.0, 0.5), (2.0, 2.0, 2.1)),
        offset_m=0.7,
        space=crazyflie.SPACE,
        geofence=crazyflie.GEOFENCE,
        goal_pos=crazyflie.GOAL_POS,
        action=ACTION,
        noise=crazyflie.NOISE,
        centre_of_mass_m=0.002,
        wind_n=0.03,
        success_m=0.1,
        # `in_time` is not learned yet: with it the policy that ships is shown 98.5 % of the 762 starts of `verify`, and
        # 99.2 % of 3048; 99 are asked.
    ),
)
