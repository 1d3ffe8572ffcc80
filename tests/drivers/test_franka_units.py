"""What the driver of a Franka Research 3 makes of the arm's numbers, and how fast it may be; without a simulator."""

from types import SimpleNamespace

import numpy as np
import pytest

from hardware import load_robot
from hardware.drivers.franka import MODES, finger_of, speed_limits, state_of, width_of

FR3 = load_robot("fr3")
MOST = np.array([joint.max_velocity for joint in FR3.joints[:7]])
# Names, units and order of franka::RobotState: q, measured joint position, rad, and dq, rad/s, from the base on.
# https://frankarobotics.github.io/libfranka/structfranka_1_1RobotState.html
Q = [0.1, -0.7, 0.3, -2.2, 0.5, 1.6, 0.7]
DQ = [0.01, -0.02, 0.03, -0.04, 0.05, -0.06, 0.07]


def test_an_arm_says_where_each_of_its_joints_is_in_rad_and_how_fast():
    state = state_of(SimpleNamespace(q=Q, dq=DQ), 0.05)
    pos, vel = (
        dict(zip(FR3.joint_names, state.joint_pos, strict=True)),
        dict(zip(FR3.joint_names, state.joint_vel, strict=True)),
    )
    for number in range(7):
        assert pos[f"joint{number + 1}"] == pytest.approx(Q[number])
        assert vel[f"joint{number + 1}"] == pytest.approx(DQ[number])
    assert pos["finger"] == pytest.approx(0.025) and vel["finger"] == 0.0
    assert state.base_quat.tolist() == [1.0, 0.0, 0.0, 0.0] and not state.base_pos.any()


def test_a_hand_is_as_wide_as_both_of_its_fingers_are_open():
    """80 mm, at 50 mm/s a finger: https://download.franka.de/documents/Product%20Manual%20Franka%20Hand_R50010_1.1_EN.pdf.

    franky's Gripper.move takes the width between the fingers, m, and the speed of that, m/s.
    """
    finger = FR3.joints[-1]
    assert finger_of(0.08) == pytest.approx(0.04) == finger.high
    assert width_of(finger.high) == pytest.approx(0.08) and width_of(finger.max_velocity) == pytest.approx(0.1)


# Joint, rad, and libfranka's limits there, rad/s: least and greatest, of what computeLowerLimitsJointVelocity and
# computeUpperLimitsJointVelocity have in each line, without its tolerance.
# https://github.com/frankarobotics/libfranka/blob/main/include/franka/rate_limiting.h
# https://frankarobotics.github.io/docs/robot_specifications.html
LIMITS = [
    (1, 0.0, -2.62, 2.62),
    (1, 2.5, -2.62, 1.4324),  # sqrt(12.00 (2.7501 - 2.5)) - 0.30
    (1, -2.5, -1.4324, 2.62),
    (2, 1.5, -2.62, 1.0283),  # sqrt(5.17 (1.7918 - 1.5)) - 0.20
    (2, -1.5, -1.0283, 2.62),
    (3, 2.6, -2.62, 1.2648),  # sqrt(7.00 (2.9065 - 2.6)) - 0.20
    (3, -2.6, -1.2648, 2.62),
    (4, -0.4, -2.62, 1.1261),  # sqrt(8.00 (-0.1458 + 0.4)) - 0.30
    (4, -2.8, -1.1088, 2.62),  # sqrt(8.00 (-2.8 + 3.0481)) - 0.30
    (5, 0.0, -5.26, 5.26),
    (5, 2.6, -5.26, 2.3227),  # sqrt(34.00 (2.8101 - 2.6)) - 0.35
    (5, -2.6, -2.3227, 5.26),
    (6, 4.2, -4.18, 1.5277),  # sqrt(11.00 (4.5205 - 4.2)) - 0.35
    (6, 0.8, -1.3382, 4.18),  # sqrt(11.00 (0.8 - 0.54092)) - 0.35
    (7, 2.8, -5.26, 2.3825),  # sqrt(34.00 (3.0196 - 2.8)) - 0.35
    (7, -2.8, -2.3825, 5.26),
]


@pytest.mark.parametrize(("joint", "at", "lowest", "highest"), LIMITS)
def test_a_reference_is_at_most_four_fifths_as_fast_as_libfranka_allows_there(joint, at, lowest, highest):
    q = np.array([0.0, 0.0, 0.0, -1.6, 0.0, 2.5, 0.0])
    q[joint - 1] = at
    slowest, fastest = speed_limits(q, MOST)
    assert slowest[joint - 1] == pytest.approx(0.8 * lowest, abs=1e-4)
    assert fastest[joint - 1] == pytest.approx(0.8 * highest, abs=1e-4)


def test_a_reference_beyond_a_range_may_only_come_back():
    slowest, fastest = speed_limits(np.array([2.8, -1.9, 3.0, -3.1, 2.9, 0.5, -3.1]), MOST)
    assert fastest[[0, 2, 4]].tolist() == [0.0] * 3 and slowest[[1, 3, 5, 6]].tolist() == [0.0] * 4
    assert (slowest[[0, 2, 4]] < -1.0).all() and (fastest[[1, 3, 5, 6]] > 1.0).all()


def test_the_names_of_what_is_read_are_those_of_the_client():
    franky = pytest.importorskip("franky")
    for name in ("q", "dq", "time", "robot_mode", "current_errors", "last_motion_errors"):
        assert hasattr(franky.RobotState, name), name
    assert MODES.keys() <= franky.RobotMode.__members__.keys()
    assert hasattr(franky.Gripper, "width") and hasattr(franky.Duration, "to_sec")
