"""perch: a Crazyflie lands on a tray that a Panda holds and moves to meet it."""

from math import pi

import mujoco
import torch

from hardware.rotation import rotate
from sim import randomisation
from sim.baselines import perch as baselines
from sim.noise import Noise
from sim.task import Curriculum, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.tasks.parts import crazyflie, panda
from sim.tasks.parts.links import in_time
from sim.tasks.parts.multirotor import FRAMES, firmware
from sim.tasks.parts.panda import DOWN, ELBOW, TOOL
from sim.terms import EventTerm, RewardTerm, Term, arms, objects, observations, perch, rewards, terminations
from sim.vectors import about_vertical

DRONE, ARM = crazyflie.ROBOT, panda.ROBOT
TRAY = {"tray": "tray"}
AHEAD_M = 0.22  # from the tool to the middle of the tray
HALF_M, HALF_THICK_M = 0.1, 0.004  # of the tray, a square plate
PPO = {"gamma": 0.98, "gae_lambda": 0.95, "target_kl": 0.015, "minibatch": 2048}
FINGER_M = 0.006  # the fingers hold a handle 12 mm wide
# m, base: where the tool starts. Lower, the floor's face of its fence holds a drone that comes down to the tray
TOOL_LOW, TOOL_HIGH = (0.25, -0.3, 0.45), (0.5, 0.3, 0.65)
BOX = {"name": "tray", "low_m": (0.3, -0.6, 0.3), "high_m": (0.9, 0.6, 0.9)}  # where the tray may go
SPACE = {"low_m": (-1.2, -1.7, 0.1), "high_m": (2.2, 1.7, 2.2)}  # where the drone may fly
SEAT = {**TRAY, "seat_m": HALF_THICK_M + 0.0175}  # of the drone's middle above that of the tray: half its hull
SEATED = {**SEAT, "height_m": 0.01, "aside_m": HALF_M, "speed_m_s": 0.1, "lean_rad": 0.15}


def props(scene: mujoco.MjSpec, robots: int) -> None:
    """The tray, of foam board: a plate with a handle behind it, that the arm's hand, looking down, does not let go."""
    tray = scene.worldbody.add_body(name="tray", pos=[0.5, 0.0, 0.5])
    tray.add_freejoint()
    rgba = [0.95, 0.75, 0.3, 1]
    tray.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=[HALF_M, HALF_M, HALF_THICK_M], mass=0.08, friction=[0.8, 0.005, 0.0001],
        rgba=rgba,
    )  # fmt: skip
    reach = (AHEAD_M - HALF_M) / 2
    tray.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=[reach, 0.01, HALF_THICK_M], pos=[reach - AHEAD_M, 0, 0], mass=0.02,
        rgba=rgba, contype=0, conaffinity=0,
    )  # fmt: skip
    hand = scene.body("robot1/hand")
    tip = scene.site("robot1/tool").pos
    weld = scene.add_equality(type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY)
    weld.name1, weld.name2 = hand.name, tray.name
    weld.data[:3] = 0.0
    weld.data[3:10] = [tip[0] + AHEAD_M, tip[1], tip[2], *DOWN]  # the tray in the axes of the hand
    weld.data[10] = 1.0
    weld.solref = [0.01, 1.0]
    for name in ("link6", "link7", "hand", "finger", "finger_mirror"):
        scene.add_exclude(bodyname1=f"robot1/{name}", bodyname2="tray")


