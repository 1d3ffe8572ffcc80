"""How often `phalanx demo` passes all its gates, each time with another seed of training, starts and flight."""

import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ros import held_core
from benchmarks.turns import Progress, kept
from phalanx.options import OutFolder


def bench_demo(
    held: bool = False, out_dir: OutFolder = None, repeats: int = 5, *, on_progress: Progress
) -> dict[str, Any]:
    """How often `phalanx demo` passes all its gates, medians of its figures, and gates that were missed.

    Args:
        held: While another program holds a core and the system refuses niceness.
        out_dir: Folder that keeps what was found of each; what it holds is not run again.
        repeats: Runs, with seeds 0, 1, ...
    """
    with tempfile.TemporaryDirectory() as folder, held_core() if held else nullcontext():
        found = []
        for seed in range(repeats):
            run = partial(_run, Path(folder) / "demo", seed)
            found.append(kept((out_dir or Path(folder)) / f"{'held' if held else 'free'}_{seed}.json", run))
            on_progress(repeats)
    figures = [row["figures"] for row in found if "figures" in row]
    names = dict.fromkeys(name for row in figures for name in row)  # those that were kept may know fewer
    return {
        "held": held,
        "runs": repeats,
        "passed": sum(row["passed"] for row in found),
        "medians": {name: median(row[name] for row in figures if name in row) for name in names},
        "corrected_percent": {
            f"seed {k}": row["figures"].get("corrected_percent") for k, row in enumerate(found) if "figures" in row
        },
        "missed": {f"seed {seed}": row["missed"] for seed, row in enumerate(found) if row["missed"]},
        "warnings": {f"seed {seed}": row["warnings"] for seed, row in enumerate(found) if row["warnings"]},
    }


def _run(folder: Path, seed: int) -> dict[str, Any]:
    """One demo; KeyboardInterrupt where it was ended by a person, so that it is not kept."""
    command = [sys.executable, "-m", "phalanx", "demo", "--seed", str(seed), "--out", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if not done.stdout:
        return {"passed": False, "missed": done.stderr.strip().splitlines()[-1:], "warnings": []}
    result = json.loads(done.stdout)
    gates, flight = result["gates"], result["ros"]
    team = result["verify"]["teams"][str(flight["robots"])]
    return {
        "passed": result["success"] and not done.returncode,
        "missed": [f"{gate['name']}: {gate['value']}, wanted {gate['wanted']}" for gate in gates if not gate["passed"]],
        "failures": result["failures"],
        "warnings": [f"{gate['name']}: {gate['value']}, {gate['cause']}" for gate in gates if gate["warning"]],
        "figures": {
            "wall_s": result["wall_s"],
            "corrected_percent": 100 * team["intervention_rate"],  # of the steps of held-out starts
            "missed_cycles": flight["missed_cycles"],
            "cycles": flight["cycles"],
            "sensor_to_command_p50_ms": flight["sensor_to_command_ms"]["p50"],
            "sensor_to_command_p99_ms": flight["sensor_to_command_ms"]["p99"],
            "kill_to_fallback_ms": flight["kill_to_fallback_ms"],
            "armed_after_s": flight["armed_after_s"],
            "other_programs_cores": flight["other_programs_cores"],
        },
    }
