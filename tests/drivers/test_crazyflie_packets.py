"""Packets to and from a Crazyflie: signs, units and byte layout against literal values from its firmware's source."""

import struct

import numpy as np
import pytest

from hardware import load_robot
from hardware.drivers.crazyflie_packets import STATE, setpoint_packet, state_of, thrust_of_signal, thrust_signal

SPEC = load_robot("crazyflie")
IDLE_N, FULL_N = SPEC.command_low[0], SPEC.command_high[0]


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
