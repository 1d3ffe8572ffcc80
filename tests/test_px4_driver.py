"""The driver of a drone with PX4, through pymavlink, against an emulated X500 on a UDP port."""

import struct
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pymavlink")
from emulated import Emulated
from patience import patience

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.drivers.px4_link import DeviceClock
from hardware.drivers.px4_messages import ThrustCurve, known_to_m, mode_name, parameter_of, rates_frd, state_of
from hardware.rotation import rotate, rotate_inverse
from hardware.spec import GRAVITY
from hardware.types import ActuatorCommand

SPEC = load_robot("x500")
HOVER_N, IDLE_N = SPEC.flight.hover_thrust_n, SPEC.command_low[0]
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


def test_the_clock_follows_the_quickest_exchange_and_notices_a_restart():
    clock = DeviceClock()
    for sent_s, there_s, now_s in ((10.0, 3.3, 10.5), (11.0, 4.01, 11.02), (12.0, 5.2, 12.4)):
        clock.hear(sent_s, there_s, now_s)
    assert clock.here(5.0) == pytest.approx(12.0) and clock.there(12.0) == pytest.approx(5.0)
    assert clock.trip_s == pytest.approx(0.02) and not clock.restarts
    for sent_s in (13.0, 14.0, 15.0, 16.0):
        clock.hear(sent_s, sent_s - 6.8, sent_s + 0.4)
    assert clock.trip_s == pytest.approx(0.4) and clock.here(5.0) == pytest.approx(12.0)
    clock.hear(17.0, 0.1, 17.02)
    assert clock.restarts == 1 and clock.here(0.1) == pytest.approx(17.01)


def test_what_is_over_is_no_fault_and_what_it_says_has_an_end():
    driver = load_driver("px4", SPEC, link="udpout:127.0.0.1:9")
    driver._hear_odometry(odometry_of(child=8))
    assert "MAV_FRAMEs 1 and 8" in driver._bad_frames
    driver._hear_odometry(odometry_of())
    assert not driver._bad_frames
    for _ in range(1000):
        driver._hear_text(SimpleNamespace(severity=3, chunk_seq=1, text="x" * 50))
    assert len(driver._said[1]) < 300


def odometry_of(**changes):
    message = odometry(**changes)
    message.time_usec = 1
    return message


@pytest.fixture
def device():
    with Emulated("px4") as emulated:
        yield emulated


def connected(device: Emulated, **options):
    driver = load_driver("px4", SPEC, link=f"udpout:127.0.0.1:{device.port}", **options)
    driver.connect()
    return driver


def fly(driver, goal, seconds, yaw_rate=0.0, until=lambda: False) -> list[float]:
    """Fly to `goal` m by a plain controller; ages of the states on the way, s."""
    ages, end = [], time.monotonic() + seconds
    while time.monotonic() < end and not until():
        state = driver.read()
        ages.append(float(state.age))
        velocity = rotate(state.base_quat, state.base_lin_vel)
        accel = np.clip(1.5 * (np.array(goal) - state.base_pos) - 2.0 * velocity, -2.0, 2.0)
        accel[2] += GRAVITY
        up = rotate(state.base_quat, np.float32([0.0, 0.0, 1.0]))
        turn = rotate_inverse(state.base_quat, np.float32(np.cross(up, accel / np.linalg.norm(accel))))
        rates = np.float32([4.0 * turn[0], 4.0 * turn[1], yaw_rate])
        driver.write(ActuatorCommand(np.concatenate([[SPEC.mass_kg * float(accel @ up)], rates])))
        time.sleep(0.02)
    return ages


def armed(driver) -> None:
    driver.arm()
    end = time.monotonic() + patience(6.0)
    while not driver.read_status().armed:
        assert time.monotonic() < end and not driver.read_status().fault, driver.read_status()
        time.sleep(0.02)


