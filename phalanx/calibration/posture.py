"""Joint zeros and IMU of a humanoid that is at rest with limp joints: what its sensors say, against what has to be so.

Drives that hold a pose hide a wrong zero: they turn the joint until it reads right. So the joints are limp, hung in a
gantry, and both sides alike. `hanging`: the pelvis is level, which shows the IMU's tilt. `standing`: the soles are flat
on level ground, side by side, and gravity is along their normals: that shows which leg's joint it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hardware.kinematics import load_chain
from hardware.rotation import rotate, rotate_inverse
from hardware.spec import RobotSpec
from hardware.types import RobotState
from phalanx.doctor.check import Check, Status

Pose = Literal["hanging", "standing"]
# Twice the standard deviation of the biases that policies for a G1 are trained with (sim/tasks/parts/humanoid.py).
TILT_RAD, GYRO_RAD_S, ZERO_RAD = 0.02, 0.04, 0.02
PAIR_RAD = 2**0.5 * ZERO_RAD  # of two joints, either of which may be off
STILL_RAD_S = 0.05  # of every joint
NOISE_RAD_S = 0.03  # of the gyro, standard deviation
RANGE_RAD = 0.02  # beyond the limit of a joint: its own zero is no better known
LEAST, LONGEST_S = 0.9, 0.05  # share of the sensor's rate; without a measurement
MIRRORED = ("roll", "yaw")  # joints that turn the other way on the other side
AXES, SIDES, LEG = ("roll", "pitch"), ("left", "right"), ("hip", "knee", "ankle")
CALIBRATE = "calibrate it by the vendor's app, and check again"


@dataclass(frozen=True)
class AtRest:
    """Means over the time of `listen`."""

    joint_pos: np.ndarray  # (J,) rad
    joint_speed: np.ndarray  # (J,) rad/s, root mean square
    up: np.ndarray  # (2,) rad: roll and pitch by the IMU
    gyro: np.ndarray  # (3,) rad/s
    gyro_noise: np.ndarray  # (3,) rad/s, standard deviation


def mean_of(states: Sequence[RobotState]) -> AtRest:
    """Of measurements at rest."""
    joint_vel, gyro = (np.array([getattr(each, name) for each in states]) for name in ("joint_vel", "base_ang_vel"))
    up_b = rotate_inverse(np.array([each.base_quat for each in states], float), np.array([0.0, 0.0, 1.0])).mean(axis=0)
    return AtRest(
        np.array([each.joint_pos for each in states], float).mean(axis=0),
        np.sqrt((joint_vel**2).mean(axis=0)),
        tilt(up_b),
        gyro.mean(axis=0),
        gyro.std(axis=0),
    )


def tilt(up_b: np.ndarray) -> np.ndarray:
    """Roll and pitch (2,) rad of a body in which `up_b` (3,) is upwards."""
    x, y, z = up_b
    return np.array([np.arctan2(y, z), np.arctan2(-x, np.hypot(y, z))])


def check_posture(
    spec: RobotSpec,
    pose: Pose,
    measured: Sequence[tuple[float, RobotState]],
    imu_rad: np.ndarray,
    listened_s: float = 0.0,
) -> list[Check]:
    """What was found, `measured` as of `UnitreeG1Driver.listen` for `listened_s`; ValueError where nothing was.

    `imu_rad` (2,): roll and pitch by which the IMU is known to be tilted.
    """
    if len(measured) < 2:
        raise ValueError(f"{len(measured)} measurements came")
    rest = mean_of([state for _, state in measured])
    times_s = np.array([time_s for time_s, _ in measured])
    rows = [*_link(times_s, listened_s, spec), *_imu(rest), *_joints(spec, rest), *_zeros(spec, pose, rest, imu_rad)]
    return [Check(pose, *row) for row in rows]


Row = tuple[str, Status, str, str]


def _row(name: str, bad: bool, found: str, hint: str, status: Status = "fail") -> Row:
    return name, status if bad else "ok", found, hint if bad else ""


def _link(times_s: np.ndarray, listened_s: float, spec: RobotSpec) -> Iterator[Row]:
    gaps_s, heard_s = np.diff(times_s), float(times_s[-1] - times_s[0])
    hz = len(gaps_s) / max(heard_s, listened_s)
    longest_s = max(float(gaps_s.max()), listened_s - heard_s)  # also silent until the end
    slow = hz < LEAST * spec.sensor_hz or longest_s > LONGEST_S
    found = f"{hz:.0f} Hz of {spec.sensor_hz:g}, {1e3 * longest_s:.0f} ms without one at most"
    yield _row("rate", slow, found, "a cable in place of radio; close other programs on this computer", "warn")


def _imu(rest: AtRest) -> Iterator[Row]:
    fastest = float(rest.joint_speed.max())
    yield _row("at rest", fastest > STILL_RAD_S, f"joints at {fastest:.3f} rad/s", "wait until nothing swings")
    x, y, z = rest.gyro
    found = f"{x:+.4f}, {y:+.4f}, {z:+.4f} rad/s, {GYRO_RAD_S:g} at most"
    yield _row("gyro bias", bool(np.abs(rest.gyro).max() > GYRO_RAD_S), found, "let it warm up for ten minutes at rest")
    noise = float(rest.gyro_noise.max())
    found = f"{noise:.4f} rad/s, {NOISE_RAD_S:g} at most"
    yield _row("gyro noise", noise > NOISE_RAD_S, found, "does it swing, or does a fan shake it?", "warn")


def _joints(spec: RobotSpec, rest: AtRest) -> Iterator[Row]:
    beyond = [
        f"{joint.name} at {pos:+.3f} of {joint.low:g} to {joint.high:g} rad"
        for joint, pos in zip(spec.joints, rest.joint_pos, strict=True)
        if not joint.low - RANGE_RAD <= pos <= joint.high + RANGE_RAD
    ]
    yield _row("range", bool(beyond), "; ".join(beyond) or f"{len(spec.joints)} joints within theirs", CALIBRATE)


def _zeros(spec: RobotSpec, pose: Pose, rest: AtRest, imu_rad: np.ndarray) -> Iterator[Row]:
    """The IMU's tilt, and pairs of joints that are unlike; standing, the soles say of legs which side it is."""
    pairs = {name: gap for name, gap in differences(spec, rest.joint_pos).items() if abs(gap) > PAIR_RAD}
    off = {side: rest.up - imu_rad - tilt(_normal(spec, f"{side}_foot", rest.joint_pos)) for side in SIDES}
    if pose == "hanging":
        yield _tilt_row(rest.up - imu_rad, "is the pelvis level?")
    else:
        both = np.abs(off["left"] - off["right"]) < ZERO_RAD
        yield _tilt_row(both * (off["left"] + off["right"]) / 2, "is the ground level?")
        for axis, name in enumerate(AXES):
            degrees = ", ".join(f"{side} {np.degrees(each[axis]):+.2f}" for side, each in off.items())
            bad = bool(not both[axis] and max(abs(each[axis]) for each in off.values()) > ZERO_RAD)
            yield _row(f"{name} of soles", bad, f"{degrees} degrees off the IMU", "are both flat? Else a joint's zero")
    for name, gap in pairs.items():
        legs = pose == "standing" and name.startswith(LEG) and "yaw" not in name
        wrong = [side for side in SIDES if abs(off[side][AXES.index("roll" if "roll" in name else "pitch")]) > ZERO_RAD]
        yield _zero(name, gap, wrong if legs else None)
    if not pairs:
        yield "zeros", "ok", f"left and right within {PAIR_RAD:.3f} rad", ""


