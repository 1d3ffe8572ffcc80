"""Every number of a run can be set on the command line, is checked, and is still known when the run is resumed."""

import json
import re
from math import inf, nan
from pathlib import Path

import pytest
from places import ROOT
from small_run import train_cfg

import hardware
from deploy.bundle import load_bundle
from phalanx.cli import main
from policies.algorithms.configurations import CONFIGURATIONS
from policies.algorithms.happo import HAPPOCfg
from policies.algorithms.ppo import PPOCfg
from policies.algorithms.td3 import TD3Cfg
from policies.checkpoint import load_checkpoint
from policies.networks.trunk import NetworkCfg
from policies.records import RECORD
from policies.task_data import task_record
from policies.training.progress import read_progress
from policies.training.train import CollectionCfg, TrainCfg, _not_of_a_run, train
from sim.tasks import load_task, task_names

SMALL = ["--num-envs", "8", "--ppo.num-steps", "4", "--ppo.epochs", "1", "--network.hidden", "8"]


def phalanx(*args: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(args)
    return end.value.code or 0


def refused(capsys, *args: str) -> str:
    capsys.readouterr()
    assert phalanx(*args) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("export ")]  # how far it is
    assert len(said) == 1
    return said[0]


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
def test_options_reach_the_run_and_the_hint_to_resume_can_be_pasted(tmp_path: Path, capsys):
    out = str(tmp_path / "run")
    options = ["--seed", "5", "--ppo.learning-rate", "3e-4", "--task.episode-s", "2.5"]
    options += ["--task.rewards.spin.weight", "-0.1", "--steps", "64"]
    options += ["--task.randomisation.mass.params.scale", "0.8", "1.3"]
    assert phalanx("train", "hover", "--out", out, *SMALL, *options) == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["algorithm"]["crazyflie"]["learning_rate"] == 3e-4 and run["network"]["crazyflie"]["hidden"] == 8
    assert run["algorithm"]["crazyflie"]["gamma"] == 0.98  # as the task says
    assert run["task_data"]["config"]["episode_s"] == 2.5
    assert run["seed"] == 5 and run["git"] and run["versions"]["torch"] and run["command"]
    assert phalanx("train", "--resume", out, "--steps", "96") == 0
    content = load_checkpoint(tmp_path / "run")
    assert content["progress"]["agent_steps"] == 96 and content["run"]["seed"] == 5
    capsys.readouterr()
    assert phalanx("export", out) == 0  # with the task as it was set
    plant = load_bundle(tmp_path / "run" / "policy.onnx").contract.plant
    assert plant is not None
    assert [(r.low, r.high) for r in plant.trained_ranges if r.event == "mass"] == [(0.8, 1.3)]
    said = capsys.readouterr().err  # while it works
    assert said.startswith("export") and "libraries" in said and "100 %" in said
    mass = "--task.randomisation.mass.params.scale"
    said = refused(capsys, "train", "--resume", out, mass, "0.9", "1.1")  # the second one is no task
    assert "has changed since it was trained" in said and "mass" in said
    assert phalanx("train", "--resume", out, "--steps", "128", "--accept-task-change", mass, "0.9", "1.1") == 0
    assert phalanx("export", out) == 0  # for what it was trained with last
    plant = load_bundle(tmp_path / "run" / "policy.onnx").contract.plant
    assert [(r.low, r.high) for r in plant.trained_ranges if r.event == "mass"] == [(0.9, 1.1)]
    capsys.readouterr()
    said = refused(capsys, "train", "--resume", out, "--seed", "7")
    assert "cannot resume with seed = 7: the checkpoint was made with 5" in said
    said = refused(capsys, "train", "--resume", out, "--algo", "sac")
    assert f"cannot resume with algo 'sac': {out} was begun with 'ppo'" in said


