"""The result of `phalanx attack` for people and machines: table, attack.json, report.html."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from phalanx.report.gates import Gate
from phalanx.report.page import render_page

COLUMNS = ("fault", "attackers", "steps", "violations", "least margin", "changed", "held", "ended")
ABOUT = (
    "Teams in simulation, each robot behind the shield that it has in ROS 2. All policies attack. Margins are measured "
    "where the bodies are: 0 is the guaranteed limit."
)


def table_of(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Rows of `COLUMNS`, for the terminal and the page: a fault and a class of attackers each."""
    return [_row(row) for row in result["classes"]]


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Violations outside of what is stated are in brackets."""
    of = ", ".join(f"{n} {what}" for what, n in sorted(row["broken"].items(), key=lambda item: -item[1]))
    count = f"{row['violations']}" if len(row["broken"]) < 1 else f"{row['violations']}: {of}"
    count = count if row["inside"] else f"({count})"
    where = "" if row["inside"] else ", outside"
    return (f"{row['fault']}{where}", row["attackers"], f"{row['steps']:,}", count, *_shares(row), _ended(row["ended"]))


def in_words(total: Mapping[str, Any]) -> str:
    """`1,000 robot-steps, 0 violations, least margin 0.12, policy changed in 95 %`."""
    if not total["steps"]:
        return "nothing flown"
    margin, changed, held = _shares(total)
    most = "".join(f", {name.replace('_', ' ')} {value:.3f}" for name, value in total["most"].items())
    return (
        f"{total['steps']:,} robot-steps, {total['violations']} of them in violation, least margin {margin}{most}; "
        f"command changed in {changed}, robot held in {held}"
    )


def write_attack(result: Mapping[str, Any], folder: Path) -> None:
    """attack.json and report.html in `folder`."""
    (folder / "attack.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    broken = result["inside"]["violations"]
    page = {
        "task": "",
        "kind": f"{result['target']}, teams of {', '.join(map(str, result['robots']))}",
        "seed": result["seed"],
        "success": result["passed"],
        "gates": [asdict(Gate("robot-steps in violation, inside of what is stated", not broken, str(broken), "0"))],
        "about": ABOUT,
        "attack": {"columns": COLUMNS, "rows": table_of(result)},
        "files": {place: in_words(result[place]) for place in ("inside", "outside")},
    }
    (folder / "report.html").write_text(render_page(page, None, f"{result['robot']}: shield under attack"), "utf-8")


def _shares(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Least margin, shares of the steps in which the shield changed the command, and in which it flew itself."""
    name = min(row["margins"], key=row["margins"].__getitem__, default="")
    least = row["margins"].get(name, 0.0)
    margin = f"{least:.3f} {name}" if abs(least) >= 5e-4 else f"{least:.0e} {name}" if name else "-"
    changed, held = (f"{100 * row[name] / row['steps']:.1f} %" for name in ("changed", "held"))
    return margin, changed, held


def _ended(modes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {mode.lower()}" for mode, count in sorted(modes.items(), key=lambda item: -item[1]))
