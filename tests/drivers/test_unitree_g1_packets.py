"""The bytes of a Unitree G1's messages, against Unitree's and Cyclone's own: layout, order, signs, units, checksum."""

import struct

import numpy as np
import pytest

pytest.importorskip("cyclonedds")
from hardware import load_robot
from hardware.drivers import unitree_g1_packets as packets

G1 = load_robot("g1")
# github.com/unitreerobotics/unitree_sdk2/blob/2032b01/example/g1/low_level/g1_ankle_swing_example.cpp#L72
MOTORS = {
    "left_hip_pitch_joint": 0, "left_knee_joint": 3, "left_ankle_pitch_joint": 4, "right_hip_pitch_joint": 6,
    "right_ankle_roll_joint": 11, "waist_yaw_joint": 12, "waist_roll_joint": 13, "waist_pitch_joint": 14,
    "left_elbow_joint": 18, "right_shoulder_pitch_joint": 22, "right_wrist_yaw_joint": 28,
}  # fmt: skip


def crc32_core(words: bytes) -> int:
    """Bit by bit, as .../g1_ankle_swing_example.cpp#L113 does."""
    crc = 0xFFFFFFFF
    for (word,) in struct.iter_unpack("<I", words):
        for bit in range(31, -1, -1):
            crc = (crc << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 if crc >> 31 else 0) ^ (0x04C11DB7 if word >> bit & 1 else 0)
    return crc


def test_the_checksum_is_the_published_one():
    words = np.random.default_rng(1).bytes(1000)
    assert packets.checksum(words) == crc32_core(words)
    assert packets.checksum(bytes(4)) == 0xC704DD7B  # CRC-32/MPEG-2 of four zeros


def command(**changes) -> bytes:
    given = {"mode_machine": 5, "motors": packets.motors_of(G1.joint_names), "q": np.arange(29) / 10}
    given |= {"kp": 100.0 + np.arange(29), "kd": 1.0 + np.arange(29)}
    return packets.command_bytes(**given | changes)


def test_a_command_is_laid_out_as_the_vendors_idl_says():
    """.../unitree_sdk2_python/blob/2d74535/unitree_sdk2py/idl/unitree_hg/msg/dds_/_LowCmd_.py, _MotorCmd_.py, CDR."""
    from cyclonedds.idl import IdlStruct

    from hardware.drivers.unitree_g1_dds import LowCmd_, MotorCmd_

    motors = [MotorCmd_(1, float(np.float32(i / 10)), 0.0, 0.0, 100.0 + i, 1.0 + i, 0) for i in range(29)]
    motors += [MotorCmd_(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)] * 6
    in_c = struct.pack("<2B2x", 0, 5) + b"".join(
        struct.pack("<B3x5fI", m.mode, m.q, m.dq, m.tau, m.kp, m.kd, m.reserve) for m in motors
    )
    in_c += bytes(16)
    assert len(in_c) + 4 == 1004  # "size 1004", .../unitree_sdk2_python/blob/3953a34/unitree_sdk2py/utils/crc.py#L23
    message = LowCmd_(0, 5, motors, [0] * 4, crc32_core(in_c))
    assert IdlStruct.serialize(message)[4:] == command()


def state_bytes(**changes) -> bytes:
    from cyclonedds.idl import IdlStruct

    from hardware.drivers.unitree_g1_dds import IMUState_, LowState_, MotorState_

    imu = IMUState_([0.5, 0.1, 0.2, 0.3], [0.4, -0.5, 0.6], [0.0, 0.0, 9.8], [0.0] * 3, 35)
    motors = [
        MotorState_(1, i / 8, -i / 4, 0.0, 0.0, [30 + i, 40], 48.0, [0] * 2, 1000 + i, [0] * 4) for i in range(35)
    ]
    remote = [0, 0, 0x20, 0x02, *[0] * 36]  # L2 and B
    message = LowState_([1, 0], 0, 5, 77, imu, motors, remote, [0] * 4, 0)
    data = IdlStruct.serialize(message)[4:]
    in_c = data[:70] + b"\0\0" + data[70:71] + b"\0\0\0" + data[72:-4]
    assert len(in_c) + 4 == 2092  # "size 2092", .../utils/crc.py#L25
    return data[:-4] + struct.pack("<I", crc32_core(in_c))


def test_a_state_is_read_with_the_vendors_order_signs_and_units():
    """wxyz, rad, rad/s: .../unitree_hg/msg/dds_/_LowState_.py, _IMUState_.py, _MotorState_.py; joints by name."""
    shuffled = list(np.random.default_rng(0).permutation(list(G1.joint_names)))
    found = packets.read_low_state(state_bytes())
    state = packets.state_of(found, packets.motors_of(shuffled))
    np.testing.assert_allclose(state.base_quat, [0.5, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(state.base_ang_vel, [0.4, -0.5, 0.6])
    for name, motor in MOTORS.items():
        assert (
            state.joint_pos[shuffled.index(name)] == motor / 8 and state.joint_vel[shuffled.index(name)] == -motor / 4
        )
        assert found["motors"]["error"][motor] == 1000 + motor
        assert found["motors"]["temperature"][motor].tolist() == [30 + motor, 40]
    assert found["mode_machine"] == 5 and found["mode_pr"] == 0 and packets.damping_keys(found) == "L2+B"
    damaged = bytearray(state_bytes())
    damaged[100] ^= 1
    assert packets.read_low_state(bytes(damaged)) is None


@pytest.mark.parametrize("at", [16, 32, 68 + 4 + 56 * 3, 68 + 8 + 56 * 28])  # attitude, rates, a position, a speed
def test_a_state_with_what_is_no_number_is_none(at):
    damaged = bytearray(state_bytes())
    damaged[at : at + 4] = struct.pack("<f", np.nan)
    in_c = bytes(damaged[:70] + b"\0\0" + damaged[70:71] + b"\0\0\0" + damaged[72:2084])
    damaged[2084:] = struct.pack("<I", crc32_core(in_c))
    assert packets.read_low_state(bytes(damaged)) is None


def test_a_command_goes_to_motors_by_the_names_of_joints():
    shuffled = list(np.random.default_rng(0).permutation(list(G1.joint_names)))
    numbers = np.arange(29.0)
    data = command(motors=packets.motors_of(shuffled), q=numbers, kp=numbers, kd=numbers)
    for name, motor in MOTORS.items():
        at = 4 + 28 * motor if motor else 4
        q, _, _, kp, kd = struct.unpack_from("<5f", data, at)
        assert q == kp == kd == shuffled.index(name), name
    with pytest.raises(ValueError, match="'tail_joint' is not a joint"):
        packets.motors_of([*G1.joint_names, "tail_joint"])
