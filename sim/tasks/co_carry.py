"""co-carry: two Unitree G1s, one before the other, carry a stretcher to a place, without a word between them.

A G1 has rubber hands that cannot grip. Each of the four handles is therefore strapped to a palm: it turns freely there
and does not come off. Both robots run the same policy and face the same way, and neither knows which end it carries;
each sees itself, the load and where the load is to be, and feels in its arms what the other one does. A load is carried
in any direction, never turned.
"""

from dataclasses import replace
from math import pi

import mujoco
import torch

from hardware.kinematics import load_chain
from sim import randomisation
from sim.scenes.scene import robot_prefix
from sim.task import ActionCfg, CommandCfg, Curriculum, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.tasks.parts import humanoid
from sim.tasks.velocity import FALLEN, GAIT_S, LEGS, LIFT, OF_LEGS, ROBOT, SCALE, SWING_SHARE, TURNED
from sim.terms import EventTerm, MemoryTerm, RewardTerm, Term, carry, humanoids, observations, rewards
from sim.vectors import about_vertical

# Elbows bent, hands beside the hips: the load is above the middle of the feet.
POSE = tuple(0.35 if "shoulder_pitch" in joint.name else joint.home for joint in ROBOT.joints)
PALM = load_chain(ROBOT, "left_hand").forward(torch.tensor(POSE))[0]  # (3) m, from the pelvis
CARRY_M = ROBOT.home_height_m + float(PALM[2])  # height of the handles
HANDLE_M = (0.75, float(PALM[1]))  # from the middle of the load to a handle, along and across
LOAD_KG = 5.0  # with the heaviest load of 1.6 times that, a hand holds 2 kg
DROPPED = {"height_m": 0.45, "tilt_rad": 0.35}
ENDS = (1.0, -1.0)  # the first robot goes in front, the second one behind
AHEAD_M, LEFT_M = (-0.5, 1.5), (-0.3, 0.3)  # of the load's goal from where it is at first


def add_load(scene: mujoco.MjSpec, robots: int) -> None:
    """A stretcher with a box on it, its four handles strapped to palms. ValueError for any other team than two.

    It meets nothing but the floor: legs that brush against it would cost more than they teach.
    """
    _check_two(robots)
    along, across = HANDLE_M
    scene.geom("floor").contype |= 2
    load = scene.worldbody.add_body(name=carry.LOAD, pos=[0.0, 0.0, CARRY_M])
    load.add_freejoint()
    on_floor = {"contype": 0, "conaffinity": 2}
    box, capsule = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE
    for side in (-across, across):
        pole = [-along - 0.1, side, 0.0, along + 0.1, side, 0.0]
        load.add_geom(type=capsule, fromto=pole, size=[0.015, 0, 0], mass=0.1 * LOAD_KG, **on_floor)
    bed = {"size": [0.35, across, 0.005], "rgba": [0.9, 0.6, 0.1, 1]}
    load.add_geom(type=box, mass=0.2 * LOAD_KG, **bed, **on_floor)
    load.add_geom(type=box, pos=[0.0, 0.0, 0.08], size=[0.2, 0.15, 0.075], mass=0.6 * LOAD_KG, **on_floor)
    for index, end in enumerate(ENDS):
        for name, side in (("left_hand", across), ("right_hand", -across)):
            handle = load.add_site(name=f"handle{index}_{name}", pos=[end * along, side, 0.0])
            scene.add_equality(
                type=mujoco.mjtEq.mjEQ_CONNECT,
                objtype=mujoco.mjtObj.mjOBJ_SITE,
                name1=robot_prefix(index) + name,
                name2=handle.name,
            )


def starts(draw: Draw) -> dict[str, Start]:
    """Standing at home with the load in the hands, at the origin and facing anywhere.

    At first the load is to stay where it is; then its goal is farther and farther away, ahead most of the time.
    ValueError for any other team than two.
    """
    _check_two(draw.robots)
    n, d, uniform = draw.robots, draw.difficulty, draw.uniform
    yaw = uniform(-pi, pi)
    none = torch.zeros_like(yaw)
    cos, sin = yaw.cos(), yaw.sin()
    quat = about_vertical(yaw)
    place = torch.tensor(ENDS) * HANDLE_M[0] - PALM[0]  # (N) m, of the pelvis along the load
    height = torch.full((draw.worlds, n), ROBOT.home_height_m)
    ahead, left = d * uniform(*AHEAD_M), d * uniform(*LEFT_M)
    goal = torch.stack([ahead * cos - left * sin, ahead * sin + left * cos, none + CARRY_M], dim=-1)
    joint_pos = humanoid.near_pose(draw, POSE, LEGS)
    return {
        ROBOT.name: Start(
            pos=torch.stack([cos[:, None] * place, sin[:, None] * place, height], dim=-1),
            quat=quat.unsqueeze(1).repeat(1, n, 1),
            joint_pos=joint_pos,
            command={carry.LOAD_GOAL: goal.unsqueeze(1).repeat(1, n, 1)},
            objects={carry.LOAD: (torch.stack([none, none, none + CARRY_M], dim=-1), quat)},
        )
    }


