"""Messages of a Unitree G1 as bytes: names, signs and units, with no DDS. Layouts are those of CDR, little endian.

Types and their order: unitree_sdk2_python, unitree_sdk2py/idl/unitree_hg/msg/dds_ (commit 2d74535); joints and CRC:
unitree_sdk2, example/g1/low_level/g1_ankle_swing_example.cpp (commit 2032b01). SI units, quaternions wxyz.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from hardware.types import RobotState

MOTORS = 35  # places in a message; a G1 has 29 motors
_LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw")
_WAIST = ("waist_yaw", "waist_roll", "waist_pitch")
JOINTS = (  # by motor; with mode_pr 0 ankles and waist are moved by pitch and roll, not by their rods
    *(f"left_{name}_joint" for name in _LEG),
    *(f"right_{name}_joint" for name in _LEG),
    *(f"{name}_joint" for name in _WAIST),
    *(f"left_{name}_joint" for name in _ARM),
    *(f"right_{name}_joint" for name in _ARM),
)
# A LowCmd_ in C is 251 words of 32 bits: mode_pr and mode_machine, seven for each motor, four of reserve, the CRC.
WORDS, MODE, Q, KP, KD = 7, 0, 1, 4, 5
# A structure has no alignment of its own in CDR, unlike in C: the first motor begins right behind the IMU's last two
# bytes, as it does behind mode_machine in a command. A motor's `mode` is left out here, so that all of them are alike.
_MOTOR_STATE = {"q": ("<f4", 4), "dq": ("<f4", 8), "temperature": (("<i2", 2), 20), "error": ("<u4", 36)}
MOTOR_STATE = np.dtype({
    "names": list(_MOTOR_STATE),
    "formats": [kind for kind, _ in _MOTOR_STATE.values()],
    "offsets": [offset for _, offset in _MOTOR_STATE.values()],
    "itemsize": 56,
})  # fmt: skip
_LOW_STATE = {
    "mode_pr": ("u1", 8),
    "mode_machine": ("u1", 9),
    "tick": ("<u4", 12),
    "quaternion": (("<f4", 4), 16),  # wxyz, pelvis -> world
    "gyroscope": (("<f4", 3), 32),  # rad/s, pelvis
    "motors": ((MOTOR_STATE, MOTORS), 68),
    "remote": (("u1", 40), 2028),
    "crc": ("<u4", 2084),
}
LOW_STATE = np.dtype({
    "names": list(_LOW_STATE),
    "formats": [kind for kind, _ in _LOW_STATE.values()],
    "offsets": [offset for _, offset in _LOW_STATE.values()],
    "itemsize": 2088,
})  # fmt: skip
CHARGE_AT = 100  # of `soc`, per cent, in a BmsState_
ENABLED = 1
# Of all joints alike, N m s/rad, where they are only to resist: unitree_rl_gym, deploy_real, create_damping_cmd.
DAMPING = 8.0
# Keys of the remote: bits of its bytes 2 and 3; unitree_rl_gym, deploy/deploy_real/common/remote_controller.py.
KEYS = {"L1": 1 << 1, "L2": 1 << 5, "A": 1 << 8, "B": 1 << 9}
DAMPS = ("L2+B", "L1+A")  # what a G1's own controller damps it by; without that controller it is up to the driver
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def checksum(words: bytes) -> int:
    """CRC-32 of the published Crc32Core: polynomial 0x04C11DB7 over words of 32 bits, highest bit first, from all ones.

    That is CRC-32/MPEG-2 of the words in big-endian order, and zlib's CRC of the same bits mirrored.
    """
    mirrored = crc32(np.frombuffer(words, "<u4").byteswap().tobytes().translate(_MIRRORED)) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRRORED), "big")


def motors_of(joint_names: Sequence[str]) -> np.ndarray:
    """(J,) motor of each joint, by name; ValueError for one that a G1 does not have, or that is missing."""
    if wrong := sorted(set(JOINTS) ^ set(joint_names)):
        raise ValueError(f"{wrong[0]!r} is not a joint of both the specification and a G1 with 29 motors")
    return np.array([JOINTS.index(name) for name in joint_names])


def command_bytes(mode_machine: int, motors: np.ndarray, q: np.ndarray, kp: np.ndarray, kd: np.ndarray) -> bytes:
    """A LowCmd_ that wants motors[j] at `q` (J,) rad by `kp` N m/rad, and at rest by `kd` N m s/rad.

    A drive gives kp (q - its position) - kd (its speed). The checksum is that of the structure in C.
    """
    message = np.zeros(1 + MOTORS * WORDS + 4, "<u4")
    message[0] = mode_machine << 8
    words = message[1 : 1 + MOTORS * WORDS].reshape(MOTORS, WORDS)
    numbers = words.view("<f4")
    words[motors, MODE] = ENABLED
    numbers[motors, Q], numbers[motors, KP], numbers[motors, KD] = q, kp, kd
    in_c = message.tobytes()
    crc = checksum(in_c).to_bytes(4, "little")
    return b"".join((in_c[:2], in_c[4:5], b"\0", in_c[8:], crc))


def damping_bytes(mode_machine: int) -> bytes:
    """A LowCmd_ that resists every motion, and pulls nowhere."""
    zero = np.zeros(len(JOINTS))
    return command_bytes(mode_machine, np.arange(len(JOINTS)), zero, zero, zero + DAMPING)


def read_low_state(data: bytes) -> np.ndarray | None:
    """A LowState_ as a record of `LOW_STATE`; None where its length or its checksum is wrong, or it is not finite."""
    if len(data) < LOW_STATE.itemsize:
        return None
    found = np.frombuffer(data, LOW_STATE, 1)[0]
    # Its checksum is that of the structure in C, where the IMU ends, and each motor begins, at a multiple of four.
    in_c = b"".join((data[:70], b"\0\0", data[70:71], b"\0\0\0", data[72:2084]))
    if checksum(in_c) != found["crc"]:
        return None
    motors = found["motors"][: len(JOINTS)]
    measured = motors["q"], motors["dq"], found["quaternion"], found["gyroscope"]
    return found if all(np.isfinite(numbers).all() for numbers in measured) else None


def state_of(found: np.ndarray, motors: np.ndarray) -> RobotState:
    """What a record of `LOW_STATE` measures, joints by `motors_of`. Not measured, and zero: position and velocity."""
    return RobotState(
        joint_pos=found["motors"]["q"][motors],
        joint_vel=found["motors"]["dq"][motors],
        base_pos=np.zeros(3, np.float32),
        base_quat=found["quaternion"].copy(),
        base_lin_vel=np.zeros(3, np.float32),
        base_ang_vel=found["gyroscope"].copy(),
        age=np.float32(0.0),
    )


def damping_keys(found: np.ndarray) -> str:
    """Which of `DAMPS` a person presses on the remote; or empty."""
    pressed = int(found["remote"][2]) | int(found["remote"][3]) << 8
    return next((keys for keys in DAMPS if all(pressed & KEYS[key] for key in keys.split("+"))), "")
