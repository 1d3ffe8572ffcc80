"""What one robot measured and was commanded, from a bag or a table, on one clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from hardware.names import nearest, nearest_path
from hardware.rotation import rotate
from hardware.spec import RobotSpec
from sim.identification.rhythm import Rhythm, rhythm
from sim.identification.streams import Streams

LONGEST_S = 6 * 3600.0  # of a recording: a stamp that is wrong makes one of years
MOST_HZ = 100.0  # of the measurements that are compared
LONGEST_GAP_S = 0.03  # between measurements; longer ones are not bridged
SHORTEST_QUAT = 0.5  # a shorter one was not measured
BASE = ("pos_x", "pos_y", "pos_z", "quat_w", "quat_x", "quat_y", "quat_z")
BASE_VELOCITY = ("vel_x", "vel_y", "vel_z", "rate_x", "rate_y", "rate_z")


@dataclass(frozen=True)
class Recording:
    """T moments of one robot, `dt_s` apart, and the K commands that it was sent.

    A row is position m and quaternion wxyz (free bases only), joint positions, then linear velocity m/s in the world
    and angular velocity rad/s in the body (free bases only), joint velocities: as MuJoCo's qpos and qvel.
    """

    source: str
    time_s: np.ndarray  # (T,)
    rows: np.ndarray  # (T, R)
    measured: np.ndarray  # (T,) bool: not where measurements are missing
    command_s: np.ndarray  # (K,) when each command was sent
    command: np.ndarray  # (K, U) set-points in the channels' units
    unsure_s: np.ndarray  # (K,) by how much sooner each may have been sent
    rhythms: Mapping[str, Rhythm]  # of "measurements" and "commands"
    heard_late_s: np.ndarray  # (K,) after it was sent, or empty where that is not known
    notes: tuple[str, ...]  # what else is odd

    @property
    def dt_s(self) -> float:
        return float(self.time_s[1] - self.time_s[0])


def row_names(spec: RobotSpec) -> list[str]:
    """What a table calls the entries of a row; velocities of a base are in the body there."""
    free = not spec.fixed_base
    positions, velocities = ([f"{joint}.{what}" for joint in spec.joint_names] for what in ("pos", "vel"))
    return [*BASE * free, *positions, *BASE_VELOCITY * free, *velocities]


def read_recording(path: Path, spec: RobotSpec, name: str = "", step_s: float = 0.002) -> Recording:
    """The recording of the robot called `name` there, which need not be given where there is only one.

    `path` is a rosbag2, a ULog of PX4 (.ulg), or a table as .npz or .csv with columns `time_s`, those of `row_names`
    and the channels'. Its moments are a whole number of `step_s` apart. ValueError in one line for what cannot be read.
    """
    if not path.exists():
        raise ValueError(f"{path}: no such recording{nearest_path(path)}")
    for each in (path, *path.glob("*")):
        if not (each.is_file() or each.is_dir()):  # a pipe or a device may never end
            raise ValueError(f"{each}: is neither a file nor a folder")
    if path.suffix in (".npz", ".csv"):
        read = _read_table(path, spec)
    elif path.suffix == ".ulg":
        from sim.identification.ulog import read_ulog

        read = read_ulog(path, spec)
    else:
        from sim.identification.bag import read_bag

        read = read_bag(path, spec, name)
    if len(read.time_s) < 3 or not len(read.command_s):
        few = f"{len(read.time_s)} measurements and {len(read.command_s)} commands"
        raise ValueError(f"{path}: {few}: too few to fit anything")
    if not (np.isfinite(read.rows).all() and np.isfinite(read.command).all()):
        raise ValueError(f"{path}: holds measurements or commands that are not finite")
    if not spec.fixed_base and (lengths := np.linalg.norm(read.rows[:, 3:7], axis=1)).min() < SHORTEST_QUAT:
        at_s = read.time_s[lengths.argmin()]
        raise ValueError(f"{path}: at {at_s:g} s the quaternion wxyz has a length of {lengths.min():.3g}; wanted 1")
    return _resampled(f"{path}{f', {read.name}' if read.name else ''}", spec, read, step_s)


def _read_table(path: Path, spec: RobotSpec) -> Streams:
    """A command is one whenever a set-point changes."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as data:
                table: Mapping[str, np.ndarray] = dict(data)
        else:
            with path.open(encoding="utf-8-sig") as file:  # some programs begin a file with a byte order mark
                names = [name.strip() for name in file.readline().split(",")]
                if not (lines := file.readlines()):
                    raise ValueError("it has no rows")
                table = dict(zip(names, np.loadtxt(lines, delimiter=",", ndmin=2).T, strict=True))
    except (ValueError, OSError, EOFError, BadZipFile, MemoryError) as error:
        raise ValueError(f"{path}: cannot be read as a table: {error}") from error

    def columns(wanted: list[str]) -> np.ndarray:
        for each in wanted:
            if each not in table:
                raise ValueError(f"{path}: no column {each!r}{nearest(each, table)}")
            if (shape := np.shape(table[each])) != (rows := np.shape(table["time_s"])) or len(shape) != 1:
                raise ValueError(f"{path}: column {each!r} has shape {shape}, time_s {rows}; wanted (T,) of all")
        return np.stack([np.asarray(table[each], float) for each in wanted], axis=-1)

    time_s, rows, command = columns(["time_s"])[:, 0], columns(row_names(spec)), columns(list(spec.channel_names))
    if not (np.diff(time_s) > 0).all():
        raise ValueError(f"{path}: time_s does not increase")
    new = np.append(True, (np.diff(command, axis=0) != 0).any(1))
    rhythms = {"measurements": rhythm(time_s), "commands": rhythm(time_s[new])}
    return Streams(time_s, rows, time_s[new], command[new], np.zeros(new.sum()), rhythms)


def _resampled(source: str, spec: RobotSpec, read: Streams, step_s: float) -> Recording:
    """Moments evenly apart, between measurements linear; velocities of the base turned into the world."""
    time_s, rows = read.time_s, read.rows.copy()
    if not spec.fixed_base:
        quat, at = rows[:, 3:7], 7 + len(spec.joints)
        quat *= np.cumprod(np.append(1.0, np.where((quat[1:] * quat[:-1]).sum(1) < 0, -1.0, 1.0)))[:, None]
        rows[:, at : at + 3] = rotate(quat, rows[:, at : at + 3])
    begin = time_s[0]
    if not time_s[-1] - begin <= LONGEST_S:
        raise ValueError(f"{source}: from {begin:g} to {time_s[-1]:g} s: at most {LONGEST_S:g} s")
    every = max(1, round(max(float(np.median(np.diff(time_s))), 1.0 / MOST_HZ) / step_s))
    grid = np.arange(0.0, time_s[-1] - begin, every * step_s)
    new = np.stack([np.interp(grid, time_s - begin, column) for column in rows.T], axis=-1)
    if not spec.fixed_base:
        new[:, 3:7] /= np.linalg.norm(new[:, 3:7], axis=1, keepdims=True)
    after = np.clip(np.searchsorted(time_s - begin, grid), 1, len(time_s) - 1)
    gap = time_s[after] - time_s[after - 1]
    measured = gap < max(LONGEST_GAP_S, 2.5 * every * step_s)
    about = read.rhythms, read.heard_late_s, read.notes
    return Recording(source, grid, new, measured, read.command_s - begin, read.command, read.unsure_s, *about)
