"""What the command prints: people read stderr and tables, machines read JSON on stdout."""

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from math import ceil
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
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
from rich.table import Column, Table
from rich.text import Text

BASIS = 0.02  # share of the way that a time left is estimated from
LINE_EVERY_S = 5.0  # of progress where there is no terminal
UNBROKEN = 12  # letters of a word in a table; a longer one, such as a path, is broken where it has to be
NARROW = 100  # columns of a terminal below which the bar makes room for the note

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def outlive_readers() -> None:
    """A reader that is gone, as `head` is after ten lines, ends nothing from now on: robots are in the air."""

    def go_silent(console: Console) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), console.file.fileno())

    for console in (out, err):
        console.on_broken_pipe = partial(go_silent, console)  # type: ignore[method-assign]


def print_json(value: Any) -> None:
    """Write `value` to stdout as indented JSON with full precision; NaN is refused, since JSON has none."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")  # all of it or nothing


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], whole: Iterable[int] = ()) -> None:
    """Print a table without lines; without header where there are no `columns`. The columns `whole` never wrap."""
    table = Table(
        *(Column(name, overflow="fold") for name in columns),
        box=None,
        show_header=bool(columns),
        header_style="dim",
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    cells = [[str(cell) for cell in row] for row in rows]
    for row in cells:
        table.add_row(*map(escape, row))
    for number, column in enumerate(table.columns):
        texts = [row[number] for row in [columns, *cells] if row]
        column.no_wrap = number in whole
        words = texts if column.no_wrap else [word for word in " ".join(texts).split() if len(word) <= UNBROKEN]
        column.min_width = max(map(len, words), default=None)
    # Where not even these fit, a line is longer than the terminal: rich would leave whole columns out
    if (least := sum((column.min_width or 0) + 2 for column in table.columns)) > out.width:
        table.width = least
    out.print(table, crop=False)


def print_section(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], whole: Iterable[int] = ()) -> None:
    """Print a table under a title, and an empty line; nothing without rows."""
    if found := list(rows):
        out.print(f"[bold]{escape(title)}[/]")
        print_table(columns, found, whole)
        out.print()


class _Spinner(SpinnerColumn):
    """Turns only while its task runs."""

    def render(self, task: Task) -> RenderableType:
        return super().render(task) if task.started else " "


class _TimeLeft(ProgressColumn):
    """Time left at the mean pace since the first progress; none before `BASIS` of the way has shown that pace.

    Rich's own takes the pace of the last half minute, in which a start, or a wait, may have been all that there was.
    """

    max_refresh = 0.5

    def __init__(self, table_column: Column | None = None) -> None:
        super().__init__(table_column)
        self._first: dict[TaskID, tuple[float, float]] = {}

    def render(self, task: Task) -> Text:
        now, total = task.get_time(), task.total or 1.0
        began, had = self._first.setdefault(task.id, (now, task.completed)) if task.completed else (now, 0.0)
        done = task.completed - had
        if done < BASIS * total:
            return Text("-:--:--", style="progress.remaining")
        left = timedelta(seconds=ceil((total - task.completed) * (now - began) / done))
        return Text(str(left), style="progress.remaining")


class _Lines(Progress):
    """Progress in a log: a line every few seconds, and one when a task is done."""

    def __init__(self, console: Console) -> None:
        super().__init__(console=console, disable=True)
        self._left = _TimeLeft()
        self._said: dict[TaskID, tuple[float, bool]] = {}

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """As rich's."""
        super().update(task_id, **changes)
        self._say(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """As rich's."""
        super().advance(task_id, advance)
        self._say(task_id)

    def _say(self, task_id: TaskID) -> None:
        task, now = self._tasks[task_id], time.monotonic()
        left = self._left.render(task).plain
        said_at, was_done = self._said.get(task_id, (-LINE_EVERY_S, False))
        if (task.finished and was_done) or not (task.finished or now - said_at >= LINE_EVERY_S):
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
