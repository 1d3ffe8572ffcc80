"""Unitree H1 with 19 joints and ball hands, its joints driven by position servos.

Unitree publishes links, joints and limits as `h1.urdf` in unitree_ros. Masses and inertias are those of the correction
of December 2025 (59.3 kg), 15 % above the first description (51.6 kg) that most simulation models still carry.
"""

from pathlib import Path

from hardware.spec import Joint, RobotSpec, TorqueSpeed, joint_positions

M107_15, M107_24, UNKNOWN = 0.063259741, 0.160478022, 0.1  # kg m^2, inertia of the rotor seen at the joint
CURVES = {M107_15: TorqueSpeed(14.0, 25.6, 150.0, 182.8), M107_24: TorqueSpeed(8.8, 16.0, 240.0, 292.5)}


def _joint(
    name: str,
    limits: tuple[float, float],
    home: float,
    drive: tuple[float, float],
    gains: tuple[float, float],
    brake: float,
    armature: float = UNKNOWN,
) -> Joint:
    """A joint of this robot: `drive` is greatest speed and peak torque, `brake` its max_acceleration in rad/s^2."""
    return Joint(f"{name}_joint", *limits, home, drive[0], brake, drive[1], *gains, armature, 0.0, CURVES.get(armature))


def _leg(side: str) -> tuple[Joint, ...]:
    """Joints of one leg; both legs have the same limits."""
    return (
        _joint(f"{side}_hip_yaw", (-0.43, 0.43), 0.0, (23.0, 200.0), (150.0, 2.0), 80.0, M107_15),
        _joint(f"{side}_hip_roll", (-0.43, 0.43), 0.0, (23.0, 200.0), (150.0, 2.0), 80.0, M107_15),
        _joint(f"{side}_hip_pitch", (-3.14, 2.53), -0.05, (23.0, 200.0), (150.0, 2.0), 80.0, M107_15),
        _joint(f"{side}_knee", (-0.26, 2.05), 0.3, (14.0, 300.0), (200.0, 4.0), 500.0, M107_24),
        _joint(f"{side}_ankle", (-0.87, 0.52), -0.25, (9.0, 40.0), (40.0, 2.0), 300.0),
    )


def _arm(side: str, out: int) -> tuple[Joint, ...]:
    """Joints of one arm; `out` is +1 for left and -1 for right."""
    roll, yaw = ((-0.34, 3.11), (-1.3, 4.45)) if out > 0 else ((-3.11, 0.34), (-4.45, 1.3))
    return (
        _joint(f"{side}_shoulder_pitch", (-2.87, 2.87), 0.2, (9.0, 40.0), (100.0, 2.0), 65.0),
        _joint(f"{side}_shoulder_roll", roll, 0.0, (9.0, 40.0), (100.0, 2.0), 65.0),
        _joint(f"{side}_shoulder_yaw", yaw, 0.0, (20.0, 18.0), (100.0, 2.0), 100.0),
        _joint(f"{side}_elbow", (-1.25, 2.61), 0.3, (20.0, 18.0), (100.0, 2.0), 100.0),
    )


_TORSO = _joint("torso", (-2.35, 2.35), 0.0, (23.0, 200.0), (300.0, 6.0), 100.0, M107_15)
JOINTS = (*_leg("left"), *_leg("right"), _TORSO, *_arm("left", 1), *_arm("right", -1))

_URDF = "unitree_ros, h1_description/urdf/h1.urdf (2025-12-31)"

SPEC = RobotSpec(
    name="h1",
    kind="humanoid",
    mjcf=Path(__file__).with_name("h1.xml"),
    base_body="pelvis",
    joints=JOINTS,
    channels=joint_positions(JOINTS, "joint position set-point of the drive"),
    mass_kg=59.338,
    radius_m=1.32,
    control_hz=50.0,
    sensor_hz=500.0,
    fallback="damp",
    fallback_policy=Path(__file__).with_name("fallback.onnx"),
    home_height_m=1.0313,
    frames={site: site for site in ("left_foot", "right_foot", "left_hand", "right_hand", "head")},
    sources={
        "links, joints": f"{_URDF}: origins, axes, ranges, masses, centres of mass and inertias",
        "mass": f"{_URDF}: sum of all links; the data sheet says about 47 kg without saying what is on board",
        "torque and velocity limits": f"{_URDF}: effort and velocity of each joint",
        "armature": "unitree_rl_lab, unitree_actuators.py: motors M107-15 (hips, torso) and M107-24 (knees), by "
        "their torque and speed; 0.1 kg m^2 elsewhere as in unitree_mujoco, h1.xml, since nothing is published",
        "torque-speed curves": "unitree_rl_lab, unitree_actuators.py: X1, X2, Y1 and Y2 of M107-15 and M107-24, read "
        "in public copies of it, some of which have 102.8 N m, less than Y1, for the Y2 of M107-15; not published for "
        "ankles and arms. Driving, these motors give three quarters and four fifths of the URDF's effort",
        "damping of the joints": "a quarter of peak torque at greatest speed, about what the published curves of "
        "the motors lose; it also keeps a thrashing robot finite at 5 ms",
        "friction": "not published; zero, since dry friction in every joint costs 30 % of a physics step",
        "stiffness, damping": "of the legs those that Unitree deploys (unitree_rl_gym, deploy_real/configs/h1.yaml): a "
        "policy has to balance with them; of torso and arms those of H2O (arXiv 2403.04436)",
        "home": "knees bent by 0.3 rad as in unitree_rl_gym, hips such that the weight comes to rest above the soles",
        "home height": "lowest point of the soles at home, by the kinematics of h1.xml",
        "max acceleration": "0.75 to 0.8 of (max effort - weight torque) / inertia of what the joint carries, the "
        "least over random poses with the pelvis upright and the feet in the air, at most 500 rad/s^2",
        "radius": "sum of the lengths of the chain to the hands, whatever the pose",
        "soles": "outline of the foot in unitree_ros: x from -0.049 m to 0.154 m, 70 mm below the ankle",
        "sole friction": "0.8, rubber on a dry hard floor; an estimate",
        "fallback policy": "that of the task `stand-h1`, which steps to stay on its feet and does not walk",
        "sensor rate": "Unitree SDK 2 publishes the low-level state at 500 Hz",
    },
)
