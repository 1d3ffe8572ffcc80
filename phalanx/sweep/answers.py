"""What commands of a sweep have answered in JSON, as rows of numbers: for a table, a CSV file and a picture."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.console import out, print_table
from phalanx.sweep.points import varied_in
from policies.checkpoint import replace_file

if TYPE_CHECKING:
    from phalanx.sweep.pool import Sweep

CSV = "table.csv"
SEED = "seed"
SUMS, LEAST = ("robot-steps", "violations inside", "violations outside"), ("least margin",)  # over seeds; others: mean


@dataclass(frozen=True)
class Row:
    """Numbers of one run, or of one team of it."""

    labels: Mapping[str, str]  # what it was asked, by option, and the team
    numbers: Mapping[str, float]


def _of_eval(answer: Mapping[str, Any]) -> list[Row]:
    rows = []
    for team in answer["teams"]:
        failures = {name: rate for name, rate in team["failure_rates"].items() if rate > 0.0}
        numbers = {"success": team["success_rate"], **failures, "intervened": team["intervention_rate"]}
        numbers |= {"return": team["mean_return"], "episode s": team["mean_episode_s"]}
        rows.append(Row({"robots": str(team["num_agents"])}, numbers))
    return rows


def _of_verify(answer: Mapping[str, Any]) -> list[Row]:
    names = {"success": "success_rate", "with shield": "shielded_success_rate", "collisions": "shielded_collision_rate"}
    verified = {"verified": float(answer["verdict"] == "verified")}
    return [
        Row({"robots": size}, {name: team[key] for name, key in names.items()} | verified)
        for size, team in answer["teams"].items()
    ]


def _of_attack(answer: Mapping[str, Any]) -> list[Row]:
    if "inside" not in answer:  # calls of the shield with inputs of any kind
        return [Row({}, {"robot-steps": answer["steps"], "violations inside": answer["violations"]})]
    inside, outside = answer["inside"], answer["outside"]
    numbers = {"robot-steps": inside["steps"] + outside["steps"]}
    numbers |= {"violations inside": inside["violations"], "violations outside": outside["violations"]}
    if inside["margins"]:
        numbers["least margin"] = min(inside["margins"].values())
    return [Row({}, numbers)]


READERS: dict[str, Callable[[Mapping[str, Any]], list[Row]]] = {
    "eval": _of_eval,
    "verify": _of_verify,
    "attack": _of_attack,
}


def read_rows(sweep: "Sweep") -> list[Row]:
    """A row or more for each run that has answered, with what tells it apart from the others."""
    rows, varied = [], varied_in({name: run.args for name, run in sweep.runs.items()})
    for name, run in sweep.runs.items():
        answer = sweep.answer(name) if run.state == "done" else None
        if answer is not None:
            rows += [Row(varied[name] | dict(row.labels), row.numbers) for row in READERS[sweep.command](answer)]
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """All rows as CSV, the file replaced as a whole."""
    columns = list(dict.fromkeys(name for row in rows for name in (*row.labels, *row.numbers)))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows({**row.labels, **row.numbers} for row in rows)
    replace_file(path, lambda file: file.write(text.getvalue().encode()))


def over_seeds(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows that differ in their seed as one: labels, seeds, and of each number what it comes to, its least and most.

    A count is a sum and a margin the least, that no seed's violation is lost in a mean.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple((k, v) for k, v in row.labels.items() if k != SEED), []).append(row)
    found = []
    for labels, members in groups.items():
        numbers = {}
        for name in dict.fromkeys(name for row in members for name in row.numbers):
            values = [row.numbers.get(name, 0.0) for row in members]
            whole = sum(values) if name in SUMS else min(values) if name in LEAST else sum(values) / len(values)
            numbers[name] = [whole, min(values), max(values)]
        found.append({"labels": dict(labels), "seeds": len(members), "numbers": numbers})
    return found


def show_rows(table: Sequence[Mapping[str, Any]]) -> None:
    """The table over seeds, without labels that are the same everywhere."""
    labels = dict.fromkeys(name for row in table for name in row["labels"])
    names = [name for name in labels if len({row["labels"].get(name) for row in table}) > 1]
    numbers = list(dict.fromkeys(name for row in table for name in row["numbers"]))
    if any(row["seeds"] > 1 for row in table):
        out.print("means over seeds (least to most); counts are sums, margins the least", markup=False)
    rows = [
        (
            *(row["labels"].get(name, "") for name in names),
            str(row["seeds"]),
            *(_cell(name, row["numbers"].get(name)) for name in numbers),
        )
        for row in table
    ]
    columns = (*names, "seeds", *numbers)
    print_table(columns, rows, whole=range(len(names), len(columns)))


def _cell(name: str, number: Sequence[float] | None) -> str:
    if number is None:
        return ""
    whole, least, most = number
    if name in SUMS:
        return f"{whole:,.0f}"
    return f"{whole:.3g}" if least == most or name in LEAST else f"{whole:.3g} ({least:.3g} to {most:.3g})"
