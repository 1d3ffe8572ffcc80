"""What the runs of a sweep came to as a picture: a panel for each number."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PANELS = 6  # at most
COLUMNS = 3


def draw_points(path: Path, table: Sequence[Mapping[str, Any]]) -> None:
    """Draw rows with "labels", and "numbers" as [middle, least, most], over the first label that differs.

    Rows that differ in other labels too are lines of their own; bars reach from the least to the most.
    """
    from matplotlib.figure import Figure  # no window, and no global state as pyplot has

    numbers = list(dict.fromkeys(name for row in table for name in row["numbers"]))[:PANELS]
    names = dict.fromkeys(name for row in table for name in row["labels"])
    differ = [name for name in names if len({row["labels"].get(name) for row in table}) > 1] or list(names)[:1]
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in table:
        key = " ".join(f"{name}={row['labels'].get(name, '')}" for name in differ[1:])
        lines.setdefault(key, []).append(row)
    width = min(COLUMNS, len(numbers))
    height = -(-len(numbers) // COLUMNS)
    figure = Figure(figsize=(4 * width, 3 * height), layout="constrained")
    for number, axes in zip(numbers, figure.subplots(height, width, squeeze=False).flat, strict=False):
        for key, rows in lines.items():
            seen = [row for row in rows if number in row["numbers"]]
            at = [_place(row["labels"].get(differ[0], "")) if differ else "" for row in seen]
            middle, least, most = zip(*(row["numbers"][number] for row in seen), strict=True)
            axes.vlines(at, least, most, alpha=0.4)
            axes.plot(at, middle, "o-" if all(isinstance(x, float) for x in at) else "o", label=key or None)
        axes.set(xlabel=differ[0] if differ else "", title=number)
        axes.grid(alpha=0.3)
    if len(lines) > 1:
        figure.axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=150)


def _place(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
