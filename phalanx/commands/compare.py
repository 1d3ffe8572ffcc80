"""`phalanx compare`: learning curves of runs, with intervals over their seeds."""

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from phalanx.console import err, out, print_json, print_table
from phalanx.folders import check_out
from phalanx.options import Json, OutFile

if TYPE_CHECKING:
    from policies.evaluation.curves import Comparison

HEADER = ("", "seeds", "steps", "at the end", "reached", "minutes")


def compare(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")],
    of: Annotated[str | None, tyro.conf.arg(metavar="NUMBER", help_behavior_hint="")] = None,
    reach: Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")] = None,
    out_file: OutFile = None,
    json: Json = False,
) -> int:
    """Compare training runs: what they came to, over their seeds, as a table and a picture.

    Runs that differ in nothing but their seed are one line: the interquartile mean over the seeds and its 95 %
    bootstrap interval. Runs may still be training.

    Args:
        runs: Folders of runs, or of several runs as `phalanx sweep` makes them.
        of: A column of progress.csv; success_rate, or mean_return where no run has had success yet, when not given.
        reach: Value of it whose first time is looked for; 0.9 of a rate, none of others, when not given.
        out_file: Picture of the curves to draw, .png, .svg or .pdf.
    """
    from policies.records import find_runs

    if not runs:
        raise ValueError("which runs? such as runs/hover runs/hover-td3; see phalanx compare --help")
    find_runs(runs)  # before what takes seconds to import
    from phalanx.report.curves import check_kind, draw_curves

    if out_file is not None:
        check_out(out_file)
        check_kind(out_file)
    from policies.evaluation.curves import compare as compare_runs
    from policies.evaluation.curves import read_runs

    found = compare_runs(read_runs(runs), of, reach)
    if out_file is not None:
        draw_curves(out_file, found.of, found.curves)
        err.print(f"written {out_file}", markup=False)
    if json:
        print_json(found.as_data())
    else:
        show_curves(found)
    return 0


def show_curves(found: "Comparison") -> None:
    """The curves as a table, the best at its end first."""
    what, reach = "interquartile mean over seeds (95 % interval)", found.reach
    said = f"{found.of}: {what}" + (f"; reached {reach:g} after how many steps" if reach is not None else "")
    out.print(said, markup=False)
    ordered = sorted(found.curves, key=lambda curve: -curve.middle[-1])
    shown = [place for place, title in enumerate(HEADER) if reach is not None or title != "reached"]
    rows = [tuple(row[place] for place in shown) for row in map(_row, ordered)]
    print_table(tuple(HEADER[place] for place in shown), rows, whole=range(1, len(shown)))


def _row(curve: Any) -> tuple[str, ...]:
    end = f"{curve.middle[-1]:.3g}"
    if curve.low is not None:
        end += f" ({curve.low[-1]:.3g} to {curve.high[-1]:.3g})"
    reached = [steps for steps in curve.reached_after if steps is not None]
    when = f"{median(reached):,.0f}" if reached else "never"
    when += f", {len(reached)} of {len(curve.seeds)}" if 0 < len(reached) < len(curve.seeds) else ""
    steps, minutes = f"{curve.agent_steps[-1]:,.0f}", f"{median(curve.wall_s) / 60:.1f}"
    return curve.label, str(len(curve.seeds)), steps, end, when, minutes
