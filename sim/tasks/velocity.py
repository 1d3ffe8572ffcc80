"""velocity: a Unitree G1 walks in any direction on flat ground as commanded, and stands when commanded so."""

from collections.abc import Mapping
from math import pi

import torch

from hardware import load_robot
from sim import randomisation
from sim.task import ActionCfg, CommandCfg, Curriculum, Draw, GroupCfg, ObservationCfg, Start, TaskCfg, Tensor
from sim.tasks.parts import humanoid
from sim.terms import EventTerm, MeanTerm, MemoryTerm, RewardTerm, Term, humanoids, observations, rewards
from sim.vectors import about_vertical

ROBOT = load_robot("g1")
HOME = ROBOT.home
# Reach of the action about home, rad. Waist, arms and hands keep their pose: fewer channels are learned sooner.
REACH = {"hip_pitch": 0.7, "hip_roll": 0.4, "hip_yaw": 0.3, "knee": 1.0, "ankle_pitch": 0.7, "ankle_roll": 0.2}
SCALE = humanoid.of_joints(ROBOT, REACH)
LEGS = tuple(index for index, scale in enumerate(SCALE) if scale)
TURNED = tuple(i for i in LEGS if "roll" in ROBOT.joint_names[i] or "yaw" in ROBOT.joint_names[i])
OF_LEGS = {"joints": LEGS, "home": tuple(HOME[index] for index in LEGS)}
LIFTED = humanoid.of_joints(
    ROBOT, {"hip_pitch": -0.4, "knee": 0.8, "ankle_pitch": -0.4}
)  # rad, a swinging foot; the sole stays level
LIFT = tuple(LIFTED[index] for index in LEGS)
FALLEN = {"height_m": 0.55, "tilt_rad": 0.8}
FASTEST = (1.0, 0.4, 0.8)  # forward or to the left in m/s, turning left in rad/s
SLOWEST = (-0.5, -0.4, -0.8)
TOLERANCE = {"speed_m_s": 0.2, "turn_rad_s": 0.3}
GAIT_S = 0.72  # of both steps
SWING_SHARE = 0.4  # of that, each foot
SWITCH_S = 5.0  # into the episode the command changes


def starts(draw: Draw) -> dict[str, Start]:
    """Standing at the origin and facing anywhere, with two commands: one to begin with, one from `SWITCH_S` on."""
    if draw.robots > 1:
        raise ValueError(f"velocity is for one robot at the origin, not for {draw.robots}")
    n, uniform = draw.robots, draw.uniform
    yaw = uniform(-pi, pi, n)
    none = torch.zeros_like(yaw)
    joint_pos = humanoid.near_pose(draw, HOME, LEGS)
    first, second = _velocity(draw), _velocity(draw)
    return {
        ROBOT.name: Start(
            pos=torch.stack([none, none, torch.full_like(yaw, ROBOT.home_height_m)], dim=-1),
            quat=about_vertical(yaw),
            lin_vel=torch.cat([uniform(-0.2, 0.2, n, 2), none.unsqueeze(-1)], dim=-1),
            joint_pos=joint_pos,
            command={"velocity": first},
            plan={"first": first, "second": second},
        )
    }


def _velocity(draw: Draw) -> Tensor:
    """Commands (K, N, 3): at first slow and forward, then all over the range; one in eight is to stand."""
    n, d = draw.robots, draw.difficulty.view(-1, 1, 1)
    low, high = torch.tensor(SLOWEST), torch.tensor(FASTEST)
    easy_low, easy_high = torch.tensor((0.3, 0.0, 0.0)), torch.tensor((0.6, 0.0, 0.0))
    low, high = easy_low + d * (low - easy_low), easy_high + d * (high - easy_high)
    velocity = low + (high - low) * draw.uniform(0.0, 1.0, n, 3)
    return velocity * (draw.uniform(0.0, 1.0, n, 1) > 0.125)


