"""From the time series that a mission recorded to its metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from deploy.shield import JointShieldParams, Mode, ShieldParams
from hardware import load_robot
from hardware.spec import RobotSpec
from ros_nodes.lifecycle.series import read_whether_whole
from ros_nodes.messages.diagnostics import UNDER_POLICY, ShieldMode
from ros_nodes.mission.failures import Failure, Takeover, lost_robots, mission_failures, takeovers
from ros_nodes.mission.ground_truth import GroundTruth, read_ground_truth
from ros_nodes.mission.mission_success import Criterion, legs_done
from ros_nodes.plans.mission import SWAP, Mission

MODES = tuple(mode.name for mode in Mode)
FALLBACK = tuple(index for index, name in enumerate(MODES) if name not in UNDER_POLICY)
TOUCHDOWN_M_S = 1.0  # a landing faster than this is a crash
BEYOND = 0.01  # rad or m; a joint farther beyond its range than this is a violation
AT_REST = 0.1  # rad/s or m/s; slower than this nothing moves
REST_S = 0.5
CARRIED = 0.9  # a drone at rest whose rotors carry a smaller share of its weight than this stands on something
Series = dict[str, np.ndarray]


@dataclass(frozen=True)
class Recording:
    """The series of one mission; times in s since its start, `killed_s` None when no policy was killed."""

    mission: Mission
    time_s: np.ndarray  # (T,)
    pos: np.ndarray  # (T, N, 3) m, world, the truth
    truth: GroundTruth  # all of it, but less often
    qpos: np.ndarray  # (T', nq) coordinates of the simulator at the times of `truth`
    commands: Series
    policies: list[Series]
    shields: list[Series]
    takeovers: list[Takeover]
    killed_s: float | None
    cut: list[Failure]  # series that end before the mission, for the disk was full


def load_recording(
    folder: Path, mission: Mission, start_ns: int, killed_ns: int | None, changes: Mapping[str, Sequence[ShieldMode]]
) -> Recording:
    """Read what the nodes wrote to `folder`; the mission began at `start_ns` (robot time).

    `changes`: modes of each robot's shield, as the operator received them.
    """

    cut: list[Failure] = []

    def read(name: str, clock: str = "time_s") -> Series:
        series, whole = read_whether_whole(folder / f"{name}.npy")
        series[clock] = series[clock] - start_ns * 1e-9
        if not whole and (ends_s := float(max(series[clock], default=0.0))) < mission.duration_s:
            why = f"{folder.name}/{name}.npy ends here, for the disk was full: what came after is not known"
            cut.append({"robot": "", "t_s": round(ends_s, 3), "why": why})
        keep = (series[clock] >= 0.0) & (series[clock] <= mission.duration_s)
        return {column: values[keep] for column, values in series.items()}

    truth, qpos = read("simulated_robots_truth"), read("simulated_robots_qpos")
    pos = np.stack([np.stack([truth[f"{name}_{axis}"] for axis in "xyz"], axis=-1) for name in mission.names], axis=1)
    return Recording(
        mission,
        truth["time_s"],
        pos,
        read_ground_truth(read("simulated_robots_state"), mission),
        np.stack([values for name, values in qpos.items() if name != "time_s"], axis=-1),
        read("simulated_robots_commands"),
        [read(f"{name}_policy") for name in mission.names],
        [read(f"{name}_shield") for name in mission.names],
        takeovers(changes, start_ns),
        None if killed_ns is None else (killed_ns - start_ns) * 1e-9,
        cut,
    )


def mission_metrics(
    recording: Recording, shields: Sequence[ShieldParams | JointShieldParams], criterion: Criterion
) -> dict[str, Any]:
    """The mission's result as plain JSON values; keys end in their unit. `shields`: parameters of each robot's.

    `violations` counts drones that entered each other's safety ellipsoid, and joints that left their range.
    """
    mission, killed_s = recording.mission, recording.killed_s
    specs = [load_robot(member.robot) for member in mission.team]
    drones = {row: params for row, params in enumerate(shields) if isinstance(params, ShieldParams)}
    least = [float(_distance(recording.pos, pair).min()) for pair in combinations(drones, 2)]
    violations = _violations(recording, drones, specs)
    killed = drones.get(mission.kill_robot)
    latency = recording.commands["sensor_to_command_ms"]
    period_error = np.abs(np.concatenate([series["period_error_us"] for series in recording.policies]))
    filtered = [series["mode"] == MODES.index("FILTERED") for series in recording.shields]
    outcome = criterion(mission, recording.truth)
    legs = legs_done(mission, recording.truth, outcome, killed_s)
    causes = [*recording.cut, *lost_robots(mission, recording.takeovers, killed_s), *violations]
    failures = mission_failures(mission, recording.truth, outcome, killed_s, causes)
    return {
        "task": mission.task or SWAP,  # what is flown without a task of its own
        "robot": ", ".join(dict.fromkeys(member.robot for member in mission.team)),
        "robots": len(mission.team),
        "control_hz": round(_rate_hz(recording), 2),
        "mission_success": bool(legs) and not failures,
        "legs": legs,
        "failures": failures,
        "min_separation_m": min(least, default=None),
        "sensor_to_command_ms": _percentiles(latency),
        "period_error_us": _percentiles(period_error),
        "missed_cycles": int(sum(series["skipped"].sum() for series in recording.policies)),
        "cycles": int(sum(len(series["skipped"]) for series in recording.policies)),
        "kill_to_fallback_ms": _kill_to_fallback_ms(recording),
        "landed_safely": None if killed_s is None or killed is None else _landed_safely(recording, killed),
        "stopped_safely": None if killed_s is None or killed is not None else _stopped_safely(recording),
        "shield": {
            "interventions": int(sum(series.sum() for series in filtered)),
            "cycles": int(sum(len(series) for series in filtered)),
            "work_us": _percentiles(np.concatenate([series["work_us"] for series in recording.shields])),
            "violations": len(violations),
            "takeovers": [asdict(takeover) for takeover in recording.takeovers],
        },
        "policy_work_us": _percentiles(np.concatenate([series["work_us"] for series in recording.policies])),
    }


def _distance(pos: np.ndarray, pair: tuple[int, int], vertical_scale: float = 1.0) -> np.ndarray:
    """(T,) m between the centres of two robots, z divided by `vertical_scale`."""
    one, other = pair
    return np.linalg.norm((pos[:, one] - pos[:, other]) / np.array([1.0, 1.0, vertical_scale]), axis=-1)


def _violations(recording: Recording, drones: Mapping[int, ShieldParams], specs: Sequence[RobotSpec]) -> list[Failure]:
    """Each time that drones entered the ellipsoid which a shield keeps free, or touched, or a joint left its range."""
    names, found = recording.mission.names, []
    for a, b in combinations(drones, 2):
        distance = _distance(recording.pos, (a, b))
        close = distance <= specs[a].radius_m + specs[b].radius_m
        for params in {drones[a], drones[b]}:
            close |= _distance(recording.pos, (a, b), params.downwash_ratio) < params.separation_m
        why = f"drones too close, {distance.min():.2f} m at least"
        found += [(f"{names[a]}, {names[b]}", t_s, why) for t_s in recording.time_s[_begins(close)]]
    for name, state, spec in zip(names, recording.truth.robots, specs, strict=True):
        low, high = (np.array([getattr(joint, side) for joint in spec.joints]) for side in ("low", "high"))
        beyond = (state.joint_pos < low - BEYOND) | (state.joint_pos > high + BEYOND)
        found += [(name, t_s, "a joint out of its range") for t_s in recording.truth.time_s[_begins(beyond.any(-1))]]
    return [{"robot": robot, "t_s": round(float(t_s), 3), "why": why} for robot, t_s, why in found]


def _begins(happens: np.ndarray) -> np.ndarray:
    """(T,) bool, the first moments of what happens, (T,) bool."""
    return happens & ~np.concatenate([[False], happens[:-1]])


def _rate_hz(recording: Recording) -> float:
    """The slowest robot's requests per second while its policy lived."""
    rates = []
    for series in recording.policies:
        t = series["time_s"]
        rates.append((len(t) - 1) / (t[-1] - t[0]) if len(t) > 1 else 0.0)
    return float(min(rates))


