"""What the command prints: people read stderr and tables, machines read JSON on stdout."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

UNBROKEN = 12  # letters of a word in a table; a longer one, such as a path, is broken where it has to be

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


def say_stopping(processes: int, hint: str = "") -> None:
    """At Ctrl-C, what is waited for, at once."""
    err.print(f"stopping: waiting for {processes} processes{hint}", markup=False, soft_wrap=True)
