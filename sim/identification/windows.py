"""Short windows of a recording, each replayed from its own start, so that errors do not grow."""

from dataclasses import dataclass, replace

import numpy as np

from hardware.rotation import multiply
from hardware.spec import RobotSpec
from sim.identification.recording import Recording
from sim.identification.rhythm import SURE_S

FRESH_S = 0.2  # a command older than this is none: a watchdog may have taken over
BEGUN_S = 0.1  # longer than a delay
CLEAR_M = 0.15  # of where a drone stands: the floor bears it, and is in the way of its air


@dataclass(frozen=True)
class Windows:
    """B windows of M + 1 moments each, `substeps` physics steps of `step_s` apart; rows as those of a Recording."""

    begin_s: np.ndarray  # (B,) on the recording's clock
    rows: np.ndarray  # (B, M + 1, R) measured
    before: np.ndarray  # (B, H + 1, R) measured in the time before each window, the last one its first
    substeps: int
    step_s: float
    command_s: np.ndarray  # (K,)
    command: np.ndarray  # (K, U)

    @property
    def steps(self) -> int:
        """Physics steps in a window."""
        return (self.rows.shape[1] - 1) * self.substeps

    @property
    def steps_before(self) -> int:
        """Physics steps in the time before it."""
        return (self.before.shape[1] - 1) * self.substeps

    def pick(self, which: np.ndarray) -> "Windows":
        """Those windows of which `which` (B,) is true, or the given ones."""
        return replace(self, begin_s=self.begin_s[which], rows=self.rows[which], before=self.before[which])

    def set_points(self, delay_s: float, first: int, steps: int) -> np.ndarray:
        """(B, steps, U) what drives are given on average in each physics step, `first` after the window's begin.

        Commands hold until the next one, and act `delay_s` after they were sent.
        """
        edges, last = self._edges(delay_s, first, steps)
        spans = np.append(np.diff(self.command_s), 0.0)
        area = np.vstack([np.zeros(self.command.shape[1]), np.cumsum(spans[:, None] * self.command, axis=0)])[:-1]
        held = area[last] + (edges - self.command_s[last])[..., None] * self.command[last]
        return np.diff(held, axis=1) / self.step_s

    def old_and_new(self, delay_s: float, first: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(B, steps, U) set-points at the begin and at the end of steps, and the latter's share of them (B, steps)."""
        edges, last = self._edges(delay_s, first, steps)
        share = ((edges - self.command_s[last])[:, 1:] / self.step_s).clip(0.0, 1.0)
        found = self.command[last]
        return found[:, :-1], found[:, 1:], share

    def _edges(self, delay_s: float, first: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """(B, steps + 1) when the physics steps begin and end, as a command's time, and the newest command then."""
        edges = self.begin_s[:, None] - delay_s + self.step_s * (first + np.arange(steps + 1))
        last = np.searchsorted(self.command_s, edges, side="right") - 1
        return edges, np.clip(last, 0, len(self.command_s) - 1)


def make_windows(
    recording: Recording, spec: RobotSpec, length_s: float, before_s: float, step_s: float, most: int
) -> Windows:
    """Windows side by side, of which at most `most` evenly over the recording, wherever the robot was under command.

    None around a gap between measurements, nor around a command of which it is not known when it was sent. ValueError
    where there are too few for a fit and for a part to be held out.
    """
    dt = recording.dt_s
    moments, lead = max(2, round(length_s / dt)), round(before_s / dt)
    good = recording.measured & _commanded(recording) & ~_doubtful(recording)
    if spec.flight is not None:
        good &= recording.rows[:, 2] > spec.home_height_m + CLEAR_M
    starts = [i for i in range(lead, len(good) - moments, moments) if good[i - lead : i + moments + 1].all()]
    if len(starts) < 8:
        above = f", more than {CLEAR_M:g} m above where it stands" if spec.flight is not None else ""
        raise ValueError(
            f"{recording.source}: {len(starts)} windows of {length_s:g} s in which it was measured and commanded{above}"
            f"; at least 8 are needed{_why_few(recording)}"
        )
    if len(starts) > most:
        starts = [starts[i] for i in np.linspace(0, len(starts) - 1, most).round().astype(int)]
    at = np.array(starts)
    return Windows(
        recording.time_s[at],
        recording.rows[at[:, None] + np.arange(moments + 1)],
        recording.rows[at[:, None] + np.arange(-lead, 1)],
        round(dt / step_s),
        step_s,
        recording.command_s,
        recording.command,
    )


def _commanded(recording: Recording) -> np.ndarray:
    """(T,) whether the newest command is a fresh one, and one that others came before: it may act late."""
    last = np.searchsorted(recording.command_s, recording.time_s, side="right") - 1
    begun = recording.time_s - recording.command_s[0] > BEGUN_S
    return begun & (recording.time_s - recording.command_s[np.maximum(last, 0)] < FRESH_S)


def _doubtful(recording: Recording) -> np.ndarray:
    """(T,) whether a command acted then that may have come up to more than `SURE_S` sooner than it was heard."""
    found, dt = np.zeros(len(recording.time_s), bool), recording.dt_s
    for number in np.flatnonzero(recording.unsure_s > SURE_S):
        last = recording.command_s[number]
        found |= (recording.time_s > last - recording.unsure_s[number] - dt) & (recording.time_s < last + dt)
    return found


def _why_few(recording: Recording) -> str:
    """What share of a recording its machine spoilt, if it did."""
    late, missing = (recording.unsure_s > SURE_S).mean(), 1.0 - recording.measured.mean()
    if max(late, missing) < 0.02:
        return ""
    return (
        f"; {late:.0%} of its commands were recorded late and {missing:.0%} of its measurements are missing: "
        "record it again on a machine with less to do"
    )


def row_errors(spec: RobotSpec, rows: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """(..., D) `rows` less what was `measured`, (..., R) both: attitudes as rotation vectors, body, rad."""
    if spec.fixed_base:
        return rows - measured
    inverse = measured[..., 3:7] * np.array([1.0, -1.0, -1.0, -1.0])
    turn = multiply(inverse, rows[..., 3:7])
    turn = 2.0 * np.where(turn[..., :1] < 0, -1.0, 1.0) * turn[..., 1:]
    return np.concatenate([rows[..., :3] - measured[..., :3], turn, rows[..., 7:] - measured[..., 7:]], axis=-1)


def moved(spec: RobotSpec, rows: np.ndarray, change: np.ndarray) -> np.ndarray:
    """`rows` (..., R) moved by small changes (..., D): the inverse of `row_errors`."""
    if spec.fixed_base:
        return rows + change
    turn = np.concatenate([np.ones_like(change[..., :1]), 0.5 * change[..., 3:6]], axis=-1)
    rows, turn = np.broadcast_arrays(rows, np.zeros((*change.shape[:-1], rows.shape[-1])))[0], turn
    quat = multiply(rows[..., 3:7], turn)
    quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
    return np.concatenate([rows[..., :3] + change[..., :3], quat, rows[..., 7:] + change[..., 6:]], axis=-1)


def error_names(spec: RobotSpec) -> list[tuple[str, str]]:
    """(name, unit) of each of the D errors."""
    free = not spec.fixed_base
    base = [(f"position {axis}", "m") for axis in "xyz"] + [(f"attitude {axis}", "rad") for axis in "xyz"]
    velocity = [(f"velocity {axis}", "m/s") for axis in "xyz"] + [(f"rate {axis}", "rad/s") for axis in "xyz"]
    slides = {c.name for c in spec.channels if c.unit == "m"}
    units = ["m" if joint in slides else "rad" for joint in spec.joint_names]
    positions = [(f"{joint} position", unit) for joint, unit in zip(spec.joint_names, units, strict=True)]
    velocities = [(f"{joint} velocity", f"{unit}/s") for joint, unit in zip(spec.joint_names, units, strict=True)]
    return [*base * free, *positions, *velocity * free, *velocities]
