"""Franka Research 3 with the Franka Hand: the Panda's successor, with its lengths and drives and limits of its own."""

from dataclasses import replace
from pathlib import Path

from hardware.robots.panda import SPEC as PANDA
from hardware.spec import joint_positions

# low, high, velocity, acceleration
_LIMITS = {
    "joint1": (-2.7437, 2.7437, 2.62, 9.0),
    "joint2": (-1.7837, 1.7837, 2.62, 3.5),
    "joint3": (-2.9007, 2.9007, 2.62, 5.0),
    "joint4": (-3.0421, -0.1518, 2.62, 5.0),
    "joint5": (-2.8065, 2.8065, 5.26, 10.0),
    "joint6": (0.5445, 4.5169, 4.18, 7.0),
    "joint7": (-3.0159, 3.0159, 5.26, 10.0),
}
_ARM = tuple(
    replace(joint, low=low, high=high, max_velocity=velocity, max_acceleration=acceleration)
    for joint in PANDA.joints[:7]
    for low, high, velocity, acceleration in [_LIMITS[joint.name]]
)

_FCI = "Franka Control Interface documentation, 'Control Interface Specification and Robot Limits', limits for FR3"

SPEC = replace(
    PANDA,
    name="fr3",
    mjcf=Path(__file__).with_name("fr3.xml"),
    joints=(*_ARM, PANDA.joints[-1]),
    channels=(*joint_positions(_ARM), PANDA.channels[-1]),
    mass_kg=18.604001,
    sources={
        **{name: text for name, text in PANDA.sources.items() if name != "acceleration of joint2"},
        "kinematics": f"{_FCI}: the same Denavit-Hartenberg table as of the Panda",
        "position, velocity, acceleration, torque limits": f"{_FCI}; accelerations: 10 rad/s^2 at most, see braking",
        "braking": "the velocity limit falls towards either end of the range (rate_limiting.h of libfranka, "
        "computeUpperLimitsJointVelocity): a shield that brakes with 60 % of these stays within",
        "mass, centre of mass, inertia of the links": "franka_description (Franka Robotics), robots/fr3/inertials.yaml",
        "friction": f"not published for the FR3; the Panda's. {PANDA.sources['friction']}",
        "armature": "reflected rotor inertias that Franka gave, as the README of the Panda in Drake states them",
        "damping": f"as of the Panda: {PANDA.sources['damping']}",
    },
)
