"""From the time series that a mission left behind to its figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deploy.shield import ShieldParams
from deploy.shield.supervisor import Mode
from hardware.spec import RobotSpec
from ros_nodes.mission import Mission
from ros_nodes.series import read_series
from ros_nodes.truth import Truth, read_truth
from ros_nodes.verdict import Judge, failures, legs_done

MODES = tuple(mode.name for mode in Mode)
FALLBACK = tuple(MODES.index(name) for name in ("HOLD", "LAND", "DAMP", "OFF", "ESTOP") if name in MODES)
TOUCHDOWN_M_S = 1.0  # a landing faster than this is a crash
BEYOND = 0.01  # rad or m; a joint that is farther beyond its range broke the shield's promise
AT_REST = 0.1  # rad/s or m/s; slower than this nothing moves
REST_S = 0.5
Series = dict[str, np.ndarray]


@dataclass(frozen=True)
class Recording:
    """The series of one mission; times in s since its start, `killed_s` None when no policy was killed."""

    mission: Mission
    time_s: np.ndarray  # (T,)
    pos: np.ndarray  # (T, N, 3) m, world, the truth
    truth: Truth  # all of it, but less often
    qpos: np.ndarray  # (T', nq) coordinates of the simulator at the times of `truth`
    commands: Series
    policies: list[Series]
    shields: list[Series]
    killed_s: float | None


def load_recording(folder: Path, mission: Mission, start_ns: int, killed_ns: int | None) -> Recording:
    """Read what the nodes wrote to `folder`; the mission began at `start_ns` (ROS clock)."""

    def read(name: str, clock: str = "time_s") -> Series:
        series = read_series(folder / f"{name}.npy")
        series[clock] = series[clock] - start_ns * 1e-9
        keep = (series[clock] >= 0.0) & (series[clock] <= mission.duration_s)
        return {column: values[keep] for column, values in series.items()}

    truth, qpos = read("simulated_robots_truth"), read("simulated_robots_qpos")
    pos = np.stack([np.stack([truth[f"{name}_{axis}"] for axis in "xyz"], axis=-1) for name in mission.names], axis=1)
    return Recording(
        mission,
        truth["time_s"],
        pos,
        read_truth(read("simulated_robots_state"), mission),
        np.stack([values for name, values in qpos.items() if name != "time_s"], axis=-1),
        read("simulated_robots_commands"),
        [read(f"{name}_policy") for name in mission.names],
        [read(f"{name}_shield") for name in mission.names],
        None if killed_ns is None else (killed_ns - start_ns) * 1e-9,
    )


def figures(recording: Recording, spec: RobotSpec, params: Any, judge: Judge) -> dict[str, Any]:
    """The mission's result as plain JSON values; keys end in their unit. `params` are those of the robots' shields.

    `violations` counts how often a shield's promise was broken: drones in each other's ellipsoid, joints out of range.
    """
    mission, killed_s = recording.mission, recording.killed_s
    flies = isinstance(params, ShieldParams)
    violations = _violations(recording.pos, params) if flies else _joints_beyond(recording.truth, spec)
    latency = recording.commands["sensor_to_command_ms"]
    period_error = np.abs(np.concatenate([series["period_error_us"] for series in recording.policies]))
    filtered = [np.isin(series["mode"], [MODES.index("FILTERED")]) for series in recording.shields]
    verdict = judge(mission, recording.truth)
    legs = legs_done(mission, recording.truth, verdict, killed_s)
    failed = failures(mission, recording.truth, verdict, killed_s)
    least = _pair_distance(recording.pos).min() if flies and len(mission.names) > 1 else None
    clean = violations == 0 and not any(failed.values()) and _apart(least, 2 * spec.radius_m)
    result: dict[str, Any] = {
        "task": mission.task,
        "robot": mission.robot,
        "robots": len(mission.names),
        "control_hz": round(_rate_hz(recording), 2),
        "mission_success": bool(legs and all(legs) and clean),
        "legs": legs,
        "failures": failed,
        "min_separation_m": None if least is None else float(least),
        "sensor_to_command_ms": _percentiles(latency),
        "period_error_us": _percentiles(period_error),
        "missed_cycles": int(sum(series["skipped"].sum() for series in recording.policies)),
        "cycles": int(sum(len(series["skipped"]) for series in recording.policies)),
        "kill_to_fallback_ms": _kill_to_fallback_ms(recording),
        "landed_safely": _landed_safely(recording, params) if flies and killed_s is not None else None,
        "stopped_safely": _stopped_safely(recording) if not flies and killed_s is not None else None,
        "shield": {
            "interventions": int(sum(series.sum() for series in filtered)),
            "cycles": int(sum(len(series) for series in filtered)),
            "work_us": _percentiles(np.concatenate([series["work_us"] for series in recording.shields])),
            "violations": violations,
        },
        "policy_work_us": _percentiles(np.concatenate([series["work_us"] for series in recording.policies])),
    }
    return result


def _pair_distance(pos: np.ndarray, vertical_scale: float = 1.0) -> np.ndarray:
    """(T, pairs) distance of centres, m, z divided by `vertical_scale`."""
    first, second = np.triu_indices(pos.shape[1], 1)
    return np.linalg.norm((pos[:, first] - pos[:, second]) / np.array([1.0, 1.0, vertical_scale]), axis=-1)


def _violations(pos: np.ndarray, params: ShieldParams) -> int:
    """How often a pair entered the ellipsoid that the shield promises to keep free."""
    inside = _pair_distance(pos, params.downwash_ratio) < params.separation_m
    return int((inside[1:] & ~inside[:-1]).sum() + inside[:1].sum())


def _apart(least: float | None, limit_m: float) -> bool:
    return least is None or bool(least > limit_m)


def _rate_hz(recording: Recording) -> float:
    """The slowest robot's requests per second while its policy lived."""
    rates = []
    for series in recording.policies:
        t = series["time_s"]
        rates.append((len(t) - 1) / (t[-1] - t[0]) if len(t) > 1 else 0.0)
    return float(min(rates))


