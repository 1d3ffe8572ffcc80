"""What the command prints: people read stderr and tables, machines read JSON on stdout."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as EtaColumn

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Write `value` to stdout as indented JSON with full precision; NaN is refused, since JSON has none."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def make_progress() -> Progress:
    """A progress display with bar, elapsed time and ETA, on stderr so that stdout stays clean."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("eta"),
        EtaColumn(),
        TextColumn("{task.fields[note]}"),
        console=err,
    )
