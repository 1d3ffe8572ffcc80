"""How far something is, and how long it still takes: in a terminal, and as lines where there is none."""

import io
import time

from rich.console import Console

from phalanx import progress as progress_
from phalanx.progress import time_split

NOTE = "return -12.3  success 50 %  85 k steps/s"


def test_where_there_is_no_terminal_progress_is_a_line_every_few_seconds(monkeypatch):
    log, now = io.StringIO(), [100.0]
    monkeypatch.setattr(progress_, "err", Console(file=log, width=60, soft_wrap=True))
    monkeypatch.setattr(progress_.time, "monotonic", lambda: now[0])
    with progress_.make_progress() as progress:
        bar = progress.add_task("train velocity-rough", total=1.0, note="")
        for step in range(1, 101):
            now[0] += 0.2
            progress.update(bar, completed=step / 100, note=NOTE)
    lines = log.getvalue().splitlines()
    assert 4 <= len(lines) <= 6  # of 20 s
    assert all(line.startswith("train velocity-rough") and line.endswith("steps/s") for line in lines)
    assert "100 %" in lines[-1]


def test_where_there_is_no_terminal_what_does_not_move_on_is_said_to_run_still(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(progress_, "err", Console(file=log, width=60, soft_wrap=True))
    monkeypatch.setattr(progress_, "STILL_EVERY_S", 0.5)
    with progress_.make_progress() as progress:
        progress.add_task("later", total=1.0, note="", start=False)
        progress.add_task("export", total=1.0, note="policy.onnx")
        time.sleep(2.5)  # a file is written
    lines = log.getvalue().splitlines()  # Ctrl-C: it is not done
    assert len(lines) >= 2 and all(line.startswith("export") and line.endswith("policy.onnx") for line in lines)
    time.sleep(1.5)
    assert log.getvalue().splitlines() == lines


def test_at_80_columns_the_whole_note_is_seen(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress_, "err", Console(file=screen, width=80, force_terminal=True))
    with progress_.make_progress() as progress:
        progress.update(progress.add_task("train velocity-rough", total=1.0, note=""), completed=0.5, note=NOTE)
    assert NOTE in screen.getvalue()


def test_what_is_learned_beside_a_rollout_is_a_share_of_the_clock():
    times = {"rollout": 1.0, "update": 0.95, "physics": 0.45, "terms": 0.41, "inference": 0.12, "at_once": 0.95}
    split = time_split({f"time/{part}_s": seconds for part, seconds in times.items()})
    assert split == "physics 45 terms 41 infer 12 %, learn 95 % at once"


def test_at_80_columns_where_the_time_goes_stands_in_a_second_line(monkeypatch):
    times = {"rollout": 0.8, "update": 0.2, "physics": 0.31, "terms": 0.24, "inference": 0.13}
    split = time_split({f"time/{part}_s": seconds for part, seconds in times.items()})
    assert split == "physics 31 terms 24 infer 13 learn 32 %"
    screen, log = io.StringIO(), io.StringIO()
    for console_ in (Console(file=screen, width=80, force_terminal=True), Console(file=log, width=60, soft_wrap=True)):
        monkeypatch.setattr(progress_, "err", console_)
        with progress_.make_progress() as progress:
            bar = progress.add_task("train velocity-rough", total=1.0, note="")
            progress.update(bar, completed=0.5, note=f"{NOTE}\n{split}")
    assert NOTE in screen.getvalue() and split in screen.getvalue()
    assert log.getvalue().endswith(f"{NOTE}  {split}\n")


def test_a_wait_or_a_start_makes_no_nonsense_of_the_time_left(monkeypatch):
    text, now = io.StringIO(), [0.0]
    monkeypatch.setattr(progress_, "err", Console(file=text, width=200))
    monkeypatch.setattr(progress_, "LINE_EVERY_S", 0.0)
    progress = progress_.make_progress()
    progress.get_time = lambda: now[0]
    bar = progress.add_task("whole way", total=150.0, note="")
    for now[0], done in (
        (6.0, 1.0),
        (7.0, 1.001),
        (126.0, 121.0),
        (136.0, 121.0),
        (156.0, 121.0),
        (157.0, 121.0005),
    ):
        progress.update(bar, completed=done)
    assert [line.split("eta ")[1] for line in text.getvalue().splitlines()] == [
        "-:--:--",
        "-:--:--",
        "0:00:29",
        "0:00:19",  # it counts down while nothing moves on
        "-:--:--",
        "0:00:37",
    ]


def test_a_training_says_how_long_it_takes_as_soon_as_one_iteration_has_shown_its_pace(monkeypatch):
    """Not of the first, in which a simulation is compiled; it said nothing for the first 2 %, minutes of a long one."""
    text, now = io.StringIO(), [0.0]
    monkeypatch.setattr(progress_, "err", Console(file=text, width=200))
    monkeypatch.setattr(progress_, "LINE_EVERY_S", 0.0)
    progress = progress_.make_progress()
    progress.get_time = lambda: now[0]
    bars = [
        progress.add_task(name, total=1.0, note="", **basis) for name, basis in (("train", {"basis": 0.0}), ("x", {}))
    ]
    for now[0], done in ((60.0, 0.001), (70.0, 0.002)):
        for bar in bars:
            progress.update(bar, completed=done)
    left = [line.split("eta ")[1] for line in text.getvalue().splitlines()]
    assert left == ["-:--:--", "-:--:--", "2:46:20", "-:--:--"]