def change_command(plan: Mapping[str, Tensor], time_s: Tensor) -> dict[str, Tensor]:
    """The first velocity of the plan, then the second."""
    return {"velocity": torch.where(time_s < SWITCH_S, plan["first"], plan["second"])}


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=1,
    commands={
        "velocity": CommandCfg(
            SLOWEST, FASTEST, "m/s, m/s, rad/s", "heading", "how fast to walk forward and left, and to turn left"
        )
    },
    observation=ObservationCfg(
        own={
            "velocity_command": Term(humanoids.velocity_command),
            "gait_clock": Term(humanoids.gait_clock),
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "joint_offset": Term(observations.joint_offset, {"robot": ROBOT.name, "joints": LEGS}),
            "joint_vel": Term(observations.joint_vel, {"joints": LEGS}),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={
            "last_action": humanoid.last_action(LEGS),
            "gait_phase": MemoryTerm(
                humanoids.gait_phase, {"dt_s": 1.0 / ROBOT.control_hz, "period_s": GAIT_S}, initial=(0.0,)
            ),
        },
        privileged={"base_motion": Term(humanoids.base_motion), "feet": Term(humanoids.feet)},
    ),
    action=ActionCfg(centre=HOME, scale=SCALE),
    update_commands=change_command,
    rewards={
        "velocity": RewardTerm(humanoids.velocity_tracking, {"scale_m_s": 0.3}, weight=1.5),
        "turn": RewardTerm(humanoids.turn_tracking, {"scale_rad_s": 0.5}, weight=0.7),
        "steady": RewardTerm(humanoids.steady_error, TOLERANCE, weight=-0.5),
        "stance": RewardTerm(humanoids.stance_matches, {"swing_share": SWING_SHARE}, weight=1.0),
        "clearance": RewardTerm(humanoids.clearance_error, {"swing_share": SWING_SHARE, "height_m": 0.08}, weight=-1.0),
        "gait_pose": RewardTerm(
            humanoids.gait_pose, {**OF_LEGS, "lift": LIFT, "swing_share": SWING_SHARE, "scale_rad": 0.2}, weight=1.0
        ),
        "alive": RewardTerm(humanoids.alive, weight=0.3),
        "lean": RewardTerm(humanoids.lean, weight=-2.0),
        "height": RewardTerm(humanoids.height_error, {"height_m": 0.77}, weight=-10.0),
        "rocking": RewardTerm(humanoids.rocking, weight=-0.05),
        "bouncing": RewardTerm(humanoids.bouncing, weight=-0.5),
        "turned": RewardTerm(
            humanoids.joint_error, {"joints": TURNED, "home": tuple(HOME[i] for i in TURNED)}, weight=-0.3
        ),
        "foot_slip": RewardTerm(humanoids.foot_slip, weight=-0.2),
        "feet_apart": RewardTerm(humanoids.feet_apart, {"least_m": 0.16}, weight=-4.0),
        "action_change": RewardTerm(rewards.action_change, {"channels": LEGS}, weight=-0.02),
        "joint_acceleration": RewardTerm(humanoids.joint_acceleration, weight=-0.0002),
        "fallen": RewardTerm(humanoids.fallen, FALLEN, weight=-10.0),
        "correction": RewardTerm(rewards.correction, {"scale": 0.05}, weight=-0.5),  # behind the shield only
    },
    terminations={"fallen": Term(humanoids.fallen, FALLEN)},
    # Over whole gaits, since a pelvis sways and turns to and fro with every step: at one moment it is off by more than
    # what separates a robot that turns as commanded from one that does not turn.
    success=Term(humanoids.tracks, TOLERANCE),
    means={"velocity_error": MeanTerm(humanoids.velocity_error, window_s=2 * GAIT_S)},
    noise=humanoid.NOISE,
    randomisation={
        **humanoid.VARIATION,
        "push": EventTerm(randomisation.push, {"speed_m_s": (0.0, 0.3)}, interval_range_s=(3.0, 5.0)),
    },
    # Ankles push off with all that they have: a target at rest may call for up to 1.2 times that, which drives cut off.
    shield={"pickup_share": 0.1},
    training={"ppo": humanoid.PPO},
)

VELOCITY = TaskCfg(
    name="velocity",
    summary="a Unitree G1 walks at the commanded velocity",
    episode_s=10.0,
    success_hold_s=1.0,
    groups={ROBOT.name: GROUP},
    starts=starts,
    min_success=0.9,  # of any command in the range, changed on the way, under pushes
    curriculum=Curriculum(up=0.1, down=0.03),
    num_envs=1024,
    train_steps=26_980_000,
)
