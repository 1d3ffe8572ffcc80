"""A ULog as PX4 writes it, of a flight that is a table: https://docs.px4.io/main/en/dev_log/ulog_file_format."""

import struct
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

COMMANDS = "vehicle_rates_setpoint"
TOPICS = {
    "vehicle_local_position": ("x", "y", "z", "vx", "vy", "vz"),
    "vehicle_attitude": ("q",),
    "vehicle_angular_velocity": ("xyz",),
    COMMANDS: ("roll", "pitch", "yaw", "thrust_body"),
}
ARRAYS = {"q": 4, "xyz": 3, "thrust_body": 3}
STARTED_US = 3_000_000
TOLD_US = 400  # from when something was measured to when its message says so
NED_OF_ENU, FRD_OF_FLU = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]]), np.diag([1, -1, -1])


def write_ulog(path: Path, rows: dict[str, tuple[np.ndarray, np.ndarray]], parameters: dict[str, float]) -> None:
    """Each topic of `rows` with its times (N,) s, from the start of the vehicle, and rows (N, F) of floats."""
    parts = [b"\x55\x4c\x6f\x67\x01\x12\x35\x01" + struct.pack("<Q", STARTED_US), _message(b"B", bytes(40))]
    for topic, fields in TOPICS.items():
        floats = "".join(f"float{f'[{ARRAYS[field]}]' if field in ARRAYS else ''} {field};" for field in fields)
        sampled = "uint64_t timestamp_sample;" * (topic != COMMANDS)
        parts.append(_message(b"F", f"{topic}:uint64_t timestamp;{sampled}{floats}".encode()))
    for name, value in parameters.items():
        key = f"float {name}".encode()
        parts.append(_message(b"P", bytes([len(key)]) + key + struct.pack("<f", value)))
    parts += [_message(b"A", struct.pack("<BH", 0, number) + topic.encode()) for number, topic in enumerate(rows)]
    said = [
        (_us(time_s), struct.pack("<HQ", number, _us(time_s) + told_us) + _us_bytes(time_s, told_us) + floats.tobytes())
        for number, (topic, (times, table)) in enumerate(rows.items())
        for told_us in [TOLD_US * (topic != COMMANDS)]
        for time_s, floats in zip(times, np.asarray(table, "<f4"), strict=True)
    ]
    path.write_bytes(b"".join([*parts, *(_message(b"D", data) for _, data in sorted(said, key=lambda each: each[0]))]))


def _us_bytes(time_s: float, told_us: int) -> bytes:
    """When it was measured, of what is."""
    return struct.pack("<Q", _us(time_s)) if told_us else b""


def _us(time_s: float) -> int:
    return round(1e6 * time_s) + STARTED_US


def _message(kind: bytes, data: bytes) -> bytes:
    return struct.pack("<H", len(data)) + kind + data


def logged(flight: dict[str, np.ndarray], hover_n: float, hover: float) -> dict:
    """The topics of `write_ulog` from a table as `recorded.record` makes it.

    Thrust is the square root of its share of `hover_n`, N, at which PX4 has `hover`.
    """
    time_s, column = flight["time_s"], lambda *names: np.stack([flight[name] for name in names], axis=-1)
    turn = Rotation.from_quat(column("quat_x", "quat_y", "quat_z", "quat_w"))
    speed = turn.apply(column("vel_x", "vel_y", "vel_z")) @ NED_OF_ENU.T
    ned = Rotation.from_matrix(NED_OF_ENU @ turn.as_matrix() @ FRD_OF_FLU)
    thrust = -hover * np.sqrt(flight["thrust"] / hover_n)[:, None]
    asked = column("roll_rate", "pitch_rate", "yaw_rate") @ FRD_OF_FLU
    tables = {
        "vehicle_local_position": np.hstack([column("pos_x", "pos_y", "pos_z") @ NED_OF_ENU.T, speed]),
        "vehicle_attitude": np.roll(ned.as_quat(), 1, axis=1),
        "vehicle_angular_velocity": column("rate_x", "rate_y", "rate_z") @ FRD_OF_FLU,
        COMMANDS: np.hstack([asked, 0 * thrust, 0 * thrust, thrust]),
    }
    return {topic: (time_s, table) for topic, table in tables.items()}
