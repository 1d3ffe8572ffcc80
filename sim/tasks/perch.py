"""perch: a Crazyflie lands on a tray that a Panda holds and moves to meet it."""

from functools import lru_cache
from math import pi

import mujoco
import torch

from hardware import load_robot
from hardware.rotation import rotate
from sim import randomisation
from sim.baselines import perch as baselines
from sim.baselines.arms import poses
from sim.noise import Noise
from sim.task import ActionCfg, Curriculum, Draw, GroupCfg, ObservationCfg, SceneCfg, Start, TaskCfg
from sim.terms import EventTerm, MemoryTerm, RewardTerm, Term, arms, observations, perch, rewards, terminations

DRONE, ARM = load_robot("crazyflie"), load_robot("panda")
assert DRONE.flight is not None
HOVER_N = DRONE.flight.hover_thrust_n
TOOL, TRAY = {"robot": ARM.name}, {"tray": "tray"}
NONE = (0.0,) * len(ARM.channels)
ELBOW = "joint3"
DOWN = (0.0, 1.0, 0.0, 0.0)  # the tool looks straight down, wxyz
AHEAD_M = 0.22  # from the tool to the middle of the tray
HALF_M, HALF_THICK_M = 0.1, 0.004  # of the tray, a square plate
PPO = {"gamma": 0.98, "gae_lambda": 0.95, "target_kl": 0.015, "minibatch": 2048}
FINGER_M = 0.006  # the fingers hold a handle 12 mm wide
TOOL_LOW, TOOL_HIGH = (0.25, -0.3, 0.3), (0.5, 0.3, 0.5)  # m, base: where the tool starts
BOX = {"low_m": (0.3, -0.6, 0.15), "high_m": (0.9, 0.6, 0.75)}  # where the tray may go
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


@lru_cache
def _ready() -> torch.Tensor:
    """(B, J) joint positions with the tool looking down, anywhere in the box in which it starts."""
    generator = torch.Generator().manual_seed(0)
    low, high = torch.tensor(TOOL_LOW), torch.tensor(TOOL_HIGH)
    pos = low + (high - low) * torch.rand(512, 3, generator=generator)
    joints = poses(ARM.name, pos, torch.tensor(DOWN).expand(512, 4), ELBOW)
    joints[:, -1] = FINGER_M
    return joints


def starts(draw: Draw) -> dict[str, Start]:
    """The tray somewhere before the arm, the drone hovering 0.5 to 1 m from it, higher, and not on the arm's side.

    An easy start is anywhere between a hand's breadth over the tray and there: landing and the way to it are learned
    together, each from a start of its own.
    """
    bank = _ready()
    joints = bank[torch.randint(0, len(bank), (draw.worlds,), generator=draw.generator)]
    tool, quat = arms.forward(ARM.name, joints)
    tray = tool + rotate(quat, torch.tensor([AHEAD_M, 0.0, 0.0]))
    towards = draw.uniform(-1.9, 1.9)
    hard = torch.lerp(draw.uniform(0.0, 1.0), torch.ones(draw.worlds), draw.difficulty)
    away = torch.lerp(draw.uniform(0.08, 0.2), draw.uniform(0.5, 1.0), hard)
    up = torch.lerp(draw.uniform(1.2, 1.5), draw.uniform(0.45, 1.2), hard)
    level = up.cos() * away
    offset = torch.stack([level * towards.cos(), level * towards.sin(), up.sin() * away], dim=-1)
    yaw = draw.uniform(-pi, pi) / 2
    turned = torch.stack([yaw.cos(), 0.0 * yaw, 0.0 * yaw, yaw.sin()], dim=-1)
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


