"""Curves of runs over their seeds: what is grouped, what stands in the table, and the interval."""

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from command import assert_one_line_error, here

from phalanx.report.curves import draw_curves
from policies.checkpoint import CheckpointError
from policies.evaluation.curves import compare, interval, middle, read_runs
from policies.training.progress import Progress, read_progress

ENDS = {1e-3: (0.2, 0.5, 0.6), 3e-3: (0.85, 0.95, 1.0)}  # success at the end, of each seed


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    for rate, ends in ENDS.items():
        for seed, end in enumerate(ends):
            folder = tmp_path / "sweep" / f"{rate}-{seed}"
            folder.mkdir(parents=True)
            run = {"task": "hover", "algo": "ppo", "seed": seed, "network": {"crazyflie": {"hidden": 64}}}
            run["algorithm"] = {"crazyflie": {"learning_rate": rate, "gamma": 0.98}}
            (folder / "run.json").write_text(json.dumps(run))
            progress = Progress(folder, 0)
            for steps in range(100, 1100, 100):
                row = {"agent_steps": steps, "wall_s": steps / 10, "mean_return": -1.0}
                progress.add(row if steps == 100 else row | {"success_rate": end * steps / 1000})
            progress.close()
    return tmp_path / "sweep"


def test_runs_are_compared_over_their_seeds_and_named_by_what_differs(sweep: Path, tmp_path: Path):
    done = here("compare", str(sweep), "--out", str(tmp_path / "curves.png"))
    title, *table = done.stdout.splitlines()
    rows = [" ".join(line.split()) for line in table]
    assert title.startswith("success_rate: interquartile mean") and "at the end" in table[0]
    assert rows[1].endswith("3 1,000 0.933 (0.85 to 1) 950, 2 of 3 1.7")  # the best first
    assert any(row.endswith("3 1,000 0.433 (0.2 to 0.6) never 1.7") for row in rows[2:])
    assert "learning-rate=0.003" in done.stdout and "gamma" not in done.stdout
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(here("compare", str(sweep / "0.003-1"), str(sweep / "0.003-2"), "--json").stdout)
    (curve,) = found["curves"]
    assert curve["label"] == "hover" and curve["seeds"] == [1, 2] and curve["agent_steps"][0] == 200
    assert curve["middle"][-1] == pytest.approx(0.975)
    assert found["reach"] == 0.9 and curve["reached_after"] == [1000, 900]
    found = json.loads(here("compare", str(sweep), "--of", "mean_return", "--json").stdout)
    assert found["reach"] is None and all(curve["reached_after"] == [] for curve in found["curves"])


def test_two_algorithms_are_named_by_what_both_have(sweep: Path):
    record = sweep / "0.003-1" / "run.json"
    run = json.loads(record.read_text()) | {"algo": "td3", "task_changes": {"episode_s": 6.0}}
    run["algorithm"] = {"crazyflie": {f"a_number_with_a_long_name_{i}": i for i in range(20)}}
    record.write_text(json.dumps(run))
    curves = compare(read_runs([sweep / "0.003-1", sweep / "0.003-2"])).curves
    assert [c.label for c in curves] == ["algo=td3 episode_s=6.0", "algo=ppo"]


def test_trainings_on_several_shards_are_told_from_those_on_one(sweep: Path):
    for seed in (1, 2):
        record = sweep / f"0.003-{seed}" / "run.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"shards": seed}))
    curves = compare(read_runs([sweep / "0.003-1", sweep / "0.003-2"])).curves
    assert [c.label for c in curves] == ["shards=1", "shards=2"]


def test_a_long_name_stays_within_the_picture(sweep: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder):
    found = compare(read_runs([sweep]))
    long = [replace(curve, label=" ".join(["gamma=0.99"] * 40)) for curve in found.curves]
    draw_curves(tmp_path / "curves.png", found.of, long)
    assert not recwarn.list  # matplotlib gives up the layout, and the name is cut off


