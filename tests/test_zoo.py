"""The policies that ship can be flown today, by the robot that they are for, and keep their promises."""

import json
from pathlib import Path

import pytest

from deploy.bundle import load_bundle
from deploy.runtime import PolicyRuntime
from hardware import load_robot
from policies.evaluation.verify import VerifyCfg, verify
from sim.tasks import load_task

ZOO = sorted((Path(__file__).parent.parent / "zoo").glob("*.onnx"))
OF_TASK: dict[str, list[Path]] = {}
for shipped in ZOO:
    OF_TASK.setdefault(load_bundle(shipped).contract.task, []).append(shipped)


def test_the_zoo_is_not_empty():
    assert ZOO


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(OF_TASK))
def test_a_shipped_policy_is_verified(task):
    contracts = [load_bundle(path).contract for path in OF_TASK[task]]
    for path, contract in zip(OF_TASK[task], contracts, strict=True):
        PolicyRuntime.load(path, load_robot(contract.robot.name))
        assert path.stem == (f"{task}-{contract.group}" if contract.group else task)
    cfg = VerifyCfg(num_worlds=96, teams=(contracts[0].team.trained_with,))
    verdict = verify(OF_TASK[task], cfg)
    # So few episodes cannot show what the gate asks for: it is the upper end of their interval that has to reach it.
    # The lower end, which is what counts, is in zoo/TASK.json, over many more.
    by_chance = {f"shielded_success_{size}" for size in verdict["teams"]}
    assert not set(verdict["failed"]) - by_chance, verdict["failed"]
    least = {gate["name"]: gate["limit"] for gate in verdict["gates"] if gate["name"] in by_chance}
    for size, figures in verdict["teams"].items():
        assert figures["shielded_success_interval"][1] >= least[f"shielded_success_{size}"], figures


@pytest.mark.parametrize("record", sorted(ZOO[0].parent.glob("*.json")), ids=lambda path: path.stem)
def test_the_record_of_a_shipped_policy_is_of_these_files_and_says_what_they_are(record):
    measured = json.loads(record.read_text(encoding="utf-8"))
    files = [path for path in ZOO if path.stem == record.stem or load_bundle(path).contract.task == record.stem]
    of_files = list(measured["files"].values()) if "files" in measured else [measured]
    assert {part["fingerprint"] for part in of_files} == {load_bundle(path).fingerprint for path in files}
    assert measured["episodes"] >= 256
    least = load_task(measured["task"]).min_success
    trained = str(load_bundle(files[0]).contract.team.trained_with)
    (gate,) = (gate for gate in measured["gates"] if gate["name"] == f"shielded_success_{trained}")
    assert gate["limit"] == least, "the task asks for something else now: verify anew"
    assert gate["value"] == measured["teams"][trained]["shielded_success_interval"][0]
    # One that misses its gate may ship, but nobody is to read that it is verified.
    readme = (record.parent / "README.md").read_text(encoding="utf-8")
    (row,) = (
        line
        for line in readme.splitlines()
        if line.startswith(f"| `{files[0].name}`") or f", `{files[0].name}`" in line
    )
    assert measured["verdict"] == ("refused" if "**refused**" in row else "verified")
    assert set(measured["failed"]) <= {gate["name"]}


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_a_shipped_policy_says_nothing_of_the_machine_it_was_made_on(path):
    content = path.read_bytes()
    for trace in (b"/home/", b"/root/", b"/work/", b"/tmp/", b"site-packages"):
        assert trace not in content
