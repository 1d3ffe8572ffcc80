"""The driver of a Crazyflie, through Bitcraze's own client, against an emulated one on a UDP port."""

import struct
import time

import numpy as np
import pytest
from emulated import Emulated
from patience import patience

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.drivers.crazyflie_packets import STATE, setpoint_packet, state_of, thrust_of_signal, thrust_signal
from hardware.rotation import rotate, rotate_inverse
from hardware.spec import GRAVITY
from hardware.types import ActuatorCommand

SPEC = load_robot("crazyflie")
IDLE_N, FULL_N = SPEC.command_low[0], SPEC.command_high[0]
HOVER_N = SPEC.flight.hover_thrust_n


def test_a_setpoint_is_what_the_firmware_reads():
    """Type 11, then as its manualPacket_s: deg/s, pitch nose up, 16 bits, a flag for rates.

    github.com/bitcraze/crazyflie-firmware/blob/2a18fc2/src/modules/src/crtp_commander_generic.c#L91
    """
    packet = setpoint_packet(0x8001, np.radians([90.0, 45.0, -30.0]))
    assert packet == b"\x0b" + struct.pack("<fff", 90.0, -45.0, -30.0) + b"\x01\x80" + b"\x01"
    assert len(packet) == 16


def test_an_estimate_is_read_with_the_firmwares_signs_and_units():
    """mm, mm/s, mrad/s, pitch rate nose up: .../2a18fc2/src/modules/src/stabilizer.c#L133."""
    turned = np.array([0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)])  # x y z w: it looks along y
    values = dict(zip(STATE, [1000, -2000, 1500, 0, 250, -100, 0, 100, 200, -300], strict=True))
    state = state_of(values, turned, 0.02)
    np.testing.assert_allclose(state.base_pos, [1.0, -2.0, 1.5], rtol=1e-6)
    np.testing.assert_allclose(state.base_quat, [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)], rtol=1e-6)
    np.testing.assert_allclose(state.base_lin_vel, [0.25, 0.0, -0.1], atol=1e-6)  # 0.25 m/s along y is forward
    np.testing.assert_allclose(state.base_ang_vel, [0.1, -0.2, -0.3], rtol=1e-6)
    assert float(state.age) == pytest.approx(0.02)


def test_thrust_is_linear_in_sixteen_bits_and_idle_thrust_is_none():
    """Full thrust is 4 x 0.2 N: .../2a18fc2/src/platform/interface/platform_defaults_cf21bl.h#L65."""
    assert thrust_signal(FULL_N, IDLE_N, FULL_N, 1.0) == 65535
    assert thrust_signal(0.5 * FULL_N, IDLE_N, FULL_N, 1.0) in (32767, 32768)
    assert thrust_signal(0.5 * FULL_N, IDLE_N, FULL_N, 1.2) == round(1.2 * 0.5 * 65535)
    assert thrust_signal(2 * FULL_N, IDLE_N, FULL_N, 1.0) == 65535
    assert thrust_signal(IDLE_N, IDLE_N, FULL_N, 1.0) == 0
    assert thrust_of_signal(thrust_signal(0.4, IDLE_N, FULL_N, 1.2), IDLE_N, FULL_N, 1.2) == pytest.approx(
        0.4, abs=1e-5
    )


@pytest.fixture
def device():
    with Emulated("crazyflie") as emulated:
        yield emulated


def connected(device: Emulated, **options):
    driver = load_driver("crazyflie", SPEC, uri=f"udp://127.0.0.1:{device.port}", **options)
    driver.connect()
    return driver


def fly(driver, goal: tuple[float, float, float], seconds: float, yaw_rate: float = 0.0) -> list[float]:
    """Fly to `goal` m by a plain controller; ages of the states on the way, s."""
    ages, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
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


@pytest.mark.slow
def test_it_is_armed_flown_to_a_point_turned_and_landed(device):
    driver = connected(device)
    try:
        assert driver.read_battery().charge == pytest.approx(0.9)
        assert driver.read_battery().voltage_v == pytest.approx(4.08, abs=0.01)
        assert not driver.read_status().armed and not driver.read_status().fault
        driver.arm()
        ages = fly(driver, (0.4, -0.3, 0.8), 4.0)
        assert driver.read_status().armed
        np.testing.assert_allclose(device.order()["position"], [0.4, -0.3, 0.8], atol=0.08)
        np.testing.assert_allclose(driver.read().base_pos, [0.4, -0.3, 0.8], atol=0.08)
        fly(driver, (0.4, -0.3, 0.8), 1.0, yaw_rate=0.8)
        w, _, _, z = driver.read().base_quat
        assert 0.5 < 2.0 * np.arctan2(z, w) < 1.1, "it turns to its left"
        assert min(ages) < 0.02  # on a busy machine the others are older
    finally:
        driver.stop()
    landed = device.order()
    assert landed["position"][2] < 0.03 and not landed["info"] & 0b10, "stop lands it and disarms it"


