"""Unitree G1 with 29 joints and rubber hands (`g1_29dof_rev_1_0`), its joints driven by position servos.

Unitree publishes links, joints and limits as `g1_29dof_rev_1_0.urdf` in unitree_ros. Rotor inertias and gear ratios of
its motors are public too, and give the inertia that a rotor adds at its joint. See `sources`.
"""

from pathlib import Path
from typing import NamedTuple

from hardware.spec import Joint, RobotSpec, TorqueSpeed, joint_positions


class Motor(NamedTuple):
    """A motor with its gear: inertia seen at the joint in kg m^2, greatest speed in rad/s, peak torque in N m."""

    armature: float
    max_velocity: float
    max_effort: float
    torque_speed: TorqueSpeed | None


HIP_22 = Motor(0.025101925, 20.0, 139.0, TorqueSpeed(14.5, 22.7, 111.0, 131.0))  # 7520, gear 22.5
HIP_14 = Motor(0.01017752, 32.0, 88.0, TorqueSpeed(22.63, 35.52, 71.0, 83.3))  # 7520, gear 14.3
ARM = Motor(0.003609725, 37.0, 25.0, TorqueSpeed(30.86, 40.13, 24.8, 31.9))  # 5020
PAIR = Motor(2 * ARM.armature, 30.0, 35.0, None)  # two 5020 on parallel rods
WRIST = Motor(0.00425, 22.0, 5.0, TorqueSpeed(15.3, 24.76, 4.8, 8.6))  # 4010


def _joint(
    name: str, low: float, high: float, home: float, motor: Motor, stiffness: float, damping: float, brake: float
) -> Joint:
    """A joint of this robot; `brake` is its max_acceleration in rad/s^2."""
    return Joint(
        f"{name}_joint",
        *(low, high, home),
        *(motor.max_velocity, brake, motor.max_effort),
        *(stiffness, damping, motor.armature, 0.0),
        motor.torque_speed,
    )


def _leg(side: str, out: int) -> tuple[Joint, ...]:
    """Joints of one leg; `out` is +1 for left and -1 for right."""
    roll = (-0.5236, 2.9671) if out > 0 else (-2.9671, 0.5236)
    return (
        _joint(f"{side}_hip_pitch", -2.5307, 2.8798, -0.13, HIP_14, 100.0, 2.0, 60.0),
        _joint(f"{side}_hip_roll", *roll, 0.0, HIP_22, 100.0, 2.0, 120.0),
        _joint(f"{side}_hip_yaw", -2.7576, 2.7576, 0.0, HIP_14, 100.0, 2.0, 300.0),
        _joint(f"{side}_knee", -0.087267, 2.8798, 0.3, HIP_22, 150.0, 4.0, 500.0),
        _joint(f"{side}_ankle_pitch", -0.87267, 0.5236, -0.17, PAIR, 40.0, 2.0, 500.0),
        _joint(f"{side}_ankle_roll", -0.2618, 0.2618, 0.0, PAIR, 40.0, 2.0, 500.0),
    )


def _arm(side: str, out: int) -> tuple[Joint, ...]:
    """Joints of one arm; `out` is +1 for left and -1 for right."""
    roll = (-1.5882, 2.2515) if out > 0 else (-2.2515, 1.5882)
    return (
        _joint(f"{side}_shoulder_pitch", -3.0892, 2.6704, 0.2, ARM, 80.0, 2.0, 80.0),
        _joint(f"{side}_shoulder_roll", *roll, 0.2 * out, ARM, 80.0, 2.0, 80.0),
        _joint(f"{side}_shoulder_yaw", -2.618, 2.618, 0.0, ARM, 40.0, 1.0, 400.0),
        _joint(f"{side}_elbow", -1.0472, 2.0944, 0.9, ARM, 60.0, 1.0, 500.0),
        _joint(f"{side}_wrist_roll", -1.972222, 1.972222, 0.0, ARM, 40.0, 1.0, 500.0),
        _joint(f"{side}_wrist_pitch", -1.61443, 1.61443, 0.0, WRIST, 40.0, 1.0, 400.0),
        _joint(f"{side}_wrist_yaw", -1.61443, 1.61443, 0.0, WRIST, 40.0, 1.0, 500.0),
    )