def test_a_run_that_is_still_training_shortens_the_curve_of_its_group(sweep: Path):
    rows = (sweep / "0.003-1" / "progress.csv").read_text().splitlines(keepends=True)
    (sweep / "0.003-1" / "progress.csv").write_text("".join(rows[:6]) + "600,60.0,-1.0,0.5")  # a line being written
    slow, fast = compare(read_runs([sweep])).curves
    assert slow.agent_steps[-1] == 1000 and fast.agent_steps[-1] == 500
    assert fast.middle[-1] == pytest.approx(np.mean(ENDS[3e-3]) / 2)
    assert fast.wall_s == [50.0] * 3, "the time until the steps that are shown"


def test_a_run_that_goes_on_keeps_every_column_and_no_row_after_its_checkpoint(tmp_path: Path):
    progress = Progress(tmp_path, 0)
    for steps in (100, 200, 300):
        progress.add({"agent_steps": steps, "wall_s": 1.0} | ({"kl": 0.5} if steps == 100 else {}))
    progress.close()
    again = Progress(tmp_path, 200)
    again.add({"agent_steps": 300, "wall_s": 2.0})
    again.close()
    first, *_ = (tmp_path / "progress.csv").read_text().splitlines()[1:]
    assert first.startswith("100,1.0"), "as it was written before"
    rows = read_progress(tmp_path)
    assert [row["agent_steps"] for row in rows] == [100, 200, 300] and rows[-1]["wall_s"] == 2.0
    assert rows[0]["kl"] == 0.5 and "kl" not in rows[1]


def test_the_interval_is_that_of_all_resamples(sweep: Path):
    values = np.array([[0.2], [0.5], [0.6]])
    resamples = [float(middle(values[list(chosen)])[0]) for chosen in product(range(3), repeat=3)]
    low, high = interval(values)
    assert (low[0], high[0]) == pytest.approx(np.percentile(resamples, (2.5, 97.5), method="inverted_cdf"))
    assert middle(np.array([0.0, 1.0, 2.0, 100.0])) == 1.5  # the worst and the best of four do not count


def test_what_cannot_be_compared_is_said_in_a_line(sweep: Path, tmp_path: Path):
    assert_one_line_error(here("compare", str(tmp_path)), f"no run in {tmp_path}")
    assert_one_line_error(here("compare", str(sweep), "--of", "sucess_rate"), "did you mean 'success_rate'")
    assert_one_line_error(here("compare", str(sweep), "--out", "a.bmp"), "cannot draw '.bmp'; known: .png, .svg, .pdf")
    assert_one_line_error(here("compare"), "which runs?")


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("progress.csv", b"agent_steps,success_rate\n1,0.5\n1,2,3\n", r"progress.csv: line 3 is damaged, .*'1,2,3'"),
        ("progress.csv", b"agent_steps,success_rate\n1,abc\n", r"progress.csv: line 2 is damaged, .*'1,abc'"),
        ("progress.csv", b"a,b\n1,2\n", r"progress.csv: is damaged: its first line has no agent_steps"),
        ("progress.csv", b"\x80\x81\n", r"progress.csv: is damaged: 'utf-8'"),
        ("run.json", b"[]", r"run.json: is damaged: wanted a run"),
        ("run.json", b'{"task": "hover"}', r"run.json: is damaged: it lacks algo, algorithm, network, seed"),
        ("run.json", b'{"task', r"run.json: is damaged"),
        ("run.json", b"\xff", r"run.json: is damaged"),
    ],
)
def test_a_damaged_file_of_a_run_is_named(sweep: Path, file: str, content: bytes, says: str):
    (sweep / "0.003-1" / file).write_bytes(content)
    with pytest.raises((CheckpointError, ValueError), match=says):
        read_runs([sweep])


def test_a_folder_that_is_named_twice_is_one_run(sweep: Path):
    assert len(read_runs([sweep / "0.003-1", sweep / "0.003-1"])) == 1


def test_one_training_is_not_two_seeds(sweep: Path, tmp_path: Path):
    shutil.copytree(sweep / "0.003-1", tmp_path / "again")
    said = "0.003-1 and .*again have the same settings and seed 1 .*; leave one of them out"
    with pytest.raises(CheckpointError, match=said):
        compare(read_runs([sweep / "0.003-1", tmp_path / "again"]))
