"""reach: an arm brings its tool to a pose, to 1 cm and 5 degrees, from any other one.

`reach_task` makes the task of any arm.
"""

from dataclasses import dataclass
from math import pi

import torch

from hardware import load_robot
from sim import randomisation
from sim.baselines import arms as baselines
from sim.noise import Noise
from sim.task import ActionCfg, CommandCfg, Draw, GroupCfg, ObservationCfg, Start, TaskCfg
from sim.tasks.parts.links import in_time
from sim.terms import EventTerm, MemoryTerm, RewardTerm, Term, arms, observations, rewards

LARGEST_TEAM = 2
DRAWS = 16  # of joint angles, of which the first that puts the tool into its space counts
SPEED = (0.5, 0.5, 0.5, 1.5, 1.5, 1.5)  # of the tool, m/s and rad/s
ELBOW_SPEED = 0.5  # rad/s

Corner = tuple[float, float, float]


@dataclass(frozen=True)
class Reach:
    """An arm and where it reaches."""

    robot: str
    low: tuple[float, ...]  # of each joint, rad: between these the tool is in front and looks down, more or less
    high: tuple[float, ...]
    space: tuple[Corner, Corner]  # m: the corners of where a tool starts and shall go
    elbow: str | None = None  # joint that has a speed of its own, of an arm with seven
    gripper_m: tuple[float, ...] = ()  # set-points of the channels behind the arm's
    speed_share: float | None = None  # of each joint's limit, what is asked of it at most; shields hold it back at 0.85

    def starts(self, draw: Draw) -> dict[str, Start]:
        """Joints and goal drawn alike: a pose that the arm can take with its tool in `space`.

        Arms stand a metre apart. The goals of two lie in the one space between them, each on its arm's side.
        """
        n = draw.robots
        if n > LARGEST_TEAM:
            raise ValueError(f"reach has room for {LARGEST_TEAM} robots, not {n}")
        base = torch.zeros(n, 3)
        base[:, 1] = torch.arange(n) - (n - 1) / 2
        pos, quat = arms.forward(self.robot, self._comfortable(draw, base))
        joint_pos = self._comfortable(draw, torch.zeros(n, 3))
        return {self.robot: Start(command={"goal_pos": pos + base, "goal_quat": quat}, joint_pos=joint_pos)}

    def _comfortable(self, draw: Draw, base: torch.Tensor) -> torch.Tensor:
        """Joint positions (K, N, J) with the tool in `space`, as arms at `base` (N, 3) m see it and as the world does.

        The middle of the ranges in the rare case that no draw fits.
        """
        low, high = torch.tensor(self.low), torch.tensor(self.high)
        joints = low + (high - low) * draw.uniform(0.0, 1.0, draw.robots, DRAWS, len(low))
        joints[..., -1, :] = (low + high) / 2
        tool, _ = arms.forward(self.robot, joints)
        fits = self._within(tool) & self._within(tool + base.unsqueeze(1))
        fits[..., -1] = True
        first = fits.int().argmax(-1)[..., None, None].expand(-1, -1, 1, len(low))
        return joints.gather(-2, first).squeeze(-2)

    def _within(self, pos: torch.Tensor) -> torch.Tensor:
        return ((pos > torch.tensor(self.space[0])) & (pos < torch.tensor(self.space[1]))).all(-1)


def _group(arm: Reach) -> GroupCfg:
    tool, speed = {"robot": arm.robot}, SPEED if arm.elbow is None else (*SPEED, ELBOW_SPEED)
    moving, rest = len(speed), len(arm.gripper_m)
    return GroupCfg(
        robot=arm.robot,
        num_agents=1,
        commands={
            "goal_pos": CommandCfg(*arm.space, "m", "world", "where the tool shall be"),
            "goal_quat": CommandCfg((-1.0,) * 4, (1.0,) * 4, "wxyz", "world", "how the tool shall be turned"),
        },
        observation=ObservationCfg(
            own={
                "tool_to_goal": Term(arms.tool_to_goal, {**tool, "limit_m": 0.3}),
                "joint_offset": Term(observations.joint_offset, tool),
                "joint_vel": Term(observations.joint_vel),
                "last_action": Term(observations.remembered, {"name": "last_action"}),
            },
            memory={"last_action": MemoryTerm(observations.last_action, initial=(0.0,) * (moving + rest))},
        ),
        action=ActionCfg(
            centre=(*(0.0,) * moving, *arm.gripper_m),
            scale=(*speed, *(0.0,) * rest),
            relative=(*(True,) * moving, *(False,) * rest),
            transform=Term(arms.tool_steps, {**tool, "elbow": arm.elbow}),
            limit=None if arm.speed_share is None else Term(arms.within_speed, {**tool, "share": arm.speed_share}),
        ),
        rewards={
            "near": RewardTerm(arms.tool_near, {"scale_m": 0.3}, weight=0.5),
            "close": RewardTerm(arms.tool_near, {"scale_m": 0.03}, weight=0.5),
            "aligned": RewardTerm(arms.tool_aligned, {"scale_rad": 0.6}, weight=0.5),
            "well_aligned": RewardTerm(arms.tool_aligned, {"scale_rad": 0.1}, weight=0.5),
            "action_change": RewardTerm(rewards.action_change, {"channels": tuple(range(moving))}, weight=-0.02),
            "joint_speed": RewardTerm(rewards.joint_speed, weight=-0.002),
            "near_joint_limit": RewardTerm(arms.near_joint_limit, {"margin_rad": 0.15}, weight=-0.5),
            "low": RewardTerm(arms.tool_low, {"height_m": 0.03}, weight=-20.0),
        },
        terminations={"low": Term(arms.tool_low, {"height_m": 0.03})},
        success=Term(arms.tool_there, {"distance_m": 0.01, "angle_rad": pi / 36}),
        noise=Noise(joint_pos_rad=0.0005, joint_vel_rad_s=0.01),
        randomisation={
            "gains": EventTerm(randomisation.gains, {"stiffness": (0.9, 1.1), "damping": (0.9, 1.1)}),
            "joint_friction": EventTerm(randomisation.joint_friction, {"scale": (0.5, 1.5)}),
            "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(joint_pos_rad=0.001)}),
            "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.008)}),
            "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.008)}),
            **in_time(load_robot(arm.robot)),
        },
        baseline=Term(baselines.reach, {**tool, "gripper_m": arm.gripper_m}),
        training={"ppo": {"gamma": 0.95, "gae_lambda": 0.9, "init_std": 0.4, "target_kl": 0.02, "minibatch": 512}},
    )


def reach_task(name: str, summary: str, arm: Reach) -> TaskCfg:
    """The task of one arm."""
    return TaskCfg(
        name=name,
        summary=summary,
        episode_s=3.0,
        success_hold_s=0.5,
        groups={arm.robot: _group(arm)},
        starts=arm.starts,
        train_steps=1_500_000,
    )


PANDA = Reach(
    robot="panda",
    low=(-0.9, -0.9, -0.5, -2.7, -0.6, 1.0, pi / 4 - 0.9, 0.04),
    high=(0.9, 0.5, 0.5, -1.4, 0.6, 2.4, pi / 4 + 0.9, 0.04),
    space=((0.30, -0.5, 0.12), (0.70, 0.5, 0.75)),
    elbow="joint3",
    gripper_m=(0.04,),
    speed_share=0.8,
)
REACH = reach_task("reach", "a Panda brings its tool to a pose and keeps it there", PANDA)
