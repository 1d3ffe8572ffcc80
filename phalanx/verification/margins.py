"""The margins of policy files in words: a table in the terminal, and the part of a document that lists records."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from deploy.bundle.verification import FLY, NOT
from phalanx.console import out, print_table
from phalanx.documents.markdown import table
from phalanx.verification.records import fingerprints, renewed
from policies.evaluation.flight_advice import name_of

if TYPE_CHECKING:
    from deploy.contract import Contract

COLUMNS = ("pushed", "unit", "trained to", "hardware shows", "holds to", "falls at", "room")
COLOURS = {FLY: "green", NOT: "red"}


def show_margins(margins: Mapping[str, Any]) -> None:
    """Print a row for each number and direction, and what was flown."""
    rows = [*margins["rows"], *([margins["corner"]] if margins["corner"] else [])]
    print_table(COLUMNS, [_cells(row, rows) for row in rows])
    for name, share in margins["physics"].items():
        out.print(f"{name}: success {100 * share:.1f} %")
    for group, names in margins["not_pushed"].items():
        out.print(f"not pushed, of what {escape(group)} varies: {', '.join(names)}")
    out.print(
        f"{margins['episodes']} episodes for each value, behind the shield; it falls where they refute a success of "
        f"{margins['gate']:g}, with 95 % confidence. Room: of what was trained, from the nominal value."
    )


def show_advice(flight: Mapping[str, Any]) -> None:
    """Print whether to fly, and each reason in a line."""
    colour = COLOURS.get(flight["advice"], "yellow")
    out.print(f"[{colour}]{flight['advice']}[/]" + (":" if flight["reasons"] else ""))
    for reason in flight["reasons"]:
        out.print(f"  {reason['name']}: {reason['why']}", markup=False)


def write_margins(document: Path, part: str) -> str:
    """What `phalanx verify --margins --json` found, of all records in the folder of `document`, as two tables.

    The advice is what that comes to today.
    """
    if part != "margins":
        raise ValueError(f"'{part}': of these records 'margins' can be written, nothing else")
    records, contracts = {}, _contracts(document.parent)
    for file in sorted(document.parent.glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        if "margins" in record:
            parts = fingerprints(record)
            records[file.stem] = renewed(record, [each for found, each in contracts.items() if found in parts])
    if not records:
        return ""
    names: dict[str, None] = {}
    cells: dict[str, dict[str, str]] = {}
    for task, record in records.items():
        rows = [*record["margins"]["rows"], *filter(None, [record["margins"]["corner"]])]
        cells[task] = {f"{name_of(row, rows)} ({row['unit']})": _cell(row) for row in rows}
        names |= dict.fromkeys(cells[task])
    verdicts = ((f"`{task}`", _advice(record), _reasons(record), _flown(record)) for task, record in records.items())
    return (
        table(("policies of", "advice", "because", "episodes for each value"), verdicts)
        + "\n"
        + table(("pushed", *cells), ((name, *(of.get(name, "") for of in cells.values())) for name in names))
    )


def _contracts(folder: Path) -> "dict[str, Contract]":
    """Of the policy files in a folder, by their fingerprints."""
    from deploy.bundle import load_bundle

    bundles = (load_bundle(file) for file in sorted(folder.glob("*.onnx")))
    return {bundle.fingerprint: bundle.contract for bundle in bundles}


def _cells(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> tuple[str, ...]:
    trained, field = (_number(row[edge]) for edge in ("trained", "field"))
    return name_of(row, rows), row["unit"], trained, field, _holds(row), _falls(row), _room(row)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _holds(row: Mapping[str, Any]) -> str:
    if not (row["found"] or row["success"]):
        return "unknown"
    return "none" if row["held"] is None else _number(row["held"])


def _falls(row: Mapping[str, Any]) -> str:
    if row["fell"] is None:
        return f"beyond {row['farthest']:.4g}" if row["found"] else "unknown"
    return _number(row["fell"]) if row["found"] else f"up to {_number(row['fell'])}"


def _room(row: Mapping[str, Any]) -> str:
    if not row["found"]:
        return "unknown"
    return "" if row["room"] is None else f"x{row['room']:.1f}"


def _cell(row: Mapping[str, Any]) -> str:
    """`0.045 (trained to 0.03)`: what it holds to."""
    trained = f", trained to {_number(row['trained'])}" if row["trained"] is not None else ""
    return f"{_holds(row)}{'' if row['fell'] is not None else ' and beyond'}{trained}"


def _advice(record: Mapping[str, Any]) -> str:
    return f"**{record['flight']['advice']}**"


def _reasons(record: Mapping[str, Any]) -> str:
    return "; ".join(f"{reason['name']}: {reason['why']}" for reason in record["flight"]["reasons"])


def _flown(record: Mapping[str, Any]) -> str:
    return str(record["margins"]["episodes"])
