"""The whole way, as a person runs it: short training, everything else real."""

import json
import subprocess
import sys

import pytest

from phalanx.commands.report import report

KEYS = {
    "": {"success", "gates", "failures", "train", "parity", "verify", "ros", "shield", "wall_s", "versions"},
    "train": {"wall_s", "env_steps", "steps_per_s", "return_curve"},
    "ros": {
        "robots",
        "control_hz",
        "mission_success",
        "min_separation_m",
        "sensor_to_command_ms",
        "period_error_us",
        "missed_cycles",
        "kill_to_fallback_ms",
        "landed_safely",
        "failures",
        "bare_echo_ms",
    },
    "shield": {"interventions", "violations"},
}
TEAM = {"success_rate", "collision_rate", "shielded_collision_rate", "min_separation_m"}


@pytest.mark.slow
@pytest.mark.ros
@pytest.mark.alone
@pytest.mark.timeout(400)
def test_the_quick_demo_passes_its_gates_and_leaves_what_it_promises(tmp_path):
    out = tmp_path / "demo"
    command = [sys.executable, "-m", "phalanx", "demo", "--quick", "--out", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380)
    assert (out / "result.json").exists(), done.stderr[-3000:]
    result = json.loads((out / "result.json").read_text())
    assert json.loads(done.stdout) == result
    for part, names in KEYS.items():
        assert names <= set(result[part] if part else result), part
    assert set(result["verify"]["teams"]) == {"2", "4", "8"}
    assert all(set(team) >= TEAM for team in result["verify"]["teams"].values())
    missed = {gate["name"] for gate in result["gates"] if not gate["passed"]}
    assert (done.returncode == 0) == result["success"] == (not missed)
    assert not missed, done.stderr[-3000:]  # what the machine alone makes late is a warning
    assert (out / "report.html").stat().st_size < 5_000_000
    assert any((out / "ros" / "bag").glob("*.mcap"))
    page = (out / "report.html").read_text()
    assert report(out) == 0 and (out / "report.html").read_text() == page
    inspected = subprocess.run(
        [sys.executable, "-m", "phalanx", "inspect", str(out / "policy.onnx")], capture_output=True
    )
    assert inspected.returncode == 0