def test_a_training_too_short_for_an_episode_says_what_is_long_enough(tmp_path: Path, capsys):
    sizes = ["--robots", "2", "--num-envs", "4", "--steps", "300", "--seed", "1"]
    assert phalanx("train", "swarm-swap", *sizes, "--ppo.lag", "0", "--out", str(tmp_path / "run")) == 0
    whole = 2 * 400 * 2 * 4  # two episodes of 8 s at 50 Hz, of two robots in four worlds
    assert f"not every world has ended a whole episode ({whole:,} agent steps are enough)" in capsys.readouterr().err


def test_wrong_options_are_answered_before_any_work(tmp_path: Path, capsys):
    (tmp_path / "file").write_text("")
    for args, expected in (
        (["--ppo.learning-rat", "1"], "did you mean '--ppo.learning-rate'"),
        (["--ppo.gamma", "3"], "ppo.gamma = 3.0: 0 to 1"),
        (["--ppo.learning-rate", "inf"], "ppo.learning_rate = inf: 0 to 1"),
        (
            ["--algo", "pp"],
            "'pp'; known: dsact, happo, hasac, impala, ppo, sac, td3, vdn, or module:NAME; did you mean 'ppo'",
        ),
        (["--steps", "1e5", "--ppo.critic-first", "2e5"], "over before policies learn, ppo.critic_first = 200000"),
        (["--algo", "HAPPO"], "module:NAME; did you mean 'happo'"),
        (["--seed", "-1"], "seed = -1: 0 to"),
        (["--task.rewards.spin.wieght", "1"], "did you mean '--task.rewards.spin.weight'"),
        (
            ["--task.randomisation.mass.params.scale", "-1", "1"],
            "randomisation 'mass': range (-1.0, 1.0): 0.01 or more",
        ),
        (["--task.randomisation.mass.params.scale", "1"], "mass.params.scale'. Expected 2 values"),
        (["--out", str(tmp_path / "file")], "is a file, wanted a folder"),
        (["--steps", "0"], "--steps = 0: at least 1"),
        (["--network.symmetric", "true"], "--network.symmetric true: takes no value; give --network.symmetric alone,"),
        (["--network.symmetric=false"], "--network.symmetric false: takes no value"),
        (["true"], "too many arguments: 'true'"),
        (["--threads", "0"], "threads = 0: 1 to 1024"),
        (["--ppo.limits"], "--ppo.limits: wanted terms of the reward, a number after each, such as action_change"),
        (["--ppo.limits", "--seed", "1"], "--ppo.limits: wanted terms"),
        (["--ppo.limits", "spin"], "--ppo.limits spin: wanted terms"),
        (["--ppo.limits=spin", "x"], "--ppo.limits spin x: wanted terms"),
        (["--ppo.limits", "spin", "0.1", "spin", "0.2"], "--ppo.limits: spin stands there twice"),
        (["--ppo.min-std", "0"], "--ppo.min_std = 0.0: 1e-06 to 1"),
        (["--algo", "vdn", "--vdn.critic", "team"], "--vdn.critic = 'team': own, for a robot's part"),
    ):
        assert expected in refused(capsys, "train", "hover", *args), args


@pytest.mark.parametrize("name", [*CONFIGURATIONS, "MA-PPO", "Dr. MAS", "fast_td3"])
def test_a_paper_whose_algorithm_is_a_setting_of_another_is_answered_with_its_line(name: str, capsys):
    said = refused(capsys, "train", "hover", "--algo", name)
    lead, line = said.split(": phalanx ")
    assert lead == f"phalanx: {name} is no algorithm of its own here, but a setting of one"
    assert f"`phalanx {line}`" in (ROOT / "docs" / "algorithms.md").read_text(), "which tests/project type"


