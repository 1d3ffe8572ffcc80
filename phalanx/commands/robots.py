"""`phalanx robots`: what can be flown, moved and walked."""

from collections.abc import Iterable
from dataclasses import asdict
from math import degrees
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from phalanx.console import out, print_json

if TYPE_CHECKING:
    from hardware.spec import RobotSpec

JOINT = ("joint", "low", "high", "home", "speed", "accel", "effort", "kp", "kd", "armature", "dry")
BRIEF = 4  # channels that the list writes out


def robots(
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="ROBOT")] = None, json: bool = False
) -> int:
    """List the robots, or show one: joints, limits, gains, and where every number is from.

    Args:
        name: Show this one.
        json: Print one JSON object on stdout, with every number's source.
    """
    from hardware import load_robot, robot_names

    specs = [load_robot(each) for each in ([name] if name else robot_names())]
    if json:
        rows = [asdict(spec) | {"mjcf": spec.mjcf.name} for spec in specs]
        print_json(rows[0] if name else {"robots": rows})
    elif name:
        show_robot(specs[0])
    else:
        out.print(_list(specs))
    return 0


def show_robot(spec: "RobotSpec") -> None:
    """Print everything about one robot."""
    base = "bolted down" if spec.fixed_base else "free"
    out.print(f"\n[bold]{spec.name}[/]   {spec.kind}, base {spec.base_body!r} {base}")
    facts = [
        f"{spec.mass_kg:g} kg",
        f"within {spec.radius_m:g} m of its base",
        f"controlled at {spec.control_hz:g} Hz, measured at {spec.sensor_hz:g} Hz",
        f"fallback {spec.fallback}",
    ]
    out.print(f"[dim]{', '.join(facts)}[/]\n")
    _section("Channels", ("channel", "range", "meaning"), [(c.name, _range(c), c.meaning) for c in spec.channels])
    _section("Joints, in rad or m, s, N m or N; kp and kd of the drive, dry friction", JOINT, map(_joint, spec.joints))
    _section("Frames", ("role", "site"), spec.frames.items())
    if spec.flight:
        _section("Flight", ("quantity", "value"), [(k, f"{v:g}") for k, v in asdict(spec.flight).items()])
    _section("Where the numbers are from", ("what", "source"), spec.sources.items())


def _joint(joint) -> tuple[str, ...]:
    figures = (
        joint.low,
        joint.high,
        joint.home,
        joint.max_velocity,
        joint.max_acceleration,
        joint.max_effort,
        joint.stiffness,
        joint.damping,
        joint.armature,
        joint.friction,
    )
    return joint.name, *(f"{value:.4g}" for value in figures)


def _range(channel) -> str:
    turn = f" ({degrees(channel.low):.0f} to {degrees(channel.high):.0f} deg)" if channel.unit == "rad" else ""
    return f"{channel.low:.4g} to {channel.high:.4g} {channel.unit}{turn}"


def _list(specs: "list[RobotSpec]") -> Table:
    table = Table("robot", "kind", "mass", "radius", "control", "channels", "fallback", box=None, pad_edge=False)
    for spec in specs:
        named = ", ".join(f"{c.name} {c.low:.2g}..{c.high:.2g} {c.unit}" for c in spec.channels)
        channels = named if len(spec.channels) <= BRIEF else f"{len(spec.channels)}, of them {len(spec.joints)} joints"
        table.add_row(
            spec.name,
            spec.kind,
            f"{spec.mass_kg:.4g} kg",
            f"{spec.radius_m:.3f} m",
            f"{spec.control_hz:g} Hz",
            channels,
            spec.fallback,
        )
    return table


def _section(title: str, columns: tuple[str, ...], found: Iterable[tuple[str, ...]]) -> None:
    rows = list(found)
    if not rows:
        return
    table = Table(*columns, box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    if columns is JOINT:  # figures are never cut short, however narrow the terminal
        for column, cells in zip(table.columns, zip(columns, *rows, strict=True), strict=True):
            column.no_wrap, column.min_width = True, max(map(len, cells))
    out.print(f"[bold]{title}[/]")
    out.print(table, crop=False)
    out.print()
