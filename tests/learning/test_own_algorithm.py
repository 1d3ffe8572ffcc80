"""An algorithm of the user's own: trained, resumed and exported by its name, and what is wrong with one is said."""

import json
import sys

import pytest
from command import assert_one_line_error, here
from places import ROOT
from small_run import train_cfg
from test_resume import same

from deploy.bundle import load_bundle
from hardware.plugins import registered
from policies.algorithms import load_algorithm
from policies.algorithms.ppo import PPO
from policies.checkpoint import load_checkpoint
from policies.training.train import train

RANK, HERE = "own_algorithm:RankPPO", ROOT / "examples"


@pytest.fixture(autouse=True)
def forgotten():
    """A module of one test is not imported in the next."""
    yield
    for name in ("own_algorithm", "mine"):
        sys.modules.pop(name, None)


def test_it_goes_on_to_the_same_last_bit(tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)

    def go(folder: str, steps: int, resume: bool = False):
        sizes = {"num_envs": 8, "num_agents": 2, "num_steps": 8, "lag": 0, "power": 2.0}
        train(train_cfg(algo=RANK, out=tmp_path / folder, total_steps=steps, resume=resume, **sizes))
        return load_checkpoint(tmp_path / folder)

    whole, halves = go("whole", 512), go("halves", 256)
    assert not same(whole["policies"], halves["policies"])
    assert same(whole["policies"], go("halves", 512, resume=True)["policies"])


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
def test_it_is_a_name_on_the_command_line_with_options_of_its_own(tmp_path):
    run = tmp_path / "run"
    small = ("--num-envs", "8", "--steps", "1000", "--task.episode-s", "1", "--no-film")
    done = here("train", "hover", "--algo", RANK, "--rank.power", "2", "--out", str(run), *small, cwd=HERE)
    assert done.returncode == 0, done.stderr
    record = json.loads((run / "run.json").read_text())
    assert record["algo"] == RANK and record["algorithm"]["crazyflie"]["power"] == 2.0
    assert record["algorithm"]["crazyflie"]["gamma"] == 0.98  # what the task sets for ppo
    assert load_bundle(run / "best.onnx").contract.task == "hover"
    assert here("train", "--resume", str(run), "--steps", "1200", cwd=HERE).returncode == 0
    assert json.loads((run / "run.json").read_text())["algorithm"]["crazyflie"]["power"] == 2.0
    sys.modules.pop("own_algorithm")
    assert_one_line_error(here("eval", str(run), cwd=tmp_path), f"algorithm '{RANK}': there is no module")
    assert here("eval", str(run / "best.onnx"), "--episodes", "4", cwd=tmp_path).returncode == 0
    helped = here("train", "hover", "--algo", RANK, "--help", cwd=HERE).stdout
    assert "--rank.power" in helped and "--rank.gamma" in helped


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_algorithm:RankPP", "'own_algorithm' has no 'RankPP'; did you mean 'RankPPO'"),
        ("own_algoritm:RankPPO", "there is no module 'own_algoritm' here or installed"),
        ("own_algorithm:Any", "algorithm 'own_algorithm:Any': is no `Algorithm`, it has no Cfg"),
        ("own_algorithm:RankPPOCfg", "is no `Algorithm`, it has no Cfg"),
    ],
)
def test_what_is_none_is_refused_in_one_line(name, said):
    assert_one_line_error(here("train", "hover", "--algo", name, cwd=HERE), said)


def test_one_whose_options_have_no_name_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("class Mine:\n    class Cfg: pass\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"algorithm 'mine:Mine': is no `Algorithm`, it has no Cfg.NAME"):
        load_algorithm("mine:Mine")


def test_what_an_installed_package_registers_has_a_name(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("from policies.algorithms.ppo import PPO\n")
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[phalanx.algorithms]\nmy-ppo = mine:PPO\n")
    monkeypatch.syspath_prepend(tmp_path)
    registered.cache_clear()
    try:
        assert load_algorithm("my-ppo") is PPO
        with pytest.raises(ValueError, match=r"unknown algorithm 'my-pp'; known: .*, my-ppo, or module:NAME; did you"):
            load_algorithm("my-pp")
    finally:
        registered.cache_clear()
