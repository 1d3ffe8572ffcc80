"""What the command prints: people read stderr and tables, machines read JSON on stdout."""

import json
import sys
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Column

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Write `value` to stdout as indented JSON with full precision; NaN is refused, since JSON has none."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")  # all of it or nothing


class _Bar(BarColumn):
    """A bar that lies still until its task begins; rich's own would pulse as if something were going on."""

    def render(self, task: Task) -> ProgressBar:
        return super().render(task) if task.started else ProgressBar(total=1.0, completed=0.0, width=self.bar_width)


class _Spinner(SpinnerColumn):
    """Turns only while its task runs."""

    def render(self, task: Task) -> RenderableType:
        return super().render(task) if task.started else " "


def make_progress() -> Progress:
    """Bar, elapsed time, ETA and a note, on stderr so that stdout stays clean; tasks need `note=""`."""
    return Progress(
        _Spinner(finished_text="[green]✓[/]", table_column=_column(1)),
        TextColumn("{task.description}", table_column=_column(10)),
        _Bar(bar_width=16, table_column=_column(16)),
        TaskProgressColumn(table_column=_column(4)),
        TimeElapsedColumn(table_column=_column(7)),
        TextColumn("eta", table_column=_column(3)),
        TimeRemainingColumn(table_column=_column(7)),
        TextColumn("[dim]{task.fields[note]}[/]", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        console=err,
        expand=True,
    )


def _column(min_width: int) -> Column:
    return Column(min_width=min_width, no_wrap=True)