def _kill_to_fallback_ms(recording: Recording) -> float | None:
    """From the SIGKILL to the first fallback command; None when there was no kill, no fallback, or one before."""
    if recording.killed_s is None:
        return None
    shield = recording.shields[recording.mission.kill_robot]
    time_s, falls_back = shield["time_s"], np.isin(shield["mode"], FALLBACK)
    if falls_back[time_s <= recording.killed_s][-1:].any():
        return None
    after = (time_s > recording.killed_s) & falls_back
    return float((time_s[after][0] - recording.killed_s) * 1e3) if after.any() else None


def _landed_safely(recording: Recording, params: ShieldParams) -> bool:
    """Whether the drone without a policy came down at a bearable speed and now rests, on the floor or on a thing."""
    robot, time_s = recording.mission.kill_robot, recording.time_s
    height = recording.pos[:, robot, 2]
    above = np.flatnonzero(height > height[-1] + params.landed_height_m)
    touch = min(int(above[-1]) + 1, len(height) - 1) if len(above) else 0
    before = max(0, touch - 25)
    speed = (height[before] - height[touch]) / max(time_s[touch] - time_s[before], 1e-3)
    spec = load_robot(recording.mission.team[robot].robot)
    assert spec.flight is not None
    thrust_n = recording.truth.target[robot][-1, spec.channel_names.index("thrust")]
    carried = thrust_n < CARRIED * spec.flight.hover_thrust_n
    return bool(_stopped_safely(recording) and carried and speed < TOUCHDOWN_M_S)


def _stopped_safely(recording: Recording) -> bool:
    """Whether the robot whose policy was killed ends in a fallback and at rest; one on legs stands, and balances."""
    robot, truth = recording.mission.kill_robot, recording.truth
    spec = load_robot(recording.mission.team[robot].robot)
    late, state, mode = (
        truth.time_s > truth.time_s[-1] - REST_S,
        truth.robots[robot],
        recording.shields[robot]["mode"][-1],
    )
    if spec.joints and not spec.fixed_base:
        return bool(mode == MODES.index("HOLD") and np.abs(state.base_lin_vel[late]).max() < AT_REST)
    speeds = np.concatenate([state.joint_vel, state.base_lin_vel], axis=-1)[late]
    return bool(mode in FALLBACK and np.abs(speeds).max() < AT_REST)


def _percentiles(values: np.ndarray) -> dict[str, float | None]:
    if not len(values):
        return {"p50": None, "p99": None, "max": None}
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "max": round(float(values.max()), 3)}
