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
    assert path.stem == runtime.contract.task
    team = runtime.contract.team.trained_with
    verdict = verify(path, VerifyCfg(num_worlds=32, teams=(team,)))
    assert verdict["verdict"] == "verified", verdict["failed"]


@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_a_shipped_policy_says_nothing_of_the_machine_it_was_made_on(path):
    content = path.read_bytes()
    for trace in (b"/home/", b"/root/", b"/work/", b"/tmp/", b"site-packages"):
        assert trace not in content