PERCH = TaskCfg(
    name="perch",
    summary="a Crazyflie lands on a tray that a Panda holds under it",
    episode_s=6.0,
    success_hold_s=1.0,
    min_success=0.7,
    curriculum=Curriculum(up=0.2, down=0.05),
    scene=SceneCfg(props=props, objects=("tray",)),
    starts=starts,
    groups={
        "drone": GroupCfg(
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
                    "last_action": Term(observations.remembered, {"name": "last_action"}),
                },
                memory={"last_action": MemoryTerm(observations.last_action, initial=(0.0,) * 4)},
            ),
            action=ActionCfg(centre=(HOVER_N, 0.0, 0.0, 0.0), scale=(0.7 * HOVER_N, 4.0, 4.0, 2.0)),
            rewards={
                "near": RewardTerm(perch.seat_near, {**SEAT, "scale_m": 0.3}, weight=0.5),
                "close": RewardTerm(perch.seat_near, {**SEAT, "scale_m": 0.05}, weight=0.5),
                "towards": RewardTerm(perch.seat_speed, {**SEAT, "limit_m_s": 0.8, "slow_m": 0.3}, weight=0.4),
                "seated": RewardTerm(perch.seated, SEATED, weight=1.0),
                "low": RewardTerm(
                    perch.low_approach, {**SEAT, "slack_m": 0.05, "slope": 0.6, "limit_m": 0.3}, weight=-3.0
                ),
                "hard": RewardTerm(perch.hard_landing, {**SEAT, "speed_m_s": 0.2, "rate": 2.0}, weight=-0.5),
                "action_change": RewardTerm(rewards.action_change, weight=-0.03),
                "spin": RewardTerm(rewards.spin, weight=-0.005),
                "outside": RewardTerm(terminations.outside, SPACE, weight=-10.0),
                "tipped": RewardTerm(perch.tipped, {"lean_rad": 1.2}, weight=-10.0),
            },
            terminations={
                "outside": Term(terminations.outside, SPACE),
                "tipped": Term(perch.tipped, {"lean_rad": 1.2}),
            },
            success=Term(perch.seated, SEATED),
            noise=Noise(pos_m=0.002, angle_rad=0.01, lin_vel_m_s=0.02, ang_vel_rad_s=0.05),
            randomisation={
                "mass": EventTerm(randomisation.mass, {"scale": (0.95, 1.05)}),
                "thrust": EventTerm(randomisation.thrust, {"scale": (0.92, 1.05)}),
                "wind": EventTerm(randomisation.wind, {"force_n": (0.0, 0.01)}, interval_range_s=(1.0, 3.0)),
                "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(pos_m=0.002, angle_rad=0.01)}),
                "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.012)}),
                "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.012)}),
            },
            baseline=Term(baselines.land, {"robot": DRONE.name, **SEAT}),
            training={
                "ppo": {"gamma": 0.98, "gae_lambda": 0.95, "target_kl": 0.015, "minibatch": 2048, "init_std": 0.5}
            },
            shield={"geofence_low": (-1.1, -1.6, 0.0), "geofence_high": (2.1, 1.6, 2.1)},
        ),
        "arm": GroupCfg(
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
                peer={
                    "above_tray": Term(perch.peer_above_tray, {**TRAY, "limit_m": 1.0}),
                    "vel": Term(observations.peer_vel),
                },
                memory={"last_action": MemoryTerm(observations.last_action, initial=NONE)},
                peer_range_m=5.0,
                max_peers=1,
            ),
            action=ActionCfg(
                centre=(*NONE[:7], FINGER_M),
                scale=(0.3, 0.3, 0.1, *NONE[:5]),  # m/s of the tool, which looks straight down: the tray stays level
                relative=(*(True,) * 7, False),
                transform=Term(arms.tool_steps, {**TOOL, "elbow": ELBOW}),
                bias=Term(arms.hold_attitude, {**TOOL, "elbow": ELBOW, "quat": DOWN, "rate": 4.0}),
            ),
            rewards={
                "under": RewardTerm(perch.under_drone, {**TRAY, "drone": "drone", "scale_m": 0.5}, weight=0.5),
                "right_under": RewardTerm(perch.under_drone, {**TRAY, "drone": "drone", "scale_m": 0.05}, weight=0.5),
                "seated": RewardTerm(perch.seated, {**SEATED, "drone": "drone"}, weight=1.0),
                "tray_speed": RewardTerm(perch.tray_speed, TRAY, weight=-2.0),
                "tray_lean": RewardTerm(perch.tray_lean, TRAY, weight=-2.0),
                "action_change": RewardTerm(rewards.action_change, weight=-0.02),
                "near_joint_limit": RewardTerm(arms.near_joint_limit, {"margin_rad": 0.15}, weight=-0.5),
                "outside": RewardTerm(perch.tray_outside, {**TRAY, **BOX}, weight=-10.0),
            },
            terminations={"outside": Term(perch.tray_outside, {**TRAY, **BOX})},
            success=Term(perch.tray_steady, {**TRAY, "speed_m_s": 0.1, "lean_rad": 0.1}),
            noise=Noise(pos_m=0.002, angle_rad=0.005, lin_vel_m_s=0.02, joint_pos_rad=0.0005, joint_vel_rad_s=0.01),
            randomisation={
                "object_mass": EventTerm(randomisation.object_mass, {"scale": (0.8, 1.2)}),
                "friction": EventTerm(randomisation.friction, {"scale": (0.7, 1.3)}),
                "gains": EventTerm(randomisation.gains, {"stiffness": (0.9, 1.1), "damping": (0.9, 1.1)}),
                "sensor_bias": EventTerm(randomisation.sensor_bias, {"bias": Noise(joint_pos_rad=0.001)}),
                "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.0, 0.008)}),
                "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.0, 0.012)}),
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
            training={
                "ppo": {"gamma": 0.98, "gae_lambda": 0.95, "target_kl": 0.015, "minibatch": 2048, "init_std": 0.4}
            },
        ),
    },
    num_envs=512,
    train_steps=4_000_000,
)