def _kill_to_fallback_ms(recording: Recording) -> float | None:
    """From the SIGKILL to the first fallback command; None when there was no kill or no fallback."""
    if recording.killed_s is None:
        return None
    shield = recording.shields[recording.mission.kill_robot]
    after = (shield["time_s"] > recording.killed_s) & np.isin(shield["mode"], FALLBACK)
    return float((shield["time_s"][after][0] - recording.killed_s) * 1e3) if after.any() else None


def _landed_safely(recording: Recording, params: ShieldParams) -> bool:
    """Whether the killed robot came down at a bearable speed, stays down, and its shield says so."""
    robot = recording.mission.kill_robot
    height = recording.pos[:, robot, 2] - params.ground_z_m
    down = height < params.landed_height_m
    if not down[-1] or recording.shields[robot]["mode"][-1] != MODES.index("OFF"):
        return False
    touch = int(np.argmax(down))
    before = max(0, touch - 25)
    speed = (height[before] - height[touch]) / max(recording.time_s[touch] - recording.time_s[before], 1e-3)
    return bool(speed < TOUCHDOWN_M_S)


def _joints_beyond(truth: Truth, spec: RobotSpec) -> int:
    """How often a joint left its range."""
    low, high = (np.array([getattr(joint, side) for joint in spec.joints]) for side in ("low", "high"))
    pos = truth.robots.joint_pos
    out = (pos < low - BEYOND) | (pos > high + BEYOND)
    return int((out[1:] & ~out[:-1]).sum() + out[:1].sum())


def _stopped_safely(recording: Recording) -> bool:
    """Whether the robot whose policy was killed ends in a fallback and at rest."""
    robot, truth = recording.mission.kill_robot, recording.truth
    late = truth.time_s > truth.time_s[-1] - REST_S
    speeds = np.concatenate([truth.robots.joint_vel, truth.robots.base_lin_vel], axis=-1)[late, robot]
    return bool(recording.shields[robot]["mode"][-1] in FALLBACK and np.abs(speeds).max() < AT_REST)


def _percentiles(values: np.ndarray) -> dict[str, float | None]:
    if not len(values):
        return {"p50": None, "p99": None, "max": None}
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "max": round(float(values.max()), 3)}