@pytest.mark.slow
def test_it_is_armed_flown_to_a_point_turned_and_landed(device):
    driver = connected(device)
    try:
        assert driver.read_battery().charge == pytest.approx(0.9)
        assert driver.read_battery().voltage_v == pytest.approx(16.52, abs=0.01)
        assert not driver.read_status().armed and not driver.read_status().fault
        armed(driver)
        ages = fly(driver, (0.5, -0.4, 1.5), 5.0)
        np.testing.assert_allclose(device.order()["position"], [0.5, -0.4, 1.5], atol=0.1)
        np.testing.assert_allclose(driver.read().base_pos, [0.5, -0.4, 1.5], atol=0.1)
        assert min(ages) < 0.02  # on a busy machine the others are older
        fly(driver, (0.5, -0.4, 1.5), 1.0, yaw_rate=0.8)
        w, _, _, z = driver.read().base_quat
        assert 0.3 < 2.0 * np.arctan2(z, w) < 1.1, "it turns to its left"
    finally:
        driver.stop()
    landed = device.order()
    assert landed["position"][2] < 0.24 and not landed["armed"], "stop lands it and disarms it"
    assert landed["mode"] == "AUTO.LAND" and landed["masks"] == [128]


@pytest.mark.slow
def test_on_the_ground_it_idles_and_a_stop_in_the_air_is_final(device):
    driver = connected(device)
    armed(driver)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        sent = driver.write(ActuatorCommand(np.array([IDLE_N, 3.0, 3.0, 0.0], np.float32)))
        time.sleep(0.02)
    assert sent.target[0] == pytest.approx(IDLE_N)
    assert device.order()["largest_thrust"] == 0.0 and device.order()["landed"]
    driver.disarm()
    wait_until(lambda: not device.order()["armed"], "it was not disarmed on the ground")
    armed(driver)
    fly(driver, (0.0, 0.0, 1.2), 3.0)
    assert device.order()["position"][2] > 0.6
    driver.disarm()
    wait_until(lambda: not device.order()["armed"], "it was not disarmed in the air")
    driver.arm()
    time.sleep(1.05)
    driver.disarm()  # an order to arm is on its way
    time.sleep(1.5)
    assert not device.order()["armed"], "it was armed after it was disarmed"
    driver.stop()


def wait_until(happens, failure: str, within_s: float = 1.0) -> None:
    end = time.monotonic() + patience(within_s)
    while not happens():
        assert time.monotonic() < end, failure
        time.sleep(0.01)


FAULTS = [
    ({"mode": "POSCTL"}, {"mode": "OFFBOARD"}, "flown in mode POSCTL by its remote control or another program"),
    ({"sigma_m": 0.8}, {"sigma_m": 0.02}, "position known to 0.80 m only"),
    ({"sigma_m": float("nan")}, {"sigma_m": 0.02}, "position known to nan m only"),
    ({"delay_s": 0.15}, {"delay_s": 0.0}, "round trip takes"),
    (
        {"charge": 0.05},
        {"charge": 0.9, "mode": "OFFBOARD"},
        "AUTO.LAND by its own failsafe: Failsafe: critical",
    ),
    ({"is_armed": False}, {}, "disarmed by itself, or by somebody else"),
    ({"reboot": True}, {}, "has restarted"),
]


@pytest.mark.slow
def test_a_device_that_takes_itself_back_says_why_and_a_pilot_keeps_it(device):
    driver = connected(device)
    armed(driver)
    fly(driver, (0.0, 0.0, 1.5), 3.0)
    for order, back, fault in FAULTS:
        device.order(**order)
        begin = time.monotonic()
        fly(driver, (0.0, 0.0, 1.5), patience(6.0), until=lambda text=fault: text in driver.read_status().fault)
        print(f"{order}: {1e3 * (time.monotonic() - begin):.0f} ms, {driver.read_status().fault}")
        assert fault in driver.read_status().fault
        if "mode" in order:
            driver.disarm()
            time.sleep(0.3)
            assert device.order()["armed"], "it was disarmed under its pilot"
            driver.arm()
        device.order(**back)
        if back:
            fly(driver, (0.0, 0.0, 1.5), patience(3.0), until=lambda: not driver.read_status().fault)
            assert not driver.read_status().fault
    driver.stop()


@pytest.mark.slow
def test_a_refusal_to_arm_is_told_in_px4s_words_and_may_be_overcome(device):
    driver = connected(device)
    device.order(refuses_arming="Resolve system health failures first")
    driver.arm()
    end = time.monotonic() + patience(6.0)
    while not (fault := driver.read_status().fault):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert fault == "arming refused, MAV_RESULT 1: Arming denied: Resolve system health failures first"
    driver.disarm()
    device.order(refuses_arming="")
    armed(driver)
    driver.stop()


