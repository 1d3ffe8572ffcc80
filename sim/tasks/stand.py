"""stand: a Unitree G1 stays on its feet although it is pushed, and comes to rest about where it was.

`stand_task` makes the task of any humanoid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi

import torch

from hardware import load_robot
from hardware.spec import RobotSpec
from sim import randomisation
from sim.task import ActionCfg, Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts import humanoid
from sim.terms import EventTerm, RewardTerm, Term, humanoids, observations, rewards
from sim.vectors import about_vertical

PUSH_EVERY_S = (2.0, 3.0)
HARDWARE: Mapping[str, EventTerm] = {  # as far as drives, computers and links differ; an H1 falls by itself there
    "gains": EventTerm(randomisation.gains, {"stiffness": (0.6, 1.5), "damping": (0.6, 1.5)}),
    "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.02)}),
    "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.015)}),
}


@dataclass(frozen=True)
class Stand:
    """A humanoid and how it stands."""

    robot: RobotSpec
    reach: Mapping[str, float]  # rad, of the action about home; joints of no part here keep their pose: fewer to learn
    fallen_m: float  # the base lower than this ends the episode
    standing_m: float  # the base at least this high is success
    feet_apart_m: float  # sideways, at least
    push_m_s: tuple[float, float]  # added to the velocity of the whole robot at once, in any horizontal direction
    variation: Mapping[str, EventTerm] = field(default_factory=dict)  # in place of these of `humanoid.VARIATION`

    @property
    def scale(self) -> tuple[float, ...]:
        """(J,) rad, reach of the action of each joint."""
        return humanoid.of_joints(self.robot, self.reach)

    @property
    def driven(self) -> tuple[int, ...]:
        """Places of the joints that the action moves, in the robot's order."""
        return tuple(index for index, scale in enumerate(self.scale) if scale)

    def starts(self, draw: Draw) -> dict[str, Start]:
        """At home within 5 cm of the origin, facing anywhere, moving at up to 0.2 m/s along each horizontal axis."""
        if draw.robots > 1:
            raise ValueError(f"stand is for one robot at the origin, not for {draw.robots}")
        n, uniform = draw.robots, draw.uniform
        yaw = uniform(-pi, pi, n)
        none = torch.zeros_like(yaw)
        height = torch.full_like(yaw, self.robot.home_height_m)
        joint_pos = humanoid.near_pose(draw, self.robot.home, self.driven)
        return {
            self.robot.name: Start(
                pos=torch.stack([uniform(-0.05, 0.05, n), uniform(-0.05, 0.05, n), height], dim=-1),
                quat=about_vertical(yaw),
                lin_vel=torch.cat([uniform(-0.2, 0.2, n, 2), none.unsqueeze(-1)], dim=-1),
                joint_pos=joint_pos,
                command={},
            )
        }


def _group(stand: Stand) -> GroupCfg:
    robot, home, driven = stand.robot, stand.robot.home, stand.driven
    of_driven = {"joints": driven, "home": tuple(home[index] for index in driven)}
    fallen = {"height_m": stand.fallen_m, "tilt_rad": 0.9}
    return GroupCfg(
        robot=robot.name,
        num_agents=1,
        commands={},
        observation=ObservationCfg(
            own={
                "projected_gravity": Term(observations.projected_gravity),
                "base_ang_vel": Term(observations.base_ang_vel),
                "joint_offset": Term(observations.joint_offset, {"robot": robot.name, "joints": driven}),
                "joint_vel": Term(observations.joint_vel, {"joints": driven}),
                "last_action": Term(observations.remembered, {"name": "last_action"}),
            },
            memory={"last_action": humanoid.last_action(driven)},
            privileged={
                "base_motion": Term(humanoids.base_motion),
                "place": Term(humanoids.place),
                "feet": Term(humanoids.feet),
            },
        ),
        action=ActionCfg(centre=home, scale=stand.scale),
        rewards={
            "balance": RewardTerm(humanoids.balance, {"scale_m": 0.25}, weight=1.0),
            "pose": RewardTerm(humanoids.pose, {**of_driven, "scale_rad": 0.15}, weight=0.7),
            "stillness": RewardTerm(humanoids.stillness, {"scale_m_s": 0.2}, weight=0.5),
            "alive": RewardTerm(humanoids.alive, weight=0.3),
            "lean": RewardTerm(humanoids.lean, weight=-2.0),
            "rocking": RewardTerm(humanoids.rocking, weight=-0.03),
            "feet_apart": RewardTerm(humanoids.feet_apart, {"least_m": stand.feet_apart_m}, weight=-4.0),
            "action_change": RewardTerm(rewards.action_change, {"channels": driven}, weight=-0.02),
            "joint_speed": RewardTerm(rewards.joint_speed, weight=-0.0005),
            "fallen": RewardTerm(humanoids.fallen, fallen, weight=-20.0),
            "correction": RewardTerm(rewards.correction, {"scale": 0.05}, weight=-0.5),  # behind the shield only
        },
        terminations={"fallen": Term(humanoids.fallen, fallen)},
        success=Term(humanoids.standing, {"height_m": stand.standing_m, "tilt_rad": 0.5, "distance_m": 1.0}),
        noise=humanoid.NOISE,
        randomisation={
            **humanoid.VARIATION,
            **stand.variation,
            "push": EventTerm(randomisation.push, {"speed_m_s": stand.push_m_s}, interval_range_s=PUSH_EVERY_S),
        },
        training={"ppo": humanoid.PPO},
    )


def stand_task(name: str, summary: str, stand: Stand) -> TaskCfg:
    """The task of one humanoid."""
    return TaskCfg(
        name=name,
        summary=summary,
        episode_s=8.0,
        success_hold_s=0.5,
        groups={stand.robot.name: _group(stand)},
        starts=stand.starts,
        train_steps=12_000_000,
    )


G1 = Stand(
    robot=load_robot("g1"),
    # Drives are soft, and carry it by targets ahead of its joints
    reach={
        **{"hip_pitch": 0.75, "hip_roll": 0.5, "hip_yaw": 0.35},
        **{"knee": 1.2, "ankle_pitch": 0.7, "ankle_roll": 0.25, "waist": 0.2},
    },
    fallen_m=0.5,
    standing_m=0.65,
    feet_apart_m=0.16,
    push_m_s=(0.3, 0.6),  # 10 to 20 N s
    variation=HARDWARE,
)
STAND = stand_task("stand", "a Unitree G1 stays on its feet under pushes", G1)
