"""An algorithm of the user's own: trained, resumed and exported by its name, and what is wrong with one is said."""

import json
import sys
from dataclasses import replace

import pytest
from command import assert_one_line_error, here
from places import ROOT
from small_run import train_cfg
from test_resume import same

from deploy.bundle import load_bundle
from hardware.plugins import registered
from policies.algorithms import load_algorithm
from policies.algorithms.ppo import PPO
from policies.checkpoint import CheckpointError, load_checkpoint
from policies.training.progress import read_progress
from policies.training.train import train
from sim.tasks import load_task

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
        ("own_algorithm:Any", "algorithm 'own_algorithm:Any': is no `Algorithm`: it has no Cfg"),
        ("own_algorithm:RankPPOCfg", "is no `Algorithm`: it has no Cfg"),
    ],
)
def test_what_is_none_is_refused_in_one_line(name, said):
    assert_one_line_error(here("train", "hover", "--algo", name, cwd=HERE), said)


MINE = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import torch
from policies.algorithms.ppo import PPO, PPOCfg
from policies.networks.policy import GaussianPolicy
from policies.threads import Workers

class Loose(PPO):
    class Cfg: pass

class Wide(PPO):
    @dataclass(frozen=True)
    class Cfg(PPOCfg):
        NAME: ClassVar[str] = "wide"
        hidden: int = 7

class Taken(PPO):
    @dataclass(frozen=True)
    class Cfg:
        NAME: ClassVar[str] = "sac"

class Task(PPO):
    @dataclass(frozen=True)
    class Cfg(PPOCfg):
        NAME: ClassVar[str] = "task"

class Said(PPO):
    def update(self, last, clock):
        return {"n": torch.tensor(1.5), "yes": True, **super().update(last, clock)}

class Words(PPO):
    def update(self, last, clock):
        return {"n": "many"}

class Column(PPO):
    def update(self, last, clock):
        return {"wall_s": 1.0}

class Fails(PPO):
    def update(self, last, clock):
        one, two = 1, 2, 3

class Apart(PPO):
    def __init__(self, groups, generator, workers):
        super().__init__(groups, generator, Workers(1))

class Array(PPO):
    def state_dict(self):
        return {**super().state_dict(), "seen": {"mean": np.zeros(3)}}

class Other(GaussianPolicy):
    pass

class Unlike(PPO):
    def __init__(self, *args):
        super().__init__(*args)
        self.policies = {name: Other(**group.policy) for name, group in self.groups.items()}

class Sizes(PPO):
    @dataclass(frozen=True)
    class Cfg(PPOCfg):
        NAME: ClassVar[str] = "sizes"
        each: tuple[int, ...] = (1,)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Loose", "its Cfg is no frozen dataclass"),
        ("Wide", "Cfg.hidden: the network has an option of that name"),
        ("Taken", "Cfg.NAME is 'sac', which is taken"),
        ("Task", "Cfg.NAME is 'task', which is taken"),
        ("Other", "it has no Cfg"),
        ("MINE", "it is a str, wanted a class"),
    ],
)
@pytest.mark.usefixtures("mine")
def test_what_a_class_lacks_is_said_before_it_learns(mine, name, said):
    (mine / "mine.py").write_text(MINE + "\nMINE = 'PPO'\n")
    with pytest.raises(ValueError, match=f"algorithm 'mine:{name}': is no `Algorithm`: {said}"):
        load_algorithm(f"mine:{name}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Words", "algorithm 'mine:Words': update returned n = 'many', wanted a number"),
        ("Fails", r"algorithm 'mine:Fails': .*mine.py:\d+: ValueError: too many values to unpack"),
        ("Column", "algorithm 'mine:Column': update returned 'wall_s': that is no name for a number of its own"),
        ("Array", "algorithm.seen.mean is a ndarray; wanted tensors, numbers and strings"),
        ("Unlike", "algorithm 'mine:Unlike': Policy is GaussianPolicy, and the policy of 'crazyflie' is a Other"),
    ],
)
def test_what_goes_wrong_in_one_is_one_line(mine, name, said):
    with pytest.raises(ValueError, match=said):
        train(train_cfg(task="hover", algo=f"mine:{name}", out=mine / "run", total_steps=64, num_envs=8, num_steps=8))


