"""What the shield of an arm assumes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JointBounds:
    """What is assumed of an arm, all of it at once; errors of measurement are one sigma."""

    pos: float = 2e-4  # rad
    vel: float = 5e-3  # rad/s
    age_s: float = 0.004
    delay_s: float = 0.01  # from the shield's answer to the drive


BOUNDS = JointBounds()  # so adversaries move arms (tests/shield/test_shield_joints.py)