def _check_two(robots: int) -> None:
    if robots != len(ENDS):
        raise ValueError(f"co-carry is for two robots, not {robots}")


GROUP = GroupCfg(
    robot=ROBOT.name,
    num_agents=2,
    commands={
        carry.LOAD_GOAL: CommandCfg(
            (-3.0, -3.0, 0.0), (3.0, 3.0, 1.0), "m", "world", "where to carry the load; its height does not matter"
        )
    },
    observation=ObservationCfg(
        own={
            "walk": Term(carry.walk),
            "gait_clock": Term(carry.gait_clock),
            "load_vel": Term(carry.load_vel),
            "load_lean": Term(carry.load_lean),
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "joint_offset": Term(observations.joint_offset, {"robot": ROBOT.name}),
            "joint_vel": Term(observations.joint_vel, {"joints": LEGS}),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        memory={
            "last_action": humanoid.last_action(LEGS),
            "gait_phase": MemoryTerm(
                carry.gait_phase, {"dt_s": 1.0 / ROBOT.control_hz, "period_s": GAIT_S}, initial=(0.0,)
            ),
        },
        privileged={
            "base_motion": Term(humanoids.base_motion),
            "feet": Term(humanoids.feet),
            "load_end": Term(carry.load_end),
            "load_height": Term(carry.load_height),
        },
    ),
    action=ActionCfg(centre=POSE, scale=SCALE),
    rewards={
        "velocity": RewardTerm(carry.walking, {"term": humanoids.velocity_tracking, "scale_m_s": 0.3}, weight=1.5),
        "turn": RewardTerm(carry.walking, {"term": humanoids.turn_tracking, "scale_rad_s": 0.5}, weight=0.5),
        "load_near_goal": RewardTerm(carry.load_near_goal, {"scale_m": 0.5}, weight=0.5),
        "load_tilt": RewardTerm(carry.load_tilt, weight=-5.0),
        "stance": RewardTerm(carry.walking, {"term": humanoids.stance_matches, "swing_share": SWING_SHARE}, weight=1.0),
        "gait_pose": RewardTerm(
            carry.walking,
            {"term": humanoids.gait_pose, **OF_LEGS, "lift": LIFT, "swing_share": SWING_SHARE, "scale_rad": 0.2},
            weight=1.0,
        ),
        "alive": RewardTerm(humanoids.alive, weight=0.3),
        "lean": RewardTerm(humanoids.lean, weight=-2.0),
        "height": RewardTerm(humanoids.height_error, {"height_m": 0.77}, weight=-10.0),
        "rocking": RewardTerm(humanoids.rocking, weight=-0.05),
        "turned": RewardTerm(
            humanoids.joint_error, {"joints": TURNED, "home": tuple(POSE[i] for i in TURNED)}, weight=-0.3
        ),
        "foot_slip": RewardTerm(humanoids.foot_slip, weight=-0.2),
        "feet_apart": RewardTerm(humanoids.feet_apart, {"least_m": 0.16}, weight=-4.0),
        "action_change": RewardTerm(rewards.action_change, {"channels": LEGS}, weight=-0.02),
        "fallen": RewardTerm(humanoids.fallen, FALLEN, weight=-10.0),
        "dropped": RewardTerm(carry.dropped, DROPPED, weight=-10.0),
    },
    terminations={"fallen": Term(humanoids.fallen, FALLEN), "dropped": Term(carry.dropped, DROPPED)},
    success=Term(carry.delivered, {"distance_m": 0.2, "height_m": 0.55, "tilt_rad": 0.15}),
    noise=replace(humanoid.NOISE, pos_m=0.005, lin_vel_m_s=0.05),
    randomisation={
        **humanoid.VARIATION,
        "load_mass": EventTerm(randomisation.object_mass, {"scale": (0.6, 1.6)}),
        "push": EventTerm(randomisation.push, {"speed_m_s": (0.0, 0.2)}, interval_range_s=(3.0, 5.0)),
    },
    training={"ppo": {**humanoid.PPO, "minibatch": 2048, "init_std": 0.2}},
)

CO_CARRY = TaskCfg(
    name="co-carry",
    summary="two Unitree G1s carry a stretcher to a place, without a word between them",
    episode_s=8.0,
    success_hold_s=1.0,
    groups={ROBOT.name: GROUP},
    starts=starts,
    scene=SceneCfg(props=add_load, objects=(carry.LOAD,)),
    curriculum=Curriculum(up=0.1, down=0.03),
    num_envs=256,
    train_steps=20_000_000,
)
