"""Progress of what takes longer than a second: a bar with the time left and a note, or lines in a log."""

import threading
import time
from datetime import timedelta
from math import ceil
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from phalanx.console import err

BASIS = 0.02  # share of the way that a time left is estimated from
LINE_EVERY_S = 5.0  # of progress where there is no terminal
STILL_EVERY_S = 10.0  # where there is none either, such as while a file is written
NARROW = 100  # columns of a terminal below which the bar makes room for the note


class _Spinner(SpinnerColumn):
    """Turns only while its task runs."""

    def render(self, task: Task) -> RenderableType:
        return super().render(task) if task.started else " "


class _TimeLeft(ProgressColumn):
    """Time left at the mean pace since the first progress; none before `BASIS` of the way has shown that pace.

    A task whose every step is as much work as any other has its own `basis`, such as 0: one step has shown it.
    Between two steps of progress it counts down, and there is none any more where all should have been done. Rich's own
    takes the pace of the last half minute, in which a start, or a wait, may have been all that there was.
    """

    max_refresh = 0.5

    def __init__(self, table_column: Column | None = None) -> None:
        super().__init__(table_column)
        self._first: dict[TaskID, tuple[float, float]] = {}  # when there was progress first, and how much
        self._last: dict[TaskID, tuple[float, float]] = {}  # when it was last seen to move on, and how far it was

    def render(self, task: Task) -> Text:
        now, total = task.get_time(), task.total or 1.0
        began, had = self._first.setdefault(task.id, (now, task.completed)) if task.completed else (now, 0.0)
        if self._last.get(task.id, (now, -1.0))[1] != task.completed:
            self._last[task.id] = now, task.completed
        moved = self._last[task.id][0]
        done = task.completed - had
        known = 0.0 < done >= task.fields.get("basis", BASIS) * total
        ends = moved + (total - task.completed) * (moved - began) / done if known else 0.0
        left = str(timedelta(seconds=ceil(ends - now))) if now <= ends else "-:--:--"
        return Text(left, style="progress.remaining")


class _Lines(Progress):
    """Progress in a log: a line every few seconds, also where nothing moves on, and one when a task is done."""

    def __init__(self, console: Console) -> None:
        super().__init__(console=console, disable=True)
        self._left = _TimeLeft()
        self._said: dict[TaskID, tuple[float, bool]] = {}
        self._over = threading.Event()

    def start(self) -> None:
        """As rich's."""
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """As rich's."""
        self._over.set()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """As rich's."""
        super().update(task_id, **changes)
        self._say(task_id, LINE_EVERY_S)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """As rich's."""
        super().advance(task_id, advance)
        self._say(task_id, LINE_EVERY_S)

    def _watch(self) -> None:
        """Say of tasks that nothing was said of for a while that they still run."""
        while not self._over.wait(1.0):
            with self._lock:
                running = [task.id for task in self._tasks.values() if task.started and not task.finished]
                for task_id in running:
                    self._say(task_id, STILL_EVERY_S)

    def _say(self, task_id: TaskID, every_s: float) -> None:
        with self._lock:
            task, now = self._tasks[task_id], time.monotonic()
            left = self._left.render(task).plain
            said_at, was_done = self._said.setdefault(task_id, (now - LINE_EVERY_S, False))
            if (task.finished and was_done) or not (task.finished or now - said_at >= every_s):
                return
            self._said[task_id] = now, task.finished
            parts = [str(task.description), f"{task.percentage:3.0f} %", TimeElapsedColumn().render(task).plain]
            parts += [] if task.finished else [f"eta {left}"]
            self.console.print("  ".join([*parts, *task.fields.get("note", "").split("\n")]).rstrip())


def make_progress() -> Progress:
    """Progress on stderr with elapsed time, ETA and a note: live in a terminal, as lines in a log.

    Tasks need `note=""`.
    """
    if not err.is_terminal:
        return _Lines(err)
    narrow = err.width < NARROW
    columns: list[ProgressColumn] = [
        _Spinner(finished_text="[green]✓[/]", table_column=_column(1)),
        TextColumn("{task.description}", table_column=_column(10)),
        *([] if narrow else [BarColumn(16, pulse_style="bar.back", table_column=_column(16))]),
        TaskProgressColumn(table_column=_column(4)),
        *([] if narrow else [TimeElapsedColumn(table_column=_column(7))]),
        TextColumn("eta", table_column=_column(3)),
        _TimeLeft(table_column=_column(7)),
        TextColumn("[dim]{task.fields[note]}[/]", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    ]
    return Progress(*columns, console=err, expand=True)


def _column(min_width: int) -> Column:
    return Column(min_width=min_width, no_wrap=True)


def training_note(numbers: dict[str, float]) -> str:
    """The few numbers of an iteration that a person watches; while held-out starts are flown, how far they are."""
    if "held_out" in numbers:
        return f"held-out starts are flown, {100 * numbers['held_out']:.0f} %"
    rate = numbers["steps_per_s"]
    parts = [f"{rate / 1e3:.0f} k steps/s" if rate >= 1e4 else f"{rate:.0f} steps/s"]
    if "success_rate" in numbers:
        parts.insert(0, f"success {100 * numbers['success_rate']:.0f} %")
    if "mean_return" in numbers:
        parts.insert(0, f"return {numbers['mean_return']:.1f}")
    return "  ".join(parts)


def time_split(numbers: dict[str, float]) -> str:
    """Where the time of an iteration went, in percent: physics, all else of the environment, inference, learning.

    What is learned beside the next rollout is a share of its own: "learn 95 % at once".
    """
    rollout, update = numbers["time/rollout_s"], numbers["time/update_s"]
    at_once = numbers.get("time/at_once_s", 0.0)
    whole = rollout + update - at_once
    named = {"physics": "physics", "terms": "terms", "infer": "inference"}  # short, to be whole at 80 columns
    if "time/physics_s" not in numbers:  # one program does all of it
        named = {"rollout": "rollout"}
    shares = {name: numbers[f"time/{part}_s"] / whole for name, part in named.items()}
    if at_once:
        shown = " ".join(f"{name} {100 * share:.0f}" for name, share in shares.items())
        return f"{shown} %, learn {100 * update / whole:.0f} % at once"
    shares["learn"] = 1.0 - sum(shares.values())
    return " ".join(f"{name} {100 * share:.0f}" for name, share in shares.items()) + " %"


def mission_note(state: dict) -> dict:
    """What a progress display shows of a mission's `on_progress` state."""
    if state["phase"] != "mission":
        domain = {"note": f"ROS domain {state['domain_id']}"} if "domain_id" in state else {}
        return {"description": state["phase"]} | domain
    modes = " ".join(str(getattr(mode, "name", mode)).lower() for mode in state["modes"])
    return {"description": "mission", "completed": state["t_s"], "note": state["event"] or modes}
