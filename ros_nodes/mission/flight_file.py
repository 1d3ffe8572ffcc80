"""The file that reports of a mission are drawn from."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from hardware import load_robot
from ros_nodes.mission.mission_metrics import FALLBACK, MODES, Recording
from ros_nodes.plans.mission import Mission


def save_flight(path: Path, recording: Recording) -> None:
    """One .npz with all that a report draws: truth at 50 Hz, modes, interventions, latencies, period errors, events.

    `limit_m` is 0 where the distance of bases means nothing; `goal` is empty where the mission has no places to go to.
    """
    mission = recording.mission
    specs = [load_robot(member.robot) for member in mission.team]
    hz, radius_m = max(spec.control_hz for spec in specs), max(spec.radius_m for spec in specs)
    t = np.arange(0.0, recording.time_s[-1], 1 / hz)
    at = np.searchsorted(recording.time_s, t)
    mode, push = np.zeros((len(t), len(mission.names)), int), np.zeros((len(t), len(mission.names)))
    for index, series in enumerate(recording.shields):
        row = np.clip(np.searchsorted(series["time_s"], t, side="right") - 1, 0, None)
        mode[:, index], push[:, index] = series["mode"][row], series["intervention"][row]
    np.savez_compressed(
        path,
        names=np.array(mission.names),
        t=t,
        pos=recording.pos[at].astype(np.float32),
        qpos=recording.qpos[np.clip(np.searchsorted(recording.truth.time_s, t), 0, len(recording.qpos) - 1)],
        goal=_goals(mission),
        limit_m=2 * radius_m if all(spec.flight for spec in specs) else 0.0,
        radius_m=radius_m,
        mode=mode,
        mode_names=np.array(MODES),
        intervention=np.nan_to_num(push).astype(np.float32),
        events=json.dumps(_events(recording)),
        latency_ms=recording.commands["sensor_to_command_ms"].astype(np.float32),
        period_error_us=np.concatenate([series["period_error_us"] for series in recording.policies]).astype(np.float32),
        control_period_ms=1e3 / hz,
    )


def _goals(mission: Mission) -> np.ndarray:
    """(N, 3) m, where robots were sent last; (0, 3) unless all were sent somewhere."""
    goals = [c["goal_pos"] for order in mission.orders[-1:] for c in order.commands.values() if "goal_pos" in c]
    return np.array(goals if len(goals) == len(mission.team) else []).reshape(-1, 3)


def _events(recording: Recording) -> list[dict[str, Any]]:
    """What happened when: t s, robot, kind, text."""
    mission = recording.mission
    events = [{"t": t, "robot": "", "kind": "goal", "text": "new goals"} for t in mission.legs_s]
    if recording.killed_s is not None:
        name = mission.names[mission.kill_robot]
        events.append({"t": recording.killed_s, "robot": name, "kind": "kill", "text": f"policy of {name} killed"})
    for name, series in zip(mission.names, recording.shields, strict=True):
        for row in np.flatnonzero(np.diff(series["mode"])) + 1:
            now = MODES[int(series["mode"][row])]
            if int(series["mode"][row]) in FALLBACK:
                kind = "landed" if now == "OFF" else "fallback"
                events.append(
                    {"t": float(series["time_s"][row]), "robot": name, "kind": kind, "text": f"{name}: {now}"}
                )
    return sorted(events, key=lambda event: event["t"])