FLY = """
import sys; sys.path[:0] = [{tests!r}]
from test_px4_driver import armed, connected, fly
from types import SimpleNamespace
driver = connected(SimpleNamespace(port={port}))
armed(driver)
fly(driver, (0.0, 0.0, 1.5), 3.0)
print("flies", flush=True)
fly(driver, (0.0, 0.0, 1.5), 60.0)
"""


@pytest.mark.slow
def test_px4_lands_it_when_the_driver_dies(device):
    """COM_OF_LOSS_T after its last set-point, which the driver has read back."""
    device.order(parameters={"COM_OF_LOSS_T": 0.5})
    program = FLY.format(tests=str(sys.modules["emulated"].__file__).rpartition("/")[0], port=device.port)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "flies"
    assert device.order()["position"][2] > 0.8
    process.kill()
    killed = time.monotonic()
    while (said := device.order())["mode"] == "OFFBOARD":
        assert time.monotonic() < killed + patience(2.0)
        time.sleep(0.01)
    while (landed := device.order())["armed"]:
        assert time.monotonic() < killed + patience(10.0)
        time.sleep(0.05)
    print(f"left OFFBOARD {1e3 * said['failed_after_s']:.0f} ms after the last set-point; down and disarmed "
          f"{time.monotonic() - killed:.1f} s after the driver died")  # fmt: skip
    assert 0.49 < said["failed_after_s"] < 0.52 and said["failsafe"] and said["mode"] == "AUTO.LAND"
    assert landed["position"][2] < 0.24 and said["up"] > 0.9


@pytest.mark.slow
def test_a_link_that_is_gone_is_said_and_its_last_state_grows_old(device):
    driver = connected(device)
    device.kill()
    end = time.monotonic() + patience(4.0)
    while not driver.read_status().fault:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert driver.read_status().fault.startswith("link lost: ")
    assert driver.read().age > 0.3
    driver.stop()


@pytest.mark.slow
def test_late_packets_are_as_old_as_they_are(device):
    driver = connected(device)
    device.order(jitter_s=0.05)
    time.sleep(0.5)
    ages = [(time.sleep(0.005), float(driver.read().age))[1] for _ in range(100)]
    assert 0.02 < np.median(ages) < patience(0.1)
    driver.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--parameters", '{"COM_OF_LOSS_T": 30.0}'], "COM_OF_LOSS_T is 30 s: expected at most 2 and more than 0"),
        (["--parameters", '{"COM_OBL_RC_ACT": 0}'], "COM_OBL_RC_ACT is 0: expected 4 (land), 3 (return) or 5 (hold)"),
        (["--parameters", '{"MPC_THR_HOVER": 0.9}'], "MPC_THR_HOVER is 0.9: expected 0.1 to 0.8"),
        (["--without", "COM_OBL_RC_ACT"], "no answer about parameter COM_OBL_RC_ACT: its firmware may be too old"),
        (["--system", "7"], "no HEARTBEAT of system 1 but only of systems [7]"),
    ],
)
def test_a_vehicle_without_its_own_watchdog_is_refused_in_one_line(options, message):
    with Emulated("px4", *options) as device, pytest.raises(DriverError) as refused:
        connected(device, connect_s=2.0)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_what_cannot_be_is_refused_in_one_line():
    for options, message in (
        ({"link": "udpout:127.0.0.1:1", "connect_s": 0.5}, "PX4 at udpout:127.0.0.1:1: no HEARTBEAT"),
        ({"link": "udpout:nonsense"}, "PX4 at udpout:nonsense: "),
        ({"link": "/dev/no-such-port"}, "PX4 at /dev/no-such-port: "),
        ({"link": "udpout:127.0.0.1:1", "system": 0}, "system is 0: expected 1 to 255"),
    ):
        with pytest.raises(DriverError, match=message) as refused:
            load_driver("px4", SPEC, **options).connect()
        assert "\n" not in str(refused.value)
    with pytest.raises(DriverError, match="not 'panda'"):
        load_driver("px4", load_robot("panda"), link="udpout:127.0.0.1:1")