_WAIST = (
    _joint("waist_yaw", -2.618, 2.618, 0.0, HIP_14, 400.0, 15.0, 60.0),
    _joint("waist_roll", -0.52, 0.52, 0.0, PAIR, 400.0, 15.0, 3.5),
    _joint("waist_pitch", -0.52, 0.52, 0.0, PAIR, 400.0, 15.0, 6.0),
)
JOINTS = (*_leg("left", 1), *_leg("right", -1), *_WAIST, *_arm("left", 1), *_arm("right", -1))

_URDF = "unitree_ros, g1_description/g1_29dof_rev_1_0.urdf (2026-06-16)"

SPEC = RobotSpec(
    name="g1",
    kind="humanoid",
    mjcf=Path(__file__).with_name("g1.xml"),
    base_body="pelvis",
    joints=JOINTS,
    channels=joint_positions(JOINTS, "joint position set-point of the drive"),
    mass_kg=33.341142,
    radius_m=0.96,
    control_hz=50.0,
    sensor_hz=500.0,
    fallback="damp",
    fallback_policy=Path(__file__).with_name("fallback.onnx"),
    home_height_m=0.7847,
    endurance_s=7200.0,
    frames={site: site for site in ("left_foot", "right_foot", "left_hand", "right_hand", "head")},
    sources={
        "links, joints": f"{_URDF}: origins, axes, ranges, masses, centres of mass and inertias; bolted links merged",
        "endurance": "Unitree, data sheet of the G1: about 2 h, 9000 mAh",
        "mass": f"{_URDF}: sum of all links; the data sheet says about 35 kg with battery",
        "torque and velocity limits": f"{_URDF}: effort and velocity of each joint",
        "armature": "Unitree's rotor inertias and two-stage gears as published in mjlab, g1_constants.py: "
        "J_rotor (N1 N2)^2 + J_1 N2^2 + J_2; ankles and waist have two motors",
        "torque-speed curves": "unitree_rl_lab, unitree_actuators.py: X1, X2, Y1 and Y2 of N7520-14.3, N7520-22.5, "
        "N5020-16 and W4010-25, read in public copies of it; none of the pairs on rods, whose peak torque is 35 N m in "
        "the URDF and 50 in mjlab. Driving, both big motors give four fifths of the URDF's effort",
        "damping of the joints": "a quarter of peak torque at greatest speed, about what the published curves of "
        "the big motors lose (unitree_rl_lab, unitree_actuators.py); it also keeps a thrashing robot finite at 5 ms",
        "friction": "zero, since dry friction in every joint costs 30 % of a physics step; unitree_rl_lab has "
        "1.6 N m for 7520-14, 2.4 N m for 7520-22, 0.6 N m for the small motors",
        "stiffness, damping": "legs: Unitree's own deployment, unitree_rl_gym, deploy/deploy_real/configs/g1.yaml; "
        "waist, shoulders and elbows: deployment gains of AMO (arXiv 2505.03738); wrists: unitree_rl_lab. No pose "
        "stands by itself: both ankles would have to beat mass * g * height of the centre of mass = 225 N m/rad",
        "home": "knees bent by 0.3 rad as in unitree_rl_lab, hips such that the weight comes to rest above the soles",
        "home height": "lowest point of the soles at home, by the kinematics of g1.xml",
        "max acceleration": "0.75 to 0.85 of (max effort - weight torque) / inertia of what the joint carries, the "
        "least over random poses with the pelvis upright and the feet in the air, at most 500 rad/s^2",
        "radius": "sum of the lengths of the chain to the finger tips, whatever the pose",
        "soles": "contact points of Unitree's g1_29dof_rev_1_0.xml: x from -0.05 m to 0.12 m, 35 mm below the ankle",
        "sole friction": "0.8, rubber on a dry hard floor; an estimate",
        "fallback policy": "that of the task `velocity`, which walks and stands as commanded",
        "sensor rate": "Unitree SDK 2 publishes the low-level state at 500 Hz",
    },
)
