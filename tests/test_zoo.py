"""The policies that ship can be flown today, by the robot that they are for, and keep their promises."""

from pathlib import Path

import pytest

from deploy.runtime import PolicyRuntime
from hardware import load_robot
from policies.verify import VerifyCfg, verify

ZOO = sorted((Path(__file__).parent.parent / "zoo").glob("*.onnx"))


def test_the_zoo_is_not_empty():
    assert ZOO


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_a_shipped_policy_is_verified(path):
    runtime = PolicyRuntime.load(path)
    PolicyRuntime.load(path, load_robot(runtime.contract.robot.name))
    task, role, team = runtime.contract.task, runtime.contract.role, runtime.contract.team.trained_with
    assert path.stem == (f"{task}-{role}" if role else task)
    files = [other for other in ZOO if other.stem.startswith(f"{task}-")] if role else path
    verdict = verify(files, VerifyCfg(num_worlds=32, teams=(team,)))
    assert verdict["verdict"] == "verified", verdict["failed"]


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_a_shipped_policy_says_nothing_of_the_machine_it_was_made_on(path):
    content = path.read_bytes()
    for trace in (b"/home/", b"/root/", b"/work/", b"/tmp/", b"site-packages"):
        assert trace not in content
