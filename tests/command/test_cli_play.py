"""`phalanx play` and `eval`, judged by what they print, draw and refuse."""

import json
import os
import re
import subprocess
import sys

import pytest
from command import assert_one_line_error, here, phalanx
from places import ZOO

from policies.evaluation.evaluate import wilson


@pytest.mark.slow
def test_play_draws_a_page_a_picture_and_a_video(tmp_path):
    for run, name, task, *options in (
        (here, "flight.html", "swarm-swap"),
        (phalanx, "flight.png", "hover"),  # of its own: only so is the way to draw chosen before MuJoCo is loaded
        (here, "flight.gif", "hover", "--size", "320x180", "--json"),
    ):
        zero = ("--agent", "zero", "--no-shield")  # robots fall, which is soon drawn
        done = run("play", task, *zero, *options, "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    assert "cf4" in (tmp_path / "flight.html").read_text()
    from PIL import Image

    (episode,) = json.loads(done.stdout)["episodes"]
    film = Image.open(tmp_path / "flight.gif")
    assert film.n_frames == pytest.approx(25 * episode["duration_s"] + 1, abs=1) and film.size == (320, 180)
    assert len(set(Image.open(tmp_path / "flight.png").convert("RGB").resize((64, 48)).getdata())) > 20
    assert_one_line_error(here("play", "--agent", "zero", "--out", str(tmp_path / "flight.mp3")), ".html")


@pytest.mark.slow
def test_a_task_is_named_in_front_or_by_a_flag():
    figures = []
    for args in (["hover"], ["--task", "hover"], ["hover", "--task", "hover"]):
        done = here("play", *args, "--agent", "zero", "--no-shield", "--json")
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(done.stdout))
    assert figures[0] == figures[1] == figures[2]
    assert figures[0]["task"] == "hover" and figures[0]["episodes"][0]["min_separation_m"] is None
    assert_one_line_error(here("play", "hover", "--task", "reach", "--agent", "zero"), "hover or reach")


def test_a_task_without_a_shipped_policy_says_what_can_play_it(tmp_path):
    done = here("play", "pick-place", cwd=tmp_path)
    assert_one_line_error(done, "'pick-place'", "--agent zero|random|baseline")


@pytest.mark.slow
def test_a_policy_file_is_played_in_its_own_task_only(tmp_path):
    zoo = ZOO / "hover.onnx"
    assert_one_line_error(here("play", str(zoo), "--task", "push"), "'hover', not for 'push'")
    assert here("play", "hover", cwd=tmp_path).returncode == 0  # the one that ships, from anywhere


@pytest.mark.slow
def test_several_sets_of_starts_are_flown_and_counted_together():
    options = ("--agent", "baseline", "--episodes", "8", "--no-shield", "--robots", "2")
    rows = here("eval", "swarm-swap", *options, "--seeds", "3").stdout.splitlines()
    assert [row.split()[1] for row in rows[:3]] == [str(1_000_003 + i) for i in range(3)]
    rates = [float(re.search(r"success ([\d.]+) %", row)[1]) for row in rows]
    assert rates[0] == float(re.search(r"success ([\d.]+) %", here("eval", "swarm-swap", *options).stdout)[1])
    low, high = (100 * end for end in wilson(round(sum(rates[:3]) / 100 * 8), 24))
    assert f"3 seeds together, success {sum(rates[:3]) / 3:.1f} % ({low:.1f} to {high:.1f})" in rows[3]
    assert rows[3].endswith(f"of one seed {min(rates[:3]):.1f} to {max(rates[:3]):.1f} %") and len(rows) == 4


@pytest.mark.slow
def test_words_fit_the_class_of_robot():
    arm = here("eval", "reach", "--agent", "zero", "--episodes", "2", "--no-shield").stdout
    assert "one robot" in arm and "collision" not in arm and "closest" not in arm and "shield" not in arm
    team = here("eval", "swarm-swap", "--agent", "baseline", "--episodes", "2").stdout
    assert "4 robots" in team and "closest" in team
    assert re.search(r"shield intervened [\d.]+ % of the time \(\w+ [\d.]+ %", team), team


@pytest.mark.slow
def test_baseline_collides_without_the_shield_and_not_with_it():
    def least(*args: str) -> float:
        done = here("eval", "--agent", "baseline", "--episodes", "8", "--json", *args)  # eight at once
        (team,) = json.loads(done.stdout)["teams"]
        return team["min_separation_m"]

    assert least("--no-shield") < 0.16 < least()


def test_a_video_without_its_encoder_names_the_extra_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = here("play", "hover", "--agent", "zero", "--out", str(tmp_path / "x.mp4"))
    assert_one_line_error(done, "ffmpeg", "phalanx[video]")


def test_policy_files_are_read_without_a_word_to_a_vendor(tmp_path):
    """Newer versions of onnxruntime keep an identifier in the user's home, and send how they are used."""
    env = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    args = [sys.executable, "-m", "phalanx", "play", str(ZOO / "hover.onnx"), "--json"]
    subprocess.run(args, env=env | {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}, check=True, capture_output=True)
    assert not [path for path in tmp_path.rglob("*") if "icrosoft" in str(path)]
