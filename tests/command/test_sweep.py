"""A sweep: which runs it is, and that one that is killed, interrupted and resumed is the one that was left alone."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from command import assert_one_line_error, here, phalanx
from patience import patience

from phalanx.commands.sweep import takes_fractions
from phalanx.sweep import pool
from phalanx.sweep.points import make_runs, split_options, varied_in
from phalanx.sweep.pool import RunState, Sweep
from policies.training.progress import PROGRESS

TINY = shlex.split(
    "--num-envs 8 --steps 2400 --ppo.num-steps 10 --ppo.epochs 1 --network.hidden 8 --no-onnx "
    "--threads 1 --task.episode-s 0.4 --checkpoint-every 4"
)


def runs_of(line: str, seeds: int | None = None, samples: int | None = None) -> dict[str, list[str]]:
    tasks, *args = line.split()
    return make_runs({"task": tasks}, split_options(args, ["--seeds"])[1], seeds, samples)


def test_every_combination_of_tasks_values_and_seeds_is_a_run():
    runs = runs_of("hover --ppo.learning-rate 1e-4,3e-4 --network.hidden=32,64 --shield --ppo.gamma 0.9", seeds=2)
    assert len(runs) == 8
    args = runs["learning-rate=3e-4_hidden=64_seed=1"]
    varied = ["--ppo.learning-rate", "3e-4", "--network.hidden", "64", "--seed", "1"]
    assert args == ["hover", *varied, "--shield", "--ppo.gamma", "0.9"]
    assert list(runs_of("hover,reach --seed 5", seeds=2)) == [
        "task=hover_seed=5", "task=hover_seed=6", "task=reach_seed=5", "task=reach_seed=6",
    ]  # fmt: skip
    assert list(runs_of("hover --algo ppo,td3 --seed 4")) == ["algo=ppo", "algo=td3"]
    assert split_options(["hover", "--seeds", "3", "--ppo.gamma", "1,2"], ["--seeds"])[0] == ["hover", "--seeds", "3"]


def test_values_are_drawn_from_ranges_over_magnitudes_and_the_same_each_time():
    line = "hover --ppo.learning-rate 1e-5..1e-1 --ppo.gamma 0.95..0.99 --network.hidden 16..128"
    runs = runs_of(line, samples=64)
    assert len(runs) == 64 and runs == runs_of(line, samples=64)
    values = [dict(zip(args[1::2], args[2::2], strict=True)) for args in runs.values()]
    rates = [float(value["--ppo.learning-rate"]) for value in values]
    assert all(1e-5 <= rate <= 1e-1 for rate in rates)
    assert 24 <= sum(rate < 1e-3 for rate in rates) <= 40, "half of them below the middle magnitude"
    assert all(0.95 <= float(value["--ppo.gamma"]) <= 0.99 for value in values)
    assert {value["--network.hidden"].isdigit() for value in values} == {True}
    of_a_float = split_options(["--ppo.entropy-coef", "0..1"], [])[1]
    drawn = make_runs({"task": "hover"}, of_a_float, None, 4, takes_fractions=lambda name: True)
    assert len(drawn) == 4 and any("." in args[2] for args in drawn.values())
    each_its_own = runs_of("perch --algo td3,vdn --td3.tau 0.01,0.02 --vdn.tau 0.03 --ppo.gamma 0.9 --steps 9")
    assert each_its_own == {
        "algo=td3_tau=0.01": ["perch", "--algo", "td3", "--td3.tau", "0.01", "--ppo.gamma", "0.9", "--steps", "9"],
        "algo=td3_tau=0.02": ["perch", "--algo", "td3", "--td3.tau", "0.02", "--ppo.gamma", "0.9", "--steps", "9"],
        "algo=vdn": ["perch", "--algo", "vdn", "--vdn.tau", "0.03", "--ppo.gamma", "0.9", "--steps", "9"],
    }
    varied = {"algo": "vdn", "td3.tau": "", "vdn.tau": "0.03"}
    assert varied_in(each_its_own)["algo=vdn"] == varied
    options = {"--ppo.entropy-coef": True, "--ppo.epochs": False, "--task.episode-s": True, "--num-envs": False}
    assert {option: takes_fractions("train", ["hover"], option) for option in options} == options
    for line, samples, said in (
        ("hover --ppo.epochs 1..3", 6, r"--ppo.epochs 1..3: 3 different ones of --samples 6"),
        ("hover --ppo.gamma 0.9,0.95 --ppo.gamma 0.99", None, "--ppo.gamma is given twice"),
        ("hover --ppo.learning_rate 1e-3,1e-4 --ppo.learning-rate 1e-3", None, "--ppo.learning-rate is given twice"),
        ("hover --ppo.epochs 1,2,1", None, "--ppo.epochs 1,2,1: a value is there twice"),
    ):
        with pytest.raises(ValueError, match=said):
            runs_of(line, samples=samples)
    with pytest.raises(ValueError, match=r"--ppo.gamma: a range needs --samples"):
        runs_of("hover --ppo.gamma 0.9..0.99")
    with pytest.raises(ValueError, match=r"the first number must be less"):
        runs_of("hover --ppo.gamma 0.99..0.9", samples=2)


def test_what_training_would_refuse_is_refused_before_any_work(tmp_path: Path):
    for args, said in (
        (["hover", "--ppo.learning-rat", "1e-4,1e-3"], "did you mean '--ppo.learning-rate'"),
        (["hover", "--ppo.gamma", "0.9,3"], "ppo.gamma = 3.0: 0 to 1"),
        (["hover", "--ppo.gamma", "0.5,3", "--ppo.clip", "3,0.5"], "ppo.gamma = 3.0: 0 to 1"),
        (["hover", "--sedes", "3"], "unknown option --sedes; see phalanx sweep --help; did you mean '--seeds'?"),
        (["hover", "--nmu-envs", "3"], "see phalanx train --help; did you mean '--num-envs'?"),
        (["trian", "hover"], "unknown command 'trian': choose from train, eval, verify, attack; see phalanx sweep"),
        (["hoverr", "--seeds", "2"], "did you mean 'hover'"),
        (["--seeds", "2"], "TASK is missing"),
        (["hover", "--samples", "2"], "there is no range"),
        (["--resume", str(tmp_path)], "no sweep in"),
        (["--resume", str(tmp_path), "--ppo.gamma", "0.9"], "a sweep goes on as it was begun"),
    ):
        assert_one_line_error(here("sweep", *args, cwd=tmp_path), said)
    assert not list(tmp_path.iterdir())


def test_help_of_a_sweep_shows_the_options_of_what_it_runs():
    for args, shown in ((["eval"], "--episodes"), (["hover"], "--ppo.learning-rate"), ([], "--samples")):
        said = here("sweep", *args, "--help").stdout
        assert "--samples" in said and shown in said
        assert ("usage: phalanx eval" in said, "usage: phalanx train" in said) == (args == ["eval"], args == ["hover"])


def test_a_run_that_has_trained_and_writes_its_files_is_counted(tmp_path: Path):
    sweep = Sweep(tmp_path, {"seed=0": RunState([], "running"), "seed=1": RunState([], "running")})
    for name, steps in (("seed=0", 100), ("seed=1", 60)):
        (tmp_path / name).mkdir()
        (tmp_path / name / pool.RECORD).write_text(json.dumps({"wall_budget_s": None, "total_steps": 100}))
        (tmp_path / name / PROGRESS).write_text(f"wall_s,agent_steps\n1.0,{steps}\n")
    assert sweep.trained() == 1


def table(*folders: Path) -> list[dict]:
    """What `compare` says of runs, but for where they are and how long they took."""
    found = json.loads(here("compare", *map(str, folders), "--of", "mean_return", "--json").stdout)
    return [{k: v for k, v in curve.items() if k not in ("folders", "wall_s")} for curve in found["curves"]]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> list[dict]:
    """The table of the two runs, each trained alone and in one go."""
    alone = [tmp_path_factory.mktemp("alone") / str(seed) for seed in range(2)]
    for seed, folder in enumerate(alone):
        done = here("train", "hover", *TINY, "--seed", str(seed), "--out", str(folder))
        assert done.returncode == 0, done.stderr
    return table(*alone)


@pytest.mark.slow
@pytest.mark.xdist_group("sweep")
def test_a_sweep_that_is_killed_interrupted_and_resumed_has_the_table_of_one_that_was_left_alone(
    untouched, tmp_path, monkeypatch
):
    folder, started = tmp_path / "sweep", []

    def start(args, log):
        process = pool_start(args, log)
        started.append(args)
        act = {1: lambda: process.kill(), 2: lambda: os.kill(os.getpid(), signal.SIGINT)}.get(len(started))
        if act:
            threading.Thread(target=when_farther, args=(folder / "seed=0", act), daemon=True).start()
        return process

    pool_start = pool.start_command
    monkeypatch.setattr(pool, "start_command", start)
    done = here("sweep", "hover", *TINY, "--seeds", "2", "--workers", "1", "--out", str(folder))
    assert done.returncode == 130
    assert (
        f"0 of 2 runs are done, the others keep their last checkpoint; to look: phalanx compare {folder}" in done.stderr
    )
    assert f"to go on: phalanx sweep --resume {folder}\n" in done.stderr
    assert [args[:2] for args in started] == [["train", "hover"], ["train", "--resume"]]
    assert table(folder)[0]["agent_steps"][-1] < 2400, "it can be looked at, and is not through"
    done = here("sweep", "--resume", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    assert {run["state"] for run in json.loads(done.stdout)["runs"].values()} == {"done"}
    assert table(folder) == untouched
    assert (folder / "curves.png").exists() and not list(folder.glob("*/*.onnx"))
    assert_one_line_error(here("sweep", "hover", "--out", str(folder)), f"phalanx sweep --resume {folder}")


@pytest.mark.slow
@pytest.mark.xdist_group("sweep")
def test_on_a_cluster_a_training_that_is_killed_goes_on_too(untouched, tmp_path):
    pytest.importorskip("ray")
    folder = tmp_path / "sweep"

    def kill() -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().decode().split("\0")
                if "train" in words and str(folder / "seed=0") in words:
                    os.kill(int(process.name), signal.SIGKILL)

    threading.Thread(target=when_farther, args=(folder / "seed=0", kill), daemon=True).start()
    done = phalanx("sweep", "hover", *TINY, "--seeds", "2", "--cluster", "local", "--out", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert runs["seed=0"] == {"state": "done", "restarts": 1} and runs["seed=1"] == {"state": "done", "restarts": 0}
    assert table(folder) == untouched


def when_farther(run: Path, act) -> None:
    """Call `act` when a run has a checkpoint, and trains on after it."""

    def iterations() -> int:
        return (run / "progress.csv").read_bytes().count(b"\n") if (run / "checkpoint.pt").exists() else 0

    deadline = time.monotonic() + patience(60)
    while not (begun := iterations()) and time.monotonic() < deadline:
        time.sleep(0.01)
    while iterations() < begun + 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    act()


@pytest.mark.parametrize(("more", "said"), [([], True), (["--seeds", "2"], False), (["--seed", "3,4"], False)])
def test_a_sweep_without_any_values_says_that_it_is_one_run_and_how_to_give_them(more, said, tmp_path, monkeypatch):
    def start(args, log):
        log.write_text("phalanx: no such thing")
        return subprocess.Popen(["false"])

    monkeypatch.setattr(pool, "start_command", start)
    done = here("sweep", "hover", *more, "--out", str(tmp_path / "sweep"))
    one = "a sweep of one run; for more: an option with several values, --NAME 1,2,3, or --seeds 3\n"
    assert (one in done.stderr) == said and done.stderr.count(" failed: ") == (1 if said else 2)


def test_a_run_that_fails_or_dies_again_and_again_ends_no_other(tmp_path):
    ends = {"bad": "sys.exit('phalanx: no such thing')", "dies": "os.kill(os.getpid(), 9)", "good": "0"}

    def start(args, log):
        with log.open("ab") as file:
            return subprocess.Popen([sys.executable, "-c", f"import os, sys; {ends[args[1]]}"], stderr=file)

    sweep = Sweep(tmp_path, {name: RunState([name]) for name in ends})
    sweep.run(2, lambda done: None, start)
    kept = json.loads((tmp_path / "sweep.json").read_text())["runs"]
    assert {name: run["state"] for name, run in kept.items()} == {"bad": "failed", "dies": "failed", "good": "done"}
    assert kept["bad"]["why"] == "phalanx: no such thing" and kept["dies"]["why"] == "killed 4 times"
    again = Sweep.load(tmp_path)
    assert {name: run.state for name, run in again.runs.items()} == {
        "bad": "waiting",
        "dies": "waiting",
        "good": "done",
    }
