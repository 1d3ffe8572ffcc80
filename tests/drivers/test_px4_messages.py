"""What PX4 says and hears in MAVLink: frames, units, modes and parameters against literal values of its documents."""

import struct
import time
from types import SimpleNamespace

import numpy as np
import pytest

from hardware import load_robot
from hardware.drivers import load_driver
from hardware.drivers.device_clock import DeviceClock
from hardware.drivers.px4_messages import ThrustCurve, known_to_m, mode_name, parameter_of, rates_frd, state_of
from hardware.drivers.px4_said import Said

HALF = np.sqrt(0.5)
EAST = (HALF, 0.0, 0.0, HALF)  # PX4's attitude, level and heading east


def odometry(q=EAST, child=1, position=(3.0, 4.0, -5.0), velocity=(1.0, 0.25, 0.5)):
    covariance = [0.04, *[np.nan] * 5, 0.01, *[np.nan] * 4, 0.09, *[np.nan] * 9]
    named = dict(zip(("x", "y", "z", "vx", "vy", "vz"), [*position, *velocity], strict=True))
    named |= {"rollspeed": 0.1, "pitchspeed": 0.2, "yawspeed": 0.3, "q": q, "pose_covariance": covariance}
    return SimpleNamespace(frame_id=1, child_frame_id=child, **named)


def test_the_estimate_is_read_from_north_east_down():
    """3 m north, 4 m east, 5 m above: docs.px4.io/main/en/ros2/user_guide#ros-2-px4-frame-conventions."""
    state = state_of(odometry(), 0.02)
    np.testing.assert_allclose(state.base_pos, [4.0, 3.0, 5.0])
    np.testing.assert_allclose(state.base_ang_vel, [0.1, -0.2, -0.3], rtol=1e-6)  # nose up and right, as PX4 counts
    # Heading east, 1 m/s north is to the left, 0.25 m/s east forward, 0.5 m/s down.
    np.testing.assert_allclose(state.base_lin_vel, [0.25, 1.0, -0.5], atol=1e-6)
    north = state_of(odometry((1.0, 0.0, 0.0, 0.0)), 0.02)  # heading north, that is forward, and east to the right
    np.testing.assert_allclose(north.base_lin_vel, [1.0, -0.25, -0.5], atol=1e-6)
    body = state_of(odometry(child=12), 0.02)  # MAV_FRAME_BODY_FRD: mavlink.io/en/messages/common.html#MAV_FRAME
    np.testing.assert_allclose(body.base_lin_vel, [1.0, -0.25, -0.5], atol=1e-6)
    assert float(state.age) == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("px4", "ours"),
    [  # wxyz: mavlink.io/en/messages/common.html#ODOMETRY; axes: docs.px4.io/main/en/contribute/notation
        ((1.0, 0.0, 0.0, 0.0), (HALF, 0.0, 0.0, HALF)),  # heading north: ours is a left turn from east
        (EAST, (1.0, 0.0, 0.0, 0.0)),
        ((HALF * 0.8, -HALF * 0.6, HALF * 0.6, HALF * 0.8), (0.8, 0.0, -0.6, 0.0)),  # heading east, nose up
        ((HALF * 0.8, HALF * 0.6, HALF * 0.6, HALF * 0.8), (0.8, 0.6, 0.0, 0.0)),  # heading east, right side down
    ],
)
def test_attitude_is_that_of_forward_left_up_in_east_north_up(px4, ours):
    quat = state_of(odometry(px4), 0.0).base_quat
    np.testing.assert_allclose(quat * np.sign(quat @ np.array(ours)), ours, atol=1e-6)


def test_frames_of_other_estimators_are_refused():
    with pytest.raises(ValueError, match="MAV_FRAMEs 1 and 8: expected 1"):
        state_of(odometry(child=8), 0.0)


def test_the_position_is_known_as_well_as_its_worst_axis():
    """Upper triangle of 6 x 6: mavlink.io/en/messages/common.html#ODOMETRY."""
    assert known_to_m(odometry()) == pytest.approx(0.3)
    unknown = odometry()
    unknown.pose_covariance[6] = np.nan
    assert np.isnan(known_to_m(unknown))


def test_rates_are_nose_up_and_to_the_right():
    """Forward, right, down: docs.px4.io/main/en/contribute/notation."""
    assert rates_frd(np.array([1.0, 2.0, 3.0])) == (1.0, -2.0, -3.0)


def test_thrust_is_between_0_and_1_and_hovers_where_px4_says():
    """docs.px4.io/main/en/config_mc/pid_tuning_guide_multicopter.html#thrust-curve."""
    bent, straight = ThrustCurve(0.5, 0.0, 20.0, 0.8), ThrustCurve(0.5, 0.3, 20.0, 0.8)
    assert bent.signal(20.0) == straight.signal(20.0) == 0.5
    assert bent.signal(5.0) == 0.25 and straight.signal(5.0) == 0.125
    assert bent.signal(0.8) == 0.0 and bent.signal(1000.0) == 1.0
    assert bent.thrust_n(0.25) == pytest.approx(5.0) and straight.thrust_n(0.125) == pytest.approx(5.0)
    assert bent.thrust_n(0.0) == 0.8


def test_modes_and_parameters_are_read_as_px4_writes_them():
    """px4_custom_mode.h: github.com/PX4/PX4-Autopilot/blob/v1.15.0/src/modules/commander/px4_custom_mode.h; bytes of
    integers in a float: mavlink.io/en/services/parameter.html#parameter-encoding."""
    assert mode_name(0x00060000) == "OFFBOARD" and mode_name(0x00030000) == "POSCTL"
    assert mode_name(0x06040000) == "AUTO.LAND" and mode_name(0x05040000) == "AUTO.RTL"
    (four,) = struct.unpack("<f", b"\x04\0\0\0")
    assert parameter_of(SimpleNamespace(param_type=6, param_value=four)) == 4.0
    assert parameter_of(SimpleNamespace(param_type=9, param_value=0.5)) == 0.5


def test_what_is_over_is_no_fault_and_what_it_says_has_an_end():
    said = Said()
    said.hear_odometry(odometry_of(child=8))
    assert "MAV_FRAMEs 1 and 8" in said.bad_odometry
    said.hear_odometry(odometry_of())
    assert not said.bad_odometry
    for _ in range(1000):
        said.hear_text(SimpleNamespace(severity=3, chunk_seq=1, text="x" * 50))
    assert 200 < len(said.text(time.monotonic())) < 300


def test_a_state_of_later_than_now_is_a_fault_and_no_state():
    """All that come after it would seem to be overtaken on their way: it flew on by the last one, and never landed."""
    driver, now_s = load_driver("px4", load_robot("x500"), link="udpout:127.0.0.1:9"), time.monotonic()
    driver._link = SimpleNamespace(clock=DeviceClock())
    driver._link.clock.exchange(now_s, now_s, now_s)
    said = driver._said
    said.clock = driver._link.clock
    later, right = odometry_of(), odometry_of()
    later.time_usec, right.time_usec = int((now_s + 3600) * 1e6), int(now_s * 1e6)
    said.hear_odometry(later)
    assert said.bad_odometry == "ODOMETRY is stamped 3600.0 s later than PX4's clock says"
    said.hear_odometry(right)
    assert not said.bad_odometry and driver.read().age < 1.0


def odometry_of(**changes):
    message = odometry(**changes)
    message.time_usec = 1
    return message