@pytest.mark.usefixtures("mine")
def test_what_it_logs_and_lists_of_its_hyperparameters_survive_a_resume(tmp_path):
    run, small = str(tmp_path / "run"), ("--num-envs", "8", "--no-onnx")
    for name, more in (("Said", ()), ("Sizes", ("--sizes.each", "8", "8"))):
        options = ("--algo", f"mine:{name}", "--out", run + name, *more)
        assert here("train", "hover", "--steps", "64", *options, *small).returncode == 0
        done = here("train", "--resume", run + name, "--steps", "256")
        assert done.returncode == 0, done.stderr
        assert "has changed" not in done.stderr
    assert read_progress(tmp_path / "runSaid")[-1]["n"] == 1.5


def test_that_its_module_has_changed_is_said_when_a_run_goes_on(mine):
    more = ("--num-envs", "8", "--no-onnx")
    assert here("train", "hover", "--algo", "mine:Sizes", "--steps", "64", "--out", "run", *more).returncode == 0
    (mine / "mine.py").write_text(MINE + "\nEPSILON = 1e-6\n")
    done = here("train", "--resume", "run", "--steps", "256")
    assert done.returncode == 0
    assert "algorithm mine:Sizes: its module has changed since this run began" in done.stderr


def test_what_one_that_was_changed_cannot_take_is_said(mine):
    """It counts its updates now, and finds none in what it kept before."""
    small = dict(task="hover", algo="mine:Counts", num_envs=8, num_steps=8, onnx=False)
    counts = {
        "load_state_dict": 'self.count = state["count"]; super().load_state_dict(state)',
        "start_from": 'self.count = 0 if state is None else state["count"]; super().start_from(state)',
    }
    before, after = "\nclass Counts(PPO): pass\n", "\nclass Counts(PPO):\n"
    after += "".join(f"    def {name}(self, state): {does}\n" for name, does in counts.items())
    (mine / "mine.py").write_text(MINE + before)
    train(train_cfg(out=mine / "run", total_steps=64, **small))
    sys.modules.pop("mine")
    (mine / "mine.py").write_text(MINE + after)
    with pytest.raises(
        CheckpointError, match=r"cannot resume .*run: mine:Counts cannot take its state: KeyError: 'cou"
    ):
        train(train_cfg(out=mine / "run", total_steps=128, resume=True, **small))
    with pytest.raises(CheckpointError, match=r"cannot start from .*run: what mine:Counts kept there has no 'count'"):
        train(train_cfg(out=mine / "other", start_from=mine / "run", total_steps=64, **small))


@pytest.mark.usefixtures("mine")
def test_one_whose_shards_learn_apart_is_said():
    options = "--num-envs 8 --ppo.num-steps 8 --shards 2 --steps 256 --no-onnx --out run"
    assert here("train", "hover", "--algo", "mine:PPO", *options.split()).returncode == 0
    refused = here("train", "hover", "--algo", "mine:Apart", *options.replace("run", "apart").split())
    assert_one_line_error(refused, "algorithm 'mine:Apart': the policies of its shards are no longer alike (by 0.")


@pytest.mark.usefixtures("mine")
def test_a_task_sets_hyperparameters_for_it_by_the_name_of_the_command_line():
    hover = load_task("hover").group
    group = replace(hover, training={**hover.training, "mine:Sizes": {"gamma": 0.5}})
    assert train_cfg(algo="mine:Sizes").hyperparameters(group, "it")[1].gamma == 0.5
    assert train_cfg(algo="ppo").hyperparameters(group, "it")[1].gamma == 0.98


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