def starts(draw: Draw) -> dict[str, Start]:
    """The tray somewhere before the arm, the drone hovering 0.5 to 1 m from it, higher, and not on the arm's side.

    An easy start is anywhere between a hand's breadth over the tray and there: landing and the way to it are learned
    together, each from a start of its own.
    """
    bank = panda.poses(TOOL_LOW, TOOL_HIGH, DOWN, FINGER_M)
    joints = bank[torch.randint(0, len(bank), (draw.worlds,), generator=draw.generator)]
    tool, quat = arms.forward(ARM.name, joints)
    tray = tool + rotate(quat, torch.tensor([AHEAD_M, 0.0, 0.0]))
    towards = draw.uniform(-1.9, 1.9)
    hard = torch.lerp(draw.uniform(0.0, 1.0), torch.ones(draw.worlds), draw.difficulty)
    away = torch.lerp(draw.uniform(0.08, 0.2), draw.uniform(0.5, 1.0), hard)
    up = torch.lerp(draw.uniform(1.2, 1.5), draw.uniform(0.45, 1.2), hard)
    level = up.cos() * away
    offset = torch.stack([level * towards.cos(), level * towards.sin(), up.sin() * away], dim=-1)
    turned = about_vertical(draw.uniform(-pi, pi))
    flat = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(draw.worlds, 4)
    return {
        "drone": Start(
            command={},
            pos=(tray + offset).unsqueeze(1),
            quat=turned.unsqueeze(1),
            lin_vel=draw.uniform(-0.2, 0.2, 1, 3),
            objects={"tray": (tray, flat)},
        ),
        "arm": Start(command={}, joint_pos=joints.unsqueeze(1)),
    }


DRONE_GROUP = GroupCfg(
    robot=DRONE.name,
    num_agents=1,
    commands={},
    observation=ObservationCfg(
        own={
            "to_seat": Term(perch.to_seat, {**SEAT, "limit_m": 0.6}),
            "tray_vel": Term(perch.tray_vel, TRAY),
            "base_lin_vel": Term(observations.base_lin_vel),
            "projected_gravity": Term(observations.projected_gravity),
            "base_ang_vel": Term(observations.base_ang_vel),
            "frames": Term(observations.remembered, {"name": "frames"}),
        },
        memory={"frames": FRAMES},
    ),
    action=crazyflie.ACTION,
    rewards={
        "near": RewardTerm(perch.seat_near, {**SEAT, "scale_m": 0.3}, weight=0.5),
        "close": RewardTerm(perch.seat_near, {**SEAT, "scale_m": 0.05}, weight=0.5),
        "towards": RewardTerm(perch.seat_speed, {**SEAT, "limit_m_s": 0.8, "slow_m": 0.3}, weight=0.4),
        "seated": RewardTerm(perch.seated, SEATED, weight=1.0),
        "low": RewardTerm(perch.low_approach, {**SEAT, "slack_m": 0.05, "slope": 0.6, "limit_m": 0.3}, weight=-3.0),
        "hard": RewardTerm(perch.hard_landing, {**SEAT, "speed_m_s": 0.2, "rate": 2.0}, weight=-0.5),
        "action_change": RewardTerm(rewards.action_change, weight=-0.03),
        "spin": RewardTerm(rewards.spin, weight=-0.005),
        "outside": RewardTerm(terminations.outside, SPACE, weight=-10.0),
        "tipped": RewardTerm(perch.tipped, {"lean_rad": 1.2}, weight=-10.0),
    },
    terminations={"outside": Term(terminations.outside, SPACE), "tipped": Term(perch.tipped, {"lean_rad": 1.2})},
    success=Term(perch.seated, SEATED),
    noise=Noise(pos_m=0.002, angle_rad=0.01, lin_vel_m_s=0.02, ang_vel_rad_s=0.05),
    randomisation={
        "mass": EventTerm(randomisation.mass, {"scale": (0.95, 1.05)}),
        "wind": EventTerm(randomisation.wind, {"force_n": (0.0, 0.01)}, interval_range_s=(1.0, 3.0)),
        "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(pos_m=0.002, angle_rad=0.01)}),
        **firmware(DRONE),
        **in_time(DRONE),
    },
    rate_loop=True,
    baseline=Term(baselines.land, {"robot": DRONE.name, **SEAT}),
    training={"ppo": {**PPO, "init_std": 0.5}},
    shield={"geofence_low": (-1.1, -1.6, 0.0), "geofence_high": (2.1, 1.6, 2.1)},
    lands_on="arm",
)

