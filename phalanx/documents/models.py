"""Our models of robots beside those that others made of them: tables for a terminal and for a document."""

from collections.abc import Iterator
from typing import Any

from hardware import load_robot
from phalanx.console import out, print_json, print_section
from phalanx.documents.markdown import table
from sim.model_comparison import QUANTITIES, SHARE, Comparison, Row, compare_models
from sim.vendor_models import VENDOR_MODELS

TITLES = {
    "links": "Links: kg, principal moments of inertia in kg m^2; what a joint carries, kg m^2, and its weight, N m",
    "places": "Places in the frame of the base, m: centres of mass, axes",
    "drives": "Joints and drives: rad or m, N m or N, kg m^2",
}


def show_comparison(name: str | None, json: bool) -> None:
    """Print a robot's model beside the other author's, as tables or as one JSON object. ValueError without one."""
    if name is None:
        raise ValueError(f"compare which robot? there are meshed models of {', '.join(sorted(VENDOR_MODELS))}")
    found = compare_models(load_robot(name))
    if json:
        print_json(_plain(found))
        return
    out.print(f"\n[bold]{found.robot}[/], our model beside that of {found.source}\n")
    for title, columns, rows in _tables(found, "{} | {}"):
        print_section(title, columns, rows, whole=range(len(columns)))
    out.print(_summary(found))
    out.print(
        f"Two figures: ours | theirs, apart by more than {100 * SHARE:g} % of the larger one; of ranges, places and "
        "axes by 1 mrad or 2 mm. --json has every tolerance."
    )


def comparison_part(name: str) -> str:
    """The tables of the robot that a mark names, in Markdown; ValueError where there is no model to compare with."""
    found = compare_models(load_robot(name))
    tables = (f"{title}.\n\n{table(columns, rows)}" for title, columns, rows in _tables(found, "**{} / {}**"))
    return "\n".join([f"{found.robot} beside {found.source}. {_summary(found)}\n", *tables])


def _tables(found: Comparison, apart: str) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Title, columns and rows of each section; `apart` is the cell of two figures that differ."""
    for section, title in TITLES.items():
        quantities = [name for name, kind in QUANTITIES.items() if kind.section == section]
        joints: dict[str, dict[str, str]] = {}
        for row in found.rows:
            if row.quantity in quantities:
                joints.setdefault(row.joint, {})[row.quantity] = _cell(row, apart)
        yield title, ("", *quantities), [(joint, *(of.get(q, "") for q in quantities)) for joint, of in joints.items()]


def _cell(row: Row, apart: str) -> str:
    return apart.format(_figure(row.ours), _figure(row.theirs)) if row.differs else _figure(row.ours)


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{round(value, 6) + 0.0:.4g}"  # rounding leaves no -0 and no 1e-17


def _summary(found: Comparison) -> str:
    differing = sum(row.differs for row in found.rows)
    more = {"ours": found.only_ours, "theirs": found.only_theirs}
    only = [f"only {which} has {', '.join(joints)}" for which, joints in more.items() if joints]
    said = f"{differing} of {len(found.rows)} figures differ by more than their tolerance"
    return "; ".join([said, *only]) + "."


def _plain(found: Comparison) -> dict[str, Any]:
    return {
        "robot": found.robot,
        "beside": found.source,
        "share": SHARE,
        "differing": sum(row.differs for row in found.rows),
        "only_ours": found.only_ours,
        "only_theirs": found.only_theirs,
        "rows": [row._asdict() for row in found.rows],
    }