@pytest.mark.slow
def test_on_the_ground_it_idles_without_winding_up(device):
    """Held crooked, a rate controller that runs would drive two rotors to their limit."""
    driver = connected(device)
    driver.arm()
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        sent = driver.write(ActuatorCommand(np.array([IDLE_N, 3.0, 3.0, 0.0], np.float32)))
        time.sleep(0.02)
    said = device.order()
    assert sent.target[0] == pytest.approx(IDLE_N)
    assert said["largest_thrust"] == 0 and not said["info"] & 1 << 4, "it flew"
    driver.disarm()
    driver.stop()


@pytest.mark.slow
def test_a_driver_that_begins_in_flight_does_not_stop_its_motors(device):
    """Its shield, begun anew too, says that it is disarmed."""
    driver = connected(device)
    driver.arm()
    fly(driver, (0.0, 0.0, 0.5), 1.5)
    driver._asked_s = None  # as of a driver that has armed nothing
    driver.disarm()
    fly(driver, (0.0, 0.0, 0.5), 0.4)
    said = device.order()
    driver.stop()
    assert said["info"] & 0b10 and said["position"][2] > 0.2


def until(says, within_s: float = 3.0) -> str:
    """The fault that is reported before long."""
    end = time.monotonic() + patience(within_s)
    while not (fault := says().fault):
        assert time.monotonic() < end, "no fault was reported"
        time.sleep(0.02)
    return fault


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "fault"),
    [
        ({"refuses_arming": True}, "checks before flight have not passed"),
        ({"is_armed": False}, "disarmed by itself, or by somebody else"),
        ({"is_crashed": True, "is_armed": False}, "crashed: put it upright"),
        ({"is_locked": True, "is_armed": False}, "locked: restart it"),
        ({"sigma_m": 0.4}, "position known to 0.40 m only"),
        ({"sigma_m": float("nan")}, "position known to nan m only"),
        ({"loss": 1.0}, "says nothing of itself any more"),
        ({"delay_s": 0.2}, "round trip takes"),
    ],
)
def test_a_device_that_takes_itself_back_says_why(device, order, fault):
    driver = connected(device)
    driver.arm()
    time.sleep(1.2)
    assert driver.read_status().armed and not driver.read_status().fault
    if "refuses_arming" in order:
        driver.disarm()
    device.order(**order)
    assert fault in until(driver.read_status, 12.0)
    driver.stop()


@pytest.mark.slow
def test_a_link_that_is_gone_is_said_and_its_last_state_grows_old(device):
    driver = connected(device)
    device.kill()
    driver.write(ActuatorCommand(np.array([HOVER_N, 0.0, 0.0, 0.0], np.float32)))
    assert until(driver.read_status).startswith("link lost: ")
    time.sleep(0.3)
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
def test_an_old_firmware_is_refused_in_one_line():
    with Emulated("crazyflie", "--without", "supervisor.info") as old, pytest.raises(DriverError) as refused:
        connected(old)
    assert "supervisor.info" in str(refused.value) and "\n" not in str(refused.value)


def test_a_packet_that_comes_late_is_never_taken_for_a_young_one():
    """Also one of two seconds ago, and where the device's clock of 24 bits, ms, has begun again."""
    driver = load_driver("crazyflie", SPEC, uri="usb://0")
    around_s = (1 << 24) * 1e-3
    for index in range(1000):
        now_s, late_s = 500.0 + 0.01 * index, {300: 2.0, 301: 1.99, 700: 0.3}.get(index, 0.0)
        measured_s = (around_s - 5.0 + 0.01 * index - late_s) % around_s
        assert driver._later_than_the_fastest(now_s, measured_s) == pytest.approx(late_s, abs=1e-6), index


def test_what_cannot_be_a_crazyflie_is_refused_in_one_line():
    for options, message in (
        ({"uri": "udp://127.0.0.1:1", "connect_s": 1.0}, "Crazyflie at udp://127.0.0.1:1: "),
        ({"uri": "nonsense", "connect_s": 1.0}, "nonsense"),
        ({"uri": "usb://0", "thrust_scale": 3.0}, "thrust_scale is 3.0: expected 0.5 to 1.5"),
    ):
        with pytest.raises(DriverError, match=message) as refused:
            load_driver("crazyflie", SPEC, **options).connect()
        assert "\n" not in str(refused.value)
    with pytest.raises(DriverError, match="not 'panda'"):
        load_driver("crazyflie", load_robot("panda"), uri="usb://0")