ARM_GROUP = GroupCfg(
    robot=ARM.name,
    num_agents=1,
    commands={},
    observation=ObservationCfg(
        own={
            "tray_pos": Term(perch.tray_pos, TRAY),
            "tray_up": Term(perch.tray_up, TRAY),
            "tray_vel": Term(perch.tray_vel, TRAY),
            "joint_offset": Term(observations.joint_offset, TOOL),
            "joint_vel": Term(observations.joint_vel),
            "last_action": Term(observations.remembered, {"name": "last_action"}),
        },
        peer={"above_tray": Term(perch.peer_above_tray, {**TRAY, "limit_m": 1.0}), "vel": Term(observations.peer_vel)},
        memory={"last_action": panda.LAST_ACTION},
        peer_range_m=5.0,
        max_peers=1,
    ),
    # The tool looks straight down: the tray stays level
    action=panda.move_tool((0.3, 0.3, 0.1), gripper_m=FINGER_M, gripper_scale_m=0.0, quat=DOWN),
    rewards={
        "under": RewardTerm(perch.under_drone, {**TRAY, "drone": "drone", "scale_m": 0.5}, weight=0.5),
        "right_under": RewardTerm(perch.under_drone, {**TRAY, "drone": "drone", "scale_m": 0.05}, weight=0.5),
        "seated": RewardTerm(perch.seated, {**SEATED, "drone": "drone"}, weight=1.0),
        "tray_speed": RewardTerm(perch.tray_speed, TRAY, weight=-2.0),
        "tray_lean": RewardTerm(perch.tray_lean, TRAY, weight=-2.0),
        "action_change": RewardTerm(rewards.action_change, weight=-0.02),
        "near_joint_limit": RewardTerm(arms.near_joint_limit, {"margin_rad": 0.15}, weight=-0.5),
        "outside": RewardTerm(objects.object_outside, BOX, weight=-10.0),
    },
    terminations={"outside": Term(objects.object_outside, BOX)},
    success=Term(perch.tray_steady, {**TRAY, "speed_m_s": 0.1, "lean_rad": 0.1}),
    noise=Noise(pos_m=0.002, angle_rad=0.005, lin_vel_m_s=0.02, joint_pos_rad=0.0005, joint_vel_rad_s=0.01),
    randomisation={
        "object_mass": EventTerm(randomisation.object_mass, {"scale": (0.8, 1.2)}),
        "friction": EventTerm(randomisation.friction, {"scale": (0.7, 1.3)}),
        "gains": EventTerm(randomisation.gains, {"stiffness": (0.9, 1.1), "damping": (0.9, 1.1)}),
        "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(joint_pos_rad=0.001)}),
        "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.008)}),
        "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.012)}),
        **in_time(ARM),
        **crazyflie.HEARD,
    },
    baseline=Term(
        baselines.hold_under,
        {
            **TOOL,
            "ahead_m": AHEAD_M,
            "finger_m": FINGER_M,
            "quat": DOWN,
            "elbow": ELBOW,
            "low_m": TOOL_LOW,
            "high_m": (TOOL_HIGH[0] + 0.1, *TOOL_HIGH[1:]),
        },
    ),
    training={"ppo": {**PPO, "init_std": 0.4}},
)

PERCH = TaskCfg(
    name="perch",
    summary="a Crazyflie lands on a tray that a Panda holds under it",
    episode_s=6.0,
    success_hold_s=1.0,
    groups={"drone": DRONE_GROUP, "arm": ARM_GROUP},
    starts=starts,
    scene=SceneCfg(props=props, objects=("tray",)),
    curriculum=Curriculum(up=0.2, down=0.05),
    min_success=0.9,
    train_steps=9_000_000,
)
