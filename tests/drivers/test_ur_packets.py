"""Bytes, bits, units and the program of a UR5e against what Universal Robots publishes.

RTDE: https://docs.universal-robots.com/tutorials/communication-protocol-tutorials/rtde-guide.html
URScript: https://www.universal-robots.com/manuals/EN/HTML/SW5_19/Content/prod-scriptmanual/
"""

import math
import struct

import numpy as np
import pytest

from hardware.drivers.setpoints import next_setpoint
from hardware.drivers.ur_packets import (
    BRAKE,
    CYCLE_S,
    JOINTS,
    Said,
    hindrance,
    pack_inputs,
    package,
    program,
    unpack_state,
)

# A data package of the guide's types, by hand: big-endian, DOUBLE 8 bytes, INT32 and UINT32 4.
STATE = bytes.fromhex(
    "01"
    "4025000000000000"  # timestamp 10.5 s
    "3ff0000000000000 bff921fb54442d18 3ff921fb54442d18 bff0000000000000 3fe0000000000000 4000000000000000"  # q, rad
    "3fb999999999999a 0000000000000000 bfb999999999999a 0000000000000000 0000000000000000 3ff0000000000000"  # qd, rad/s
    "00000007 00000003 00000001 00000002"  # robot mode RUNNING, power and program, normal mode, PLAYING
    "3fe0000000000000"  # the slider at one half
    "3ff8000000000000"  # 1.5 kg
    "0000000000000000 3f947ae147ae147b bfa999999999999a"  # 0, 0.02, -0.05 m
    "0000002b 0000002a 0000002c"
)


def said(**changes) -> Said:
    at_work = Said(0.0, np.zeros(6), np.zeros(6), 7, 0b11, 0b1, 2, 1.0, 0.0, np.zeros(3), 0, 0, 0)
    return at_work._replace(**changes)


def test_a_state_is_read_as_the_guide_lays_it_out():
    state = unpack_state(STATE)
    assert state.timestamp == 10.5 and (state.inputs, state.session, state.taken) == (43, 42, 44)
    assert list(state.q) == [1.0, -math.pi / 2, math.pi / 2, -1.0, 0.5, 2.0]
    assert list(state.qd) == [0.1, 0.0, -0.1, 0.0, 0.0, 1.0]
    assert (state.robot_mode, state.status_bits, state.safety_bits, state.runtime_state) == (7, 3, 1, 2)
    assert state.speed_fraction == 0.5 and state.payload_kg == 1.5 and list(state.payload_m) == [0.0, 0.02, -0.05]
    with pytest.raises(struct.error):
        unpack_state(STATE[:-1])


def test_packages_are_those_of_the_guide():
    """Size with header, type, payload: the request for version 2 is 5 bytes of the type 86."""
    assert package("V", b"\0\2") == bytes([0, 5, 86, 0, 2])
    assert package("S") == bytes([0, 3, 83])
    assert pack_inputs(3, 42, 7, [1.0, -0.5, 0.0, 0.0, 0.0, 2.0]) == bytes.fromhex(
        "003c 55 03 0000002a 00000007 3ff0000000000000 bfe0000000000000" + 3 * "0000000000000000" + "4000000000000000"
    )


def test_joints_go_from_the_base_to_the_tool():
    """servoj of the script manual: base, shoulder, elbow, wrist1, wrist2 and wrist3."""
    words = [name.removesuffix("_joint").replace("_", "") for name in JOINTS]
    assert words == ["shoulderpan", "shoulderlift", "elbow", "wrist1", "wrist2", "wrist3"]


def test_the_program_arms_the_watchdog_before_it_says_that_it_runs():
    lines = [line.strip() for line in program(42, 1.2, (0.0, 0.01, 0.05)).splitlines()]
    registers = ", ".join(f"read_input_float_register({i})" for i in range(24, 30))
    assert lines == [
        "def phalanx():",
        "set_payload(1.2, [0.0, 0.01, 0.05])",
        'rtde_set_watchdog("input_int_register_24", 5.0, "stop")',
        "write_output_integer_register(24, 42)",
        "while read_input_integer_register(24) == 42:",
        "write_output_integer_register(25, read_input_integer_register(25))",
        f"servoj([{registers}], 0, 0, 0.002, 0.03, 300.0)",
        "end",
        f"stopj({BRAKE})",
        "end",
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"safety_bits": 0b10}, ""),  # reduced mode
        ({"safety_bits": 1 << 2 | 1 << 10}, "protective stop: look at why, then unlock it on the teach pendant"),
        ({"safety_bits": 1 << 3}, "recovery mode"),
        ({"safety_bits": 1 << 4 | 1 << 10}, "safeguard stop"),
        ({"safety_bits": 1 << 6 | 1 << 7 | 1 << 10, "robot_mode": 3}, "emergency stop"),
        ({"safety_bits": 1 << 8}, "safety violation"),
        ({"safety_bits": 1 << 9}, "safety fault"),
        ({"robot_mode": 3}, "power is off"),
        ({"robot_mode": 5}, "brakes are not released"),
        ({"robot_mode": 6}, "freedrive"),
        ({"robot_mode": 99}, "robot mode 99"),
        ({"status_bits": 0b111}, "freedrive button pressed"),
        ({"speed_fraction": 0.5}, "speed slider at 50 %"),
    ],
)
def test_what_hinders_it_is_said(changes, why):
    """Bits 0-10 of safety_status_bits and 0-3 of robot_status_bits, and robot modes, by the guide's tables."""
    assert hindrance(said(**changes)) == why


def test_a_setpoint_comes_to_its_target_within_speed_and_acceleration_and_never_beyond():
    rng, rate = np.random.default_rng(0), np.array([20.8, 17.9, 29.4, 46.5, 48.8, 48.8])
    for _ in range(5):
        q, velocity, target = np.zeros(6), np.zeros(6), rng.uniform(-3.0, 3.0, 6)
        for _ in range(1200):
            before = velocity
            q, velocity = next_setpoint(q, velocity, target, rate, np.pi, 8.0, CYCLE_S)
            assert np.abs(velocity).max() <= np.pi and np.abs(velocity - before).max() <= 8.0 * CYCLE_S + 1e-12
            assert (np.sign(target) * (q - target) < 1e-3).all(), "overshoots"
        np.testing.assert_allclose(q, target, atol=1e-6)
