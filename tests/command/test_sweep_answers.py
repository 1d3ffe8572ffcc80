"""A sweep of evaluations and attacks: what a killed one comes to, and that no seed's violation is lost."""

import csv
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import assert_one_line_error, here
from places import ZOO

from phalanx.sweep import pool
from phalanx.sweep.answers import Row, over_seeds, read_rows
from phalanx.sweep.pool import RunState, Sweep, has_sweep


@pytest.mark.slow
@pytest.mark.xdist_group("sweep")
def test_an_evaluation_that_is_killed_begins_anew_and_the_table_is_that_of_the_evaluations_alone(tmp_path, monkeypatch):
    started, start = [], pool.start_command

    def start_and_kill_the_first(args, log):
        process = start(args, log)
        started.append(args)
        if len(started) == 1:
            process.kill()
        return process

    monkeypatch.setattr(pool, "start_command", start_and_kill_the_first)
    asked = ["eval", str(ZOO / "reach.onnx"), "--episodes", "2"]
    folder = tmp_path / "sweep"
    done = here("sweep", *asked, "--seeds", "2", "--workers", "1", "--out", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    assert len(started) == 3 and started[0] == started[1]
    answer = json.loads(done.stdout)
    assert [run["restarts"] for run in answer["runs"].values()] == [1, 0]
    teams = json.loads(here(*asked, "--seeds", "2", "--json").stdout)["teams"]
    rows = list(csv.DictReader((folder / "table.csv").open()))
    assert [(int(row["seed"]), float(row["return"])) for row in rows] == [(t["seed"], t["mean_return"]) for t in teams]
    (line,) = answer["table"]
    assert line["seeds"] == 2 and line["numbers"]["success"][0] == sum(t["success_rate"] for t in teams) / 2
    assert (folder / "points.png").stat().st_size > 1000
    assert_one_line_error(here("sweep", *asked, "--out", str(folder)), f"phalanx sweep --resume {folder}")


def test_a_command_that_answers_that_something_fell_short_is_done_and_one_without_an_answer_failed(tmp_path):
    outcome = {"steps": 10, "violations": 3, "margins": {"contact": -0.5}}
    answer = json.dumps({"inside": outcome, "outside": {**outcome, "margins": {}}})

    def start(args, log):
        assert args[0] == "attack" and args[-3:] == ["--out", str(tmp_path / args[1]), "--json"]
        said = answer if args[1] == "broken" else ""
        (log.parent / f"{log.stem}.json").write_text(said)
        return subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(1)"])

    sweep = Sweep(tmp_path, {name: RunState([name]) for name in ("broken", "silent")}, "attack")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "silent.txt").write_text("phalanx: no disk\n")
    sweep.run(2, lambda done: None, start)
    assert {name: (run.state, run.why) for name, run in Sweep.load(tmp_path).runs.items()} == {
        "broken": ("done", ""),
        "silent": ("waiting", ""),
    }
    assert sweep.runs["silent"].why == "phalanx: no disk" and Sweep.load(tmp_path).command == "attack"
    (row,) = read_rows(sweep)
    assert row.labels == {"subject": "broken"}
    assert row.numbers == {
        "robot-steps": 20, "violations inside": 3, "violations outside": 3, "least margin": -0.5,
    }  # fmt: skip


def test_over_seeds_counts_add_up_and_the_least_margin_stays():
    numbers = [{"violations inside": n, "least margin": m, "success": s} for n, m, s in ((0, 0.3, 1.0), (2, -0.1, 0.5))]
    rows = [Row({"robots": "2", "seed": str(seed)}, each) for seed, each in enumerate(numbers)]
    (line,) = over_seeds(rows)
    assert line["labels"] == {"robots": "2"} and line["seeds"] == 2
    assert line["numbers"] == {
        "violations inside": [2, 0, 2], "least margin": [-0.1, -0.1, 0.3], "success": [0.75, 0.5, 1.0],
    }  # fmt: skip


def test_what_the_command_would_refuse_is_refused_before_any_work(tmp_path: Path):
    for args, said in (
        (["eval", "zoo/reach.onnx", "--episode", "4,8"], "did you mean '--episodes'"),
        (["attack", "crazyflie", "--steps", "many,1"], "--steps: cannot read 'many'"),
        (["verify", "a.onnx", "--seeds", "2"], "unknown option --seed; see phalanx verify --help"),
        (["atack", "crazyflie"], "unknown command 'atack': choose from train, eval, verify, attack; see phalanx sweep"),
        (["eval"], "a policy is missing"),
        (["eval", "none.onnx"], "none.onnx: no such file"),
        (["verify", "hover"], "not for 'hover'"),
        (["attack", "crazyflei"], "did you mean 'crazyflie'"),
    ):
        assert_one_line_error(here("sweep", *args, cwd=tmp_path), said)
    assert not list(tmp_path.iterdir())


def test_a_cluster_that_is_not_there_is_said_in_one_line_at_once(tmp_path: Path):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    began_s = time.monotonic()
    done = here("sweep", "hover", "--seeds", "2", "--cluster", f"127.0.0.1:{free}", cwd=tmp_path)
    assert_one_line_error(done, f"--cluster 127.0.0.1:{free}: no Ray cluster answers: Connection refused")
    assert time.monotonic() - began_s < 60.0 and not list(tmp_path.iterdir())


def test_a_sweep_of_which_all_failed_gives_up_its_folder(tmp_path: Path):
    for state, taken in (("failed", False), ("waiting", True), ("done", True)):
        Sweep(tmp_path, {"one": RunState(["a"], "failed"), "other": RunState(["b"], state)}, "eval").save()
        assert has_sweep(tmp_path) is taken


def test_a_narrow_terminal_keeps_what_tells_rows_apart(capsys, monkeypatch):
    from phalanx import console
    from phalanx.sweep.answers import show_rows

    monkeypatch.setattr(console.out, "_width", 80)
    numbers = {name: (0.0946921, 0.0941992, 0.0952099) for name in ("success", "intervened", "return", "episode s")}
    show_rows([{"labels": {"robots": team}, "seeds": 3, "numbers": numbers} for team in ("2", "4")])
    _, head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "robots" and [row.split()[0] for row in rows] == ["2", "4"]
