"""A contract in the words and tables of a person."""

from collections.abc import Iterable, Sequence
from math import degrees
from pathlib import Path

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from deploy.contract import Contract
from deploy.contract.tensor_specs import TensorSpec
from phalanx.console import out

SHIELD_FIELDS = (
    *("control_dt_s", "separation_m", "downwash_ratio", "brake_accel", "geofence_low", "geofence_high"),
    *("max_speed", "max_tilt_rad", "act_periods", "max_jump_m", "hold_s", "land_speed"),
)


def show_contract(contract: Contract, fingerprint: str, probe_error: float, path: Path) -> None:
    """Print the whole contract of the file at `path`; `probe_error` is what its self-test came to."""
    robot, team = contract.robot, contract.team
    group = f", group [bold]{escape(contract.group)}[/]," if contract.group else ""
    out.print(
        f"\n[bold]{escape(contract.task)}[/]{group} for [bold]{escape(robot.name)}[/] ({robot.kind})   "
        f"{escape(str(path))}"
    )
    out.print(
        f"[dim]{contract.format}   fingerprint {fingerprint[:16]}...   reproduces its probes to {probe_error:.1e}[/]\n"
    )
    out.print(
        f"Runs every {1e3 * contract.control_dt_s:g} ms ({1 / contract.control_dt_s:g} Hz). "
        f"Trained in a team of {team.trained_with}; hears the nearest {team.max_peers} in {team.peer_range_m:g} m.\n"
    )
    memory = {m.input for m in contract.memory}
    commands = {c.name for c in contract.commands}
    measured = [t for t in contract.inputs if t.name not in memory | commands]
    _section("It is given", _tensors(measured))
    _section(
        "You command",
        _table(
            ("command", "shape", "range", "frame", "meaning"),
            [(c.name, _shape(c.shape), _ranges(c.low, c.high, c.unit), c.frame, c.meaning) for c in contract.commands],
        ),
    )
    _section("It answers", _tensors([t for t in contract.outputs if not t.name.endswith("_out")]))
    _section(
        "Which drives",
        _table(
            ("channel", "range", "meaning"),
            [(c.name, f"{c.low:.3g} .. {c.high:.3g} {c.unit}", c.meaning) for c in robot.channels],
        ),
    )
    _section(
        "It remembers from one period to the next",
        _table(
            ("input", "fed from", "at the start"), [(m.input, m.output, _brief(m.initial)) for m in contract.memory]
        ),
    )
    _section("The shield that goes with it", shield_words(contract))
    _section("Where it comes from", _provenance(contract))


def shield_words(contract: Contract) -> Table:
    """What the shield enforces, in sentences with numbers."""
    s = contract.shield
    if not set(SHIELD_FIELDS) <= set(s):  # another shield, or a later one: show what it says of itself
        return _table((), [(name, str(value)) for name, value in s.items()])
    low, high = s["geofence_low"], s["geofence_high"]
    dt_ms = 1e3 * s["control_dt_s"]
    lines = [
        f"keeps {s['separation_m']:.2f} m between robots ({s['separation_m'] * s['downwash_ratio']:.2f} m above one "
        f"another), each doing half of the braking at {s['brake_accel']:g} m/s2",
        f"stays in x {low[0]:g}..{high[0]:g}, y {low[1]:g}..{high[1]:g}, z {low[2]:g}..{high[2]:g} m, "
        f"below {s['max_speed']:g} m/s and {degrees(s['max_tilt_rad']):.0f} deg of tilt",
        f"takes over when state or policy is silent for {s['act_periods']} periods ({s['act_periods'] * dt_ms:g} ms), "
        f"speaks NaN, or jumps by more than {s['max_jump_m']:g} m",
        f"then hovers, and gives the robot back after {s.get('recover_periods', 5)} good requests in a row, unless "
        f"hovers last longer than {s.get('latch_s', 0.5):g} s in all",
        f"after a hover of {s['hold_s']:g} s it lands at {s['land_speed']:g} m/s, still avoiding the others "
        f"(fallback {contract.robot.fallback!r}); a person resets it",
    ]
    return _table((), [("-", line) for line in lines])


def _provenance(contract: Contract) -> Table:
    p = contract.provenance
    versions = ", ".join(f"{name} {version}" for name, version in p.versions.items())
    return _table(
        (),
        [
            ("trained", f"{p.trained_at_utc}, seed {p.seed}, {p.env_steps:,} environment steps"),
            ("by", f"phalanx {p.phalanx_version}" + (f", commit {p.git_commit[:12]}" if p.git_commit else "")),
            ("with", versions),
        ],
    )


def _tensors(tensors: Iterable[TensorSpec]) -> Table:
    rows = [(t.name, _shape(t.shape), t.unit, t.frame, t.meaning) for t in tensors]
    return _table(("name", "shape", "unit", "frame", "meaning"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(
        *columns, box=None, show_header=bool(columns), header_style="dim", pad_edge=False, padding=(0, 2, 0, 0)
    )
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


def _section(title: str, body: Table) -> None:
    if body.row_count:
        out.print(f"[bold]{title}[/]")
        out.print(Padding(body, (0, 0, 1, 2)))


def _shape(shape: Sequence[int | str]) -> str:
    return " x ".join(str(part) for part in shape if part != "batch") or "1"


def _ranges(low: Sequence[float], high: Sequence[float], unit: str) -> str:
    return ", ".join(f"{a:g}..{b:g}" for a, b in zip(low, high, strict=True)) + f" {unit}"


def _brief(initial: Sequence) -> str:
    flat = str(list(initial)) if not any(isinstance(v, tuple | list) for v in initial) else "nested"
    return flat if len(flat) <= 40 else f"{flat[:37]}..."
