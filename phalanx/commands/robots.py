"""`phalanx robots`: what can be flown, moved and walked."""

from dataclasses import asdict
from math import degrees
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from phalanx.console import err, out, print_json, print_section, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deploy.shield.guarantee import Lines
    from hardware.spec import RobotSpec

JOINT = {  # column -> field of a joint
    "low": "low",
    "high": "high",
    "home": "home",
    "speed": "max_velocity",
    "accel": "max_acceleration",
    "effort": "max_effort",
    "kp": "stiffness",
    "kd": "damping",
    "armature": "armature",
    "dry": "friction",
}
CURVE = {  # column -> field of a torque-speed curve
    "full effort to": "corner_speed",
    "no load": "no_load_speed",
    "driving": "driving_effort",
    "braking": "braking_effort",
}
LIST = ("robot", "kind", "mass", "radius", "control", "channels", "fallback")
BRIEF = 4  # channels that the list writes out


def robots(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[ROBOT | compare ROBOT]")] = (),
    shield: bool = False,
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: bool = False,
) -> int:
    """List the robots, or show one: joints, limits, gains, and where every number is from.

    `compare ROBOT` shows our model beside the one with meshes that others made of it: masses, inertias, axes, ranges,
    gains, damping, armature, friction and torque limits. What differs by more than a tolerance has two figures.

    Args:
        names: Show this one; or module:NAME, a RobotSpec of your own.
        shield: Show what its shield guarantees instead, and under which bounds.
        markdown: Write what the shields guarantee, or with `compare` the comparisons, into a file, over what stands
            there between its marks.
        json: Print one JSON object on stdout, with every number's source.
    """
    from hardware import load_robot, robot_names

    comparing = names[:1] == ("compare",)
    names = names[comparing:]
    if len(names) > 1:
        raise ValueError(f"too many arguments: {names[1]!r}; see phalanx robots --help")
    name = names[0] if names else None
    if comparing and shield:
        raise ValueError("compare takes no --shield: see phalanx robots ROBOT --shield")
    if markdown is not None:
        if name or shield or json:
            raise ValueError("--markdown FILE: its marks name the robots; it takes neither ROBOT, --shield nor --json")
        _write(markdown, comparing)
        return 0
    if comparing:
        from phalanx.documents.models import show_comparison

        show_comparison(name, json)
        return 0
    specs = [load_robot(each) for each in ([name] if name else robot_names())]
    if shield:
        from deploy.shield.guarantees import make_guarantee

        promised = {spec.name: asdict(make_guarantee(spec)) for spec in specs}
        if json:
            print_json(promised)
        else:
            show_guarantees(promised)
    elif json:
        rows = [asdict(spec) | _file_names(spec) for spec in specs]
        print_json(rows[0] if name else {"robots": rows})
    elif name:
        show_robot(specs[0])
    else:
        print_table(LIST, map(_row, specs), whole=(0, 2))
    return 0


def _write(document: Path, comparing: bool) -> None:
    """What shields guarantee, or models compared, into a document."""
    from phalanx.documents.markdown import write_parts

    if comparing:
        from phalanx.documents.models import comparison_part as part
    else:
        from phalanx.documents.guarantees import guarantee_part as part
    write_parts(document, part)
    err.print(f"written {document}", markup=False)


def _file_names(spec: "RobotSpec") -> dict[str, str | None]:
    file = spec.fallback_policy
    return {"mjcf": spec.mjcf.name, "fallback_policy": file.name if file else None}


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
    print_section("Channels", ("channel", "range", "meaning"), [(c.name, _range(c), c.meaning) for c in spec.channels])
    joints = [(joint.name, *(f"{getattr(joint, field):.4g}" for field in JOINT.values())) for joint in spec.joints]
    title = "Joints, in rad or m, s, N m or N; kp and kd of the drive, dry friction"
    print_section(title, ("joint", *JOINT), joints, whole=range(1 + len(JOINT)))  # figures are never cut short
    curves = [
        (joint.name, *(f"{getattr(joint.torque_speed, field):g}" for field in CURVE.values()))
        for joint in spec.joints
        if joint.torque_speed
    ]
    print_section("Torque-speed curves of the motors, in rad/s and N m", ("joint", *CURVE), curves)
    print_section("Frames", ("frame", "site"), spec.frames.items())
    flight = asdict(spec.flight) if spec.flight else {}
    print_section("Flight", ("quantity", "value"), [(name, _plain(value)) for name, value in flight.items()])
    print_section("Where the numbers are from", ("what", "source"), spec.sources.items())


def show_guarantees(promised: "Mapping[str, Mapping[str, Lines]]") -> None:
    """Print what the shields of robots guarantee, by their names."""
    from deploy.shield.guarantee import TITLES

    for name, tables in promised.items():
        out.print(f"\n[bold]{name}[/]\n")
        for part, title in TITLES.items():
            print_section(title, ("what", "how much"), tables[part])


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_plain, value)) + ")"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    return "not published" if value is None else str(value)


def _range(channel) -> str:
    turn = f" ({degrees(channel.low):.0f} to {degrees(channel.high):.0f} deg)" if channel.unit == "rad" else ""
    return f"{channel.low:.4g} to {channel.high:.4g} {channel.unit}{turn}"


def _row(spec: "RobotSpec") -> tuple[str, ...]:
    named = ", ".join(f"{c.name} {c.low:.2g}..{c.high:.2g} {c.unit}" for c in spec.channels)
    channels = named if len(spec.channels) <= BRIEF else f"{len(spec.channels)}, of them {len(spec.joints)} joints"
    figures = (f"{spec.mass_kg:.4g} kg", f"{spec.radius_m:.3f} m", f"{spec.control_hz:g} Hz")
    return spec.name, spec.kind, *figures, channels, spec.fallback
