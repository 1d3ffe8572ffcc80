"""Franka Emika Panda with the Franka Hand: seven joints and a gripper, each a position servo."""

from math import pi
from pathlib import Path

from hardware.spec import Channel, Joint, RobotSpec, joint_positions

# The fingers mirror each other and both push, so the actuated one carries twice the grasping force of 70 N. Closed on
# anything wider than 4 cm it reaches that force; its inertia is an estimate, see `sources`.
_FINGER = Joint(
    "finger",
    low=0.0,
    high=0.04,
    home=0.04,
    max_velocity=0.05,
    max_acceleration=5.0,
    max_effort=140.0,
    stiffness=7000.0,
    damping=240.0,
    armature=1.0,
    friction=0.0,
)

# Columns: name, low, high, home, velocity, acceleration, effort, stiffness, damping, armature, friction.
_ARM = (
    Joint("joint1", -2.8973, 2.8973, 0.0, 2.175, 15.0, 87.0, 3000.0, 160.0, 0.605721456, 0.273075),
    Joint("joint2", -1.7628, 1.7628, -pi / 4, 2.175, 7.0, 87.0, 3000.0, 190.0, 0.605721456, 0.43612),
    Joint("joint3", -2.8973, 2.8973, 0.0, 2.175, 10.0, 87.0, 3000.0, 140.0, 0.462474144, 0.32034),
    Joint("joint4", -3.0718, -0.0698, -3 * pi / 4, 2.175, 12.5, 87.0, 2500.0, 120.0, 0.462474144, 0.6397),
    Joint("joint5", -2.8973, 2.8973, 0.0, 2.61, 15.0, 12.0, 2500.0, 50.0, 0.205544064, 0.41952),
    Joint("joint6", -0.0175, 3.7525, pi / 2, 2.61, 20.0, 12.0, 2000.0, 45.0, 0.205544064, 0.151505),
    Joint("joint7", -2.8973, 2.8973, pi / 4, 2.61, 20.0, 12.0, 2000.0, 40.0, 0.205544064, 0.282445),
)

_FCI = "Franka Control Interface documentation, 'Robot and interface specifications', limits for Panda"
_GAZ = "Gaz et al. 2019, 'Dynamic Identification of the Franka Emika Panda Robot', IEEE RA-L 4(4)"

SPEC = RobotSpec(
    name="panda",
    kind="manipulator",
    mjcf=Path(__file__).with_name("panda.xml"),
    base_body="link0",
    joints=(*_ARM, _FINGER),
    channels=(
        *joint_positions(_ARM),
        Channel("finger", "m", _FINGER.low, _FINGER.high, "distance of either finger from the middle: 0 is closed"),
    ),
    mass_kg=17.404501,
    radius_m=1.31,
    control_hz=50.0,
    sensor_hz=1000.0,
    fallback="hold",
    fixed_base=True,
    payload_kg=2.2,
    frames={"tool": "tool"},
    sources={
        "payload": "data sheet: 3 kg at the flange, less 0.73 kg of hand and fingers",
        "kinematics": f"{_FCI}: modified Denavit-Hartenberg table, flange at 0.107 m, hand turned by -45 degrees on it",
        "tool": "default of the Franka Hand in libfranka: 0.1034 m beyond the flange, between the finger tips",
        "position, velocity, acceleration, torque limits": _FCI,
        "acceleration of joint2": "7.0 instead of 7.5 rad/s^2: what 87 N m brake in the worst pose, gravity included",
        "braking": "each joint by itself brakes so in any pose; all at once from full speed, joints 1, 2 and 6 need "
        "up to 1.4 times their torque in one pose of fourteen",
        "mass, centre of mass, inertia of the links": f"{_GAZ}, feasible parameters",
        "mass, inertia of hand and fingers": "franka_description (Franka Robotics), end_effectors/franka_hand",
        "friction": f"{_GAZ}: half of phi_1 of the identified sigmoid, its level at speed",
        "armature": "reflected rotor inertias that Franka gave for the FR3, as the README of the Panda in Drake "
        "states them; an estimate for the Panda, whose own are not published",
        "stiffness": "libfranka examples, setDefaultBehavior: joint impedance of the internal controller",
        "damping": "not published; damping ratio 1 at the geometric mean of the inertia at home and outstretched, "
        "which makes 0.7 to 1.4 over the workspace",
        "finger range, speed, force": "Franka Hand data sheet: 80 mm travel, 50 mm/s a finger, 70 N continuous",
        "finger inertia, gains, acceleration": "estimates: the drive is a reflected inertia of 1 kg a finger, "
        "critically damped; 140 N would brake it at 70 m/s^2",
        "pads": "franka_description, mesh of the finger: 17 x 18 mm; friction 1.0, rubber on dry plastic or wood",
        "reach": "sum of the lengths of the Denavit-Hartenberg table and the hand: an upper bound",
        "sensor rate": "FCI: 1 kHz",
    },
)
