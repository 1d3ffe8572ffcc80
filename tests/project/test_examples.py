"""Every example runs as its first lines say."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from places import ROOT

from deploy.bundle import load_bundle
from deploy.runtime import PolicyRuntime
from hardware.types import Peers, RobotState
from policies.algorithms.algorithm import Group
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation
from sim.envs.team_env import TeamEnv

EXAMPLES = ROOT / "examples"
ZOO = sorted((EXAMPLES.parent / "zoo").glob("*.onnx"))
SWAP, HOVER = (EXAMPLES.parent / "zoo" / f"{name}.onnx" for name in ("swarm-swap", "hover"))
# PyPI's onnxruntime has the library and no headers; a release's archive and Debian's libonnxruntime-dev have them.
PLACES = (os.environ.get("ONNXRUNTIME_INCLUDE", ""), "/usr/include/onnxruntime", "/usr/local/include/onnxruntime")
HEADERS = [place for place in PLACES if place and (Path(place) / "onnxruntime_cxx_api.h").is_file()]


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", ZOO, ids=lambda path: path.stem)
def test_onnxruntime_and_numpy_alone_run_every_shipped_file(file, capsys):
    contract = load_bundle(file).contract
    target = load("consumer").main(str(file))
    assert target.shape == (1, len(contract.robot.channels)) and np.isfinite(target).all()
    assert contract.robot.channels[-1].name in capsys.readouterr().out


def test_the_consumer_gives_the_policy_what_the_runtime_does():
    consumer, runtime = load("consumer"), PolicyRuntime.load(SWAP)
    here, none, zero = consumer.HERE, np.zeros(0), np.zeros(3)
    state = RobotState(none, none, here, np.array([1.0, 0.0, 0.0, 0.0]), zero, zero, np.zeros(()))
    heard = len(consumer.HEARD)
    peers = Peers(consumer.HEARD, np.zeros((heard, 3)), np.zeros(heard), np.ones(heard, bool))
    command = {c.name: np.add(c.low, c.high) / 2 for c in runtime.contract.commands}
    for _ in range(10):
        step = runtime.step(state, peers, command)
    np.testing.assert_array_equal(consumer.main(str(SWAP))[0], step.requested.target)


@pytest.mark.skipif(not (shutil.which("g++") and HEADERS), reason="no g++, or no onnxruntime_cxx_api.h: see HEADERS")
def test_a_program_in_cpp_gets_the_same_commands(tmp_path, monkeypatch):
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*.*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (tmp_path / name).symlink_to(library)
    program, source = tmp_path / "consumer", EXAMPLES / "consumer.cpp"
    link = ["-L", str(tmp_path), "-lonnxruntime", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["g++", "-std=c++17", "-I", HEADERS[0], source, "-o", program, *link], check=True)
    python = load("consumer")
    monkeypatch.setattr(python, "HEARD", np.zeros((0, 3)))  # as in the program: no peer is near
    for file in (SWAP, HOVER):
        found = subprocess.run([program, file], check=True, capture_output=True, text=True).stdout
        np.testing.assert_allclose(np.fromstring(found, sep="\n"), python.main(str(file))[0], atol=2e-5)


def test_a_task_of_ones_own_trains_with_its_own_term(tmp_path):
    result = load("own_task").main(tmp_path, steps=2048, num_envs=8)
    assert result.finished and result.path.exists()


def test_an_algorithm_of_ones_own_is_moved_no_more_by_one_huge_reward():
    """By its name, on the command line: `tests/learning/test_own_algorithm.py`."""
    kind = load("own_algorithm").RankPPO
    seen, cfg = Observation.alone(torch.zeros(4, 3, 2)), kind.Cfg(num_steps=2, power=2.0, gamma=0.0)
    algorithm = kind({"robot": Group(seen, [True], NetworkCfg(), cfg)}, torch.Generator(), Workers(1))
    rewards = torch.tensor([*range(23), 23e6]).view(2, 4, 3)
    algorithm.rollouts["robot"].reward.copy_(rewards)
    found = algorithm.samples(algorithm.rollouts, {"robot": seen})["robot"].advantage
    rank = torch.linspace(-1.0, 1.0, 24)
    torch.testing.assert_close(found.flatten(), rank * rank.abs())


def test_a_policy_may_be_shown_what_its_shield_changed():
    """It is trained and exported in `tests/policy_files/test_correction.py`."""
    shown, usual = (
        TeamEnv(task, 1, 0).group.obs.policy for task in (load("shown_correction").SHOWN_SWAP, "swarm-swap")
    )
    assert shown.shape[-1] == usual.shape[-1] + 4


def test_no_example_is_left_out():
    tested = Path(__file__).read_text()
    assert all(f'load("{path.stem}")' in tested for path in EXAMPLES.glob("*.py"))
