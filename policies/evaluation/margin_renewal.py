"""Margins of an older record beside what is known of hardware, and can be pushed, today."""

from collections.abc import Mapping
from typing import Any

from sim.perturbations import perturbations
from sim.task import TaskCfg


def as_hardware_shows(margins: Mapping[str, Any], task: TaskCfg) -> dict[str, Any]:
    """Margins that were measured once, beside what is known of hardware today.

    `unknown` are the numbers that can be pushed today and could not be then, if any.
    """
    shown = {(group, each.name): each for group in task.groups for each in perturbations(task, group)}

    def renewed(row: Mapping[str, Any]) -> Mapping[str, Any]:
        each = shown.get((row["group"], row["parameter"]))
        return {**row, "field": each.edge(each.field, row["direction"] == "up")} if each else row

    rows = [renewed(row) for row in margins["rows"]]
    flown = {(row["group"], row["parameter"]) for row in rows}
    new = {number: each for number, each in shown.items() if number not in flown and not margins["only"]}
    several = len(task.groups) > 1
    unknown = [
        f"{group}: {name}" if several else name
        for (group, name), each in new.items()
        if each.grid(False, None) or each.grid(True, None)
    ]
    kept = {name: value for name, value in margins.items() if name != "unknown"}
    return {**kept, "rows": rows} | ({"unknown": unknown} if unknown else {})