def _tilt_row(off: np.ndarray, hint: str) -> Row:
    roll, pitch = np.degrees(off)
    found = f"roll {roll:+.2f}, pitch {pitch:+.2f} degrees off, {np.degrees(TILT_RAD):.1f} at most"
    return _row("IMU", bool(np.abs(off).max() > TILT_RAD), found, f"{hint} Else {CALIBRATE}")


def _zero(name: str, gap: float, wrong: Sequence[str] | None) -> Row:
    """Of joints that differ by `gap` rad; `wrong`: legs whose sole is off about their axis, None where none can say."""
    found = f"left reads {gap:+.3f} rad beyond right"
    if wrong == []:
        return _row(f"pose of {name}", True, found, "both soles are flat by it: put the feet side by side", "warn")
    if wrong is None or len(wrong) > 1:
        return _row(f"zero of {name}", True, found, f"one of both, where they are held alike; {CALIBRATE}")
    side = wrong[0]
    reads = gap if side == "left" else -gap * _sign(name)
    return _row(f"zero of {side}_{name}", True, f"reads {reads:+.3f} rad too much", CALIBRATE)


def differences(spec: RobotSpec, joint_pos: np.ndarray) -> dict[str, float]:
    """By name without its side, what the left joint of each pair reads beyond the mirrored right one, rad."""
    at = dict(zip(spec.joint_names, joint_pos.tolist(), strict=True))
    names = [name.removeprefix("left_") for name in at if name.startswith("left_")]
    return {name: at[f"left_{name}"] - _sign(name) * at[f"right_{name}"] for name in names}


def _sign(name: str) -> float:
    return -1.0 if any(word in name for word in MIRRORED) else 1.0


def _normal(spec: RobotSpec, foot: str, joint_pos: np.ndarray) -> np.ndarray:
    """(3,) of a sole, upwards, in the pelvis."""
    return np.asarray(rotate(load_chain(spec, foot).forward(joint_pos)[1], np.array([0.0, 0.0, 1.0])))