@pytest.mark.parametrize(
    ("cfg", "field", "value", "allowed"),
    [
        (PPOCfg, "ppo.learning_rate", nan, "0 to 1"),
        (PPOCfg, "ppo.clip", -1.0, "0.001 to 10"),
        (PPOCfg, "ppo.max_grad_norm", nan, "1e-06 to 1000000"),
        (PPOCfg, "ppo.num_steps", 0, "1 to 100000"),
        (PPOCfg, "ppo.lag", -1, "0 to 1000"),
        (HAPPOCfg, "happo.lag", 1, "wanted 0"),
        (TD3Cfg, "td3.learning_rate", inf, "0 to 1"),
        (TD3Cfg, "td3.target_noise", nan, "0 to 10"),
        (NetworkCfg, "network.hidden", 0, "1 to 16384"),
        (NetworkCfg, "network.init_std", nan, "1e-06 to 10"),
        (CollectionCfg, "num_envs", 10**9, "1 to 1000000"),
        (TrainCfg, "wall_budget_s", inf, "at least 0.001, finite"),
        (TrainCfg, "checkpoint_every", 0, "at least 1"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(cfg, field, value, allowed):
    with pytest.raises(ValueError, match=re.escape(f"{field} = {value}: {allowed}")):
        cfg(**{field.rpartition(".")[2]: value})


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "no engine 'foo'" in refused(capsys, "train", "hover", "--engine", "foo")
    with pytest.raises(ValueError, match="unknown task 'hoverr'"):
        train(TrainCfg(task="hoverr", out=tmp_path / "runs" / "hoverr"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_before_the_first_iteration_says_what_is_left_and_how_to_go_on(tmp_path: Path, monkeypatch, capsys):
    def press(*_, **__):
        raise KeyboardInterrupt

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("policies.training.train.Trainer", press)
        assert phalanx("train", "hover", "--out", str(run)) == 130
        assert "interrupted; training had not begun, nothing was written" in capsys.readouterr().err
        assert not run.exists()
    assert phalanx("train", "hover", "--out", str(run), *SMALL, "--steps", "64") == 0
    with monkeypatch.context() as patch:
        patch.setattr("policies.training.train.Trainer", press)
        assert phalanx("train", "--resume", str(run)) == 130
        assert f"{run} is as it was, to go on: phalanx train --resume {run}\n" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path: Path, capsys):
    run = tmp_path / "run"
    assert phalanx("train", "hover", "--out", str(run), *SMALL, "--steps", "64", "--seed", "3") == 0
    whole = load_checkpoint(run)["progress"]
    (run / "checkpoint.pt").unlink()
    assert phalanx("train", "--resume", str(run)) == 0
    assert "no checkpoint had been written yet, training begins again" in capsys.readouterr().err
    assert load_checkpoint(run)["progress"] == whole and len(read_progress(run)) == len(whole["curve"])
    assert "no run in" in refused(capsys, "train", "--resume", str(tmp_path))
    assert "begun with 'hover'" in refused(capsys, "train", "swarm-swap", "--resume", str(run))
    assert "in its own folder" in refused(capsys, "train", "--resume", str(run), "--out", str(tmp_path))
    assert "TASK is missing" in refused(capsys, "train")


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
def test_a_task_of_ones_own_works_from_the_folder_it_is_in(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "my_tasks.py").write_text(
        "from sim.tasks import load_task\nYAW = load_task('hover').changed(name='hover-yaw', episode_s=1.0)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert phalanx("train", "my_tasks:YAW", "--out", "run", *SMALL, "--steps", "32") == 0
    assert phalanx("train", "--resume", "run", "--steps", "64") == 0
    assert phalanx("export", "run", "--out", "yaw.onnx") == 0
    assert phalanx("eval", "yaw.onnx", "--episodes", "2") == 0
    assert phalanx("eval", "run", "--episodes", "2") == 0
    assert phalanx("verify", "yaw.onnx", "--episodes", "2", "--run", "run") == 1  # it flies, but not well
    assert "did you mean 'YAW'" in refused(capsys, "train", "my_tasks:YAWW")
    begun_with = refused(capsys, "train", "--resume", "run", "--start-from", "other")
    assert "--start-from other: a run that goes on has networks of its own" in begun_with
    Path("run/best.pt").touch()
    best = refused(capsys, "train", "--resume", "run/best.pt")
    assert "--resume run/best.pt: a run goes on from its last checkpoint, run/checkpoint.pt" in best


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
def test_a_task_that_has_changed_is_refused_by_name_of_its_fields(tmp_path: Path, monkeypatch, capsys):
    source = (
        "from sim.tasks import load_task\nfrom sim.task import Term\n"
        "def far(t):\n    return t.state.base_pos[..., 0] > {limit}\n"
        "FAR = load_task('hover').changed(name='far', episode_s={length}, terminations={{'far': Term(far)}})\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "far_tasks", raising=False)
    file = tmp_path / "far_tasks.py"
    file.write_text(source.format(limit=3.0, length=1.0))
    assert phalanx("train", "far_tasks:FAR", "--out", "run", *SMALL, "--steps", "32") == 0
    file.write_text(source.format(limit=40.0, length=2.0))  # another size: compiled again within a second too
    __import__("linecache").clearcache()
    monkeypatch.delitem(__import__("sys").modules, "far_tasks")
    for command in (["export", "run"], ["eval", "run"], ["train", "--resume", "run"]):
        said = refused(capsys, *command)
        assert "task 'far' has changed since it was trained: " in said and "episode_s (1.0, now 2.0)" in said
        assert "far_tasks.far" in said and "--accept-task-change" in said
    assert phalanx("export", "run", "--accept-task-change") == 0
    assert phalanx("train", "--resume", "run", "--accept-task-change", "--steps", "96") == 0


@pytest.mark.parametrize(
    ("asked", "behind"),
    [
        (["swarm-swap"], True),
        (["swarm-swap", "--no-shield"], False),
        (["swarm-swap", "--shield"], True),
        (["hover"], False),
        (["hover", "--shield"], True),
        (["hover", "--no-shield"], False),
    ],
)
def test_a_task_says_whether_it_is_learned_behind_the_shield_and_a_switch_says_otherwise(tmp_path, asked, behind):
    out = str(tmp_path)
    assert phalanx("train", *asked, *SMALL, "--steps", "64", "--no-onnx", "--out", out) == 0
    assert json.loads((tmp_path / RECORD).read_text())["shield"] is behind
    assert phalanx("train", "--resume", out, "--steps", "96", "--no-onnx") == 0  # as it was begun, without the switch


def test_an_engine_that_runs_rollouts_as_one_program_does_without_the_shield_unless_it_is_asked_for():
    task = load_task("swarm-swap")
    for engine in ("mjx", "brax", "brax:spring"):
        assert not train_cfg(task=task, engine=engine).behind_shield(task)
    assert train_cfg(task=task, engine="mjx", shield=True).behind_shield(task)
    assert train_cfg(task=task, engine="warp").behind_shield(task)


def test_what_a_run_knows_of_its_task_holds_in_another_folder_too():
    """A run of a G1 named its fallback policy by its path: trained on a server, it could not be exported elsewhere."""
    here = str(Path(hardware.__file__).parents[1])
    for task in task_names():
        assert here not in json.dumps(task_record(load_task(task))), task


def test_a_folder_with_other_files_is_refused_and_keeps_them_alone(tmp_path):
    (tmp_path / "hover.onnx").write_text("mine")
    with pytest.raises(ValueError, match=r"has other files, such as hover.onnx; wanted a new folder or an empty one"):
        train(train_cfg(task="hover", out=tmp_path, num_envs=8, total_steps=100))
    assert [path.name for path in tmp_path.iterdir()] == ["hover.onnx"]
    (tmp_path / "hover.onnx").rename(tmp_path / "run.json.tmp")  # as where another process of this training writes it
    assert _not_of_a_run(tmp_path) == ""
