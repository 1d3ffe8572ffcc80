"""A drone's measurements and commands from a ULog, which PX4 writes of every flight.

Format: https://docs.px4.io/main/en/dev_log/ulog_file_format. What the vehicle is asked for is `vehicle_rates_setpoint`,
in every mode in which PX4 flies a multicopter: what goes to the motors is what its rate loop makes of that.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hardware.drivers.px4_messages import ThrustCurve, enu, flu, quat_enu
from hardware.rotation import rotate_inverse
from hardware.spec import RobotSpec
from sim.identification.rhythm import rhythm
from sim.identification.streams import Streams

TOPICS = {
    "vehicle_local_position": ("x", "y", "z", "vx", "vy", "vz"),  # m and m/s, north, east, down
    "vehicle_attitude": ("q[0]", "q[1]", "q[2]", "q[3]"),  # wxyz, of the body forward, right, down
    "vehicle_angular_velocity": ("xyz[0]", "xyz[1]", "xyz[2]"),  # rad/s, forward, right, down
    "vehicle_rates_setpoint": ("thrust_body[2]", "roll", "pitch", "yaw"),  # -1 to 0, rad/s forward, right, down
}
PARAMETERS = ("MPC_THR_HOVER", "THR_MDL_FAC")
GAINS = {"P": "proportional", "I": "integral", "D": "derivative"}  # of MC_ROLLRATE_P ...
Table = tuple[np.ndarray, np.ndarray]


def read_ulog(path: Path, spec: RobotSpec) -> Streams:
    """Rows are (T, 13), commands (K, 4) in N and rad/s.

    Measurements have the time of their sample; moments are those of the topic that was logged least often. Thrust is by
    PX4's parameters in N as the driver `px4` counts it: at `MPC_THR_HOVER` what the specification hovers at. ValueError
    for a log that cannot be read or lacks one of `TOPICS`, and for robots that do not fly by thrust and body rates.
    """
    if spec.flight is None or [channel.unit for channel in spec.channels] != ["N", "rad/s", "rad/s", "rad/s"]:
        raise ValueError(f"{path}: a ULog is of a drone that flies by thrust and body rates, not of {spec.name!r}")
    log = _read(path)
    place, attitude, rates, asked = (_table(log, path, topic, fields) for topic, fields in TOPICS.items())
    signs = np.where((attitude[1][1:] * attitude[1][:-1]).sum(1) < 0, -1.0, 1.0)
    attitude[1][1:] *= np.cumprod(signs)[:, None]  # q and -q are one: between two of a sign a line may be drawn
    parts = [place, attitude, rates]
    time_s = min(parts, key=lambda part: len(part[0]))[0]
    within = (time_s >= max(times[0] for times, _ in parts)) & (time_s <= min(times[-1] for times, _ in parts))
    time_s = time_s[within]
    moving, quat, turning = (np.stack([np.interp(time_s, t, c) for c in rows.T], axis=-1) for t, rows in parts)
    quat = _each(quat_enu, quat / np.linalg.norm(quat, axis=1, keepdims=True))
    velocity = rotate_inverse(quat, _each(enu, moving[:, 3:]))
    rows = np.concatenate([_each(enu, moving[:, :3]), quat, velocity, _each(flu, turning)], axis=1)
    curve = _curve(log, path, spec)
    thrust_n = [curve.thrust_n(max(0.0, -signal)) for signal in asked[1][:, 0]]
    commands = np.column_stack([thrust_n, _each(flu, asked[1][:, 1:])])
    rhythms = {"measurements": rhythm(time_s), "commands": rhythm(asked[0])}
    return Streams(time_s, rows, asked[0], commands, np.zeros(len(commands)), rhythms, notes=tuple(_notes(log, spec)))


def _read(path: Path) -> Any:
    try:
        from pyulog import ULog
    except ImportError as error:
        raise ValueError(f'{path}: {error}; a ULog is read by: pip install "phalanx[ulog]"') from error
    try:
        return ULog(str(path), list(TOPICS))
    except Exception as error:  # pyulog raises whatever its parser stumbles over
        raise ValueError(f"{path}: cannot be read as a ULog: {' '.join(str(error).split())}") from error


def _table(log: Any, path: Path, topic: str, fields: tuple[str, ...]) -> Table:
    """Times (N,) s and rows (N, F) of the first instance of a topic; a row with a NaN is none."""
    data: dict[str, np.ndarray] = next(
        (each.data for each in log.data_list if each.name == topic and each.multi_id == 0), {}
    )
    if lacks := [field for field in (*fields, "timestamp") if field not in data]:
        raise ValueError(f"{path}: has no {topic} with {lacks[0]!r}, as PX4 logs it since v1.12")
    sampled = data.get("timestamp_sample", data["timestamp"])  # 0 where it is not known
    stamps = np.where(sampled > 0, sampled, data["timestamp"])
    rows = np.stack([np.asarray(data[field], float) for field in fields], axis=-1)
    time_s, first = np.unique(1e-6 * stamps, return_index=True)
    good = np.isfinite(rows[first]).all(1)
    if good.sum() < 2:
        raise ValueError(f"{path}: {good.sum()} measurements of {topic}: too few to fit anything")
    return time_s[good], rows[first][good]


def _curve(log: Any, path: Path, spec: RobotSpec) -> ThrustCurve:
    assert spec.flight is not None
    numbers = {name: log.initial_parameters.get(name) for name in PARAMETERS}
    if lacks := [name for name, value in numbers.items() if value is None]:
        raise ValueError(f"{path}: does not say the parameter {lacks[0]}")
    hover, factor = map(float, numbers.values())
    if not 0.05 <= hover <= 0.95:
        raise ValueError(f"{path}: MPC_THR_HOVER is {hover:g}: expected 0.05 to 0.95")
    if not 0.0 <= factor <= 1.0:
        raise ValueError(f"{path}: THR_MDL_FAC is {factor:g}: expected 0 to 1")
    return ThrustCurve(hover, factor, spec.flight.hover_thrust_n, float(spec.command_low[0]))


def _notes(log: Any, spec: RobotSpec) -> Iterator[str]:
    """What PX4 was set to that a replay by the specification's rate loop does not know, and what is not in the log."""
    for _, name, value in log.changed_parameters:
        if name in PARAMETERS:
            yield f"{name} was set to {value:g} on the way: read as {log.initial_parameters[name]:g}, as at first"
    assert spec.flight is not None
    for axis, name in enumerate(("ROLL", "PITCH", "YAW")):
        factor = float(log.initial_parameters.get(f"MC_{name}RATE_K", 1.0))
        for letter, term in GAINS.items():
            given = log.initial_parameters.get(key := f"MC_{name}RATE_{letter}")
            if given is not None and spec.flight.rate_loop is not None:
                specified, found = getattr(spec.flight.rate_loop, term)[axis], factor * float(given)
                if abs(found - specified) > 1e-3 * max(specified, 1e-3):
                    yield f"{key} is {found:g}, specified {specified:g}: only one factor for all is fitted"
    if log.dropouts:
        lost_s = [1e-3 * each.duration for each in log.dropouts]
        yield f"{len(lost_s)} times it could not be written, for {sum(lost_s):.2f} s in all"


def _each(convert: Callable[[Any], np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Of (N, F) rows what `convert` makes of each."""
    return convert(tuple(rows.T)).T.astype(float)
