"""`phalanx robots`: what can be flown."""

from dataclasses import asdict

from rich.table import Table

from phalanx.console import out, print_json


def robots(json: bool = False) -> int:
    """List the robots with their channels, rates and limits.

    Args:
        json: Print one JSON object on stdout, with every number's source.
    """
    from hardware import load_robot, robot_names

    specs = [load_robot(name) for name in robot_names()]
    if json:
        print_json({"robots": [asdict(spec) | {"mjcf": spec.mjcf.name} for spec in specs]})
        return 0
    table = Table("robot", "kind", "mass", "radius", "control", "channels", "fallback", box=None, pad_edge=False)
    for spec in specs:
        channels = ", ".join(f"{c.name} {c.low:.2g}..{c.high:.2g} {c.unit}" for c in spec.channels)
        table.add_row(
            spec.name,
            spec.kind,
            f"{spec.mass_kg:g} kg",
            f"{spec.radius_m:.3f} m",
            f"{spec.control_hz:g} Hz",
            channels,
            spec.fallback,
        )
    out.print(table)
    return 0
