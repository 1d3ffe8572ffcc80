"""The robot side beside a bare echo in the same run: delays, and the processor time that a robot takes."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from ros_nodes.mission.deploy import run_swap

DURATION_S = 14.0


def bench_ros(policy: Path, teams: tuple[int, ...], repeats: int, on_progress: Callable[[], None]) -> dict[str, Any]:
    """Fly the swap with teams of these sizes; medians over `repeats`. DeployError where a process fails."""
    rows: dict[str, list[dict[str, float]]] = {str(size): [] for size in teams}
    for seed in range(repeats):
        for size in teams:
            with tempfile.TemporaryDirectory() as folder:
                rows[str(size)].append(
                    _figures(run_swap(policy, Path(folder) / "out", size, DURATION_S, None, seed, echo=True))
                )
        on_progress()
    medians = {size: {key: median(row[key] for row in of) for key in of[0]} for size, of in rows.items()}
    return {"policy": str(policy), "teams": medians}


def _figures(result: dict[str, Any]) -> dict[str, float]:
    """Of one mission. Cores are those of a process divided by its robots."""
    command, echo = result["sensor_to_command_ms"], result["bare_echo_ms"]["before"]
    kinds = {"policy": 0.0, "shield": 0.0}
    for process, nodes in result["hosts"].items():
        kinds[nodes[0].rpartition("/")[2]] += result["cores"][process] / result["robots"]
    return {
        "mission_success": float(result["mission_success"]),
        "sensor_to_command_p50_ms": command["p50"],
        "sensor_to_command_p99_ms": command["p99"],
        "echo_p50_ms": echo["p50"],
        "echo_p99_ms": echo["p99"],
        "p50_of_echo": command["p50"] / echo["p50"],
        "p99_of_echo": command["p99"] / echo["p99"],
        "missed_cycles_share": result["missed_cycles"] / result["cycles"],
        **{f"{kind}_cores_a_robot": share for kind, share in kinds.items()},
        "simulator_cores": result["cores"]["simulated_robots"],
        "armed_after_s": result["armed_after_s"],
        "all_cores": sum(result["cores"].values()),
        "other_programs_cores": result["other_programs_cores"] or 0.0,
    }
