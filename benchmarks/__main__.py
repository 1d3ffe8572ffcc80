"""`python -m benchmarks NAME`: how fast it is, and what else was measured; each is a module of this name."""

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hardware.ranges import check_range
from phalanx.arguments import explain, parse_command
from phalanx.console import out, print_json, print_section
from phalanx.progress import make_progress

PROGRAM = "python -m benchmarks"
DESCRIPTION = "Measure on this machine how fast it is, and how well it does what it is for."
BENCHMARKS = (  # as they are listed
    "sim",
    "scale",
    "peers",
    "engines",
    "control",
    "shield",
    "ros",
    "transfer",
    "verdicts",
    "devices",
    "learners",
    "franka",
    "demo",
    "flights",
    "updates",
    "shards",
    "sweeps",
)
MAY_BE_ZERO = ("neighbours",)
MOST_FIGURES = 24  # of one thing in a table that it shares with others; where there are more, it has its own
MOST_COLUMNS = 6  # of a table; where more things were measured, each is a row


def command(name: str) -> Callable[..., int]:
    """The benchmark as a command: its own options, and --json."""
    measure: Callable[..., dict[str, Any]] = getattr(importlib.import_module(f"benchmarks.{name}"), f"bench_{name}")
    signature = inspect.signature(measure)
    options = {key: each for key, each in signature.parameters.items() if key != "on_progress"}

    def run(json: bool = False, **given: Any) -> int:
        _check({key: value for key, value in given.items() if value != options[key].default})
        with make_progress() as progress:
            bar = progress.add_task(f"bench {name}", total=None, note="")
            found = measure(**given, on_progress=lambda total: progress.update(bar, total=total, advance=1))
        from phalanx.machine import machine, versions

        repeats = {key: given[key] for key in given if key == "repeats"}
        result = {"bench": name, **repeats, **found, "machine": machine()}
        result["versions"] = versions() | found.get("versions", {})
        if json:
            print_json(result)
            return 0
        show(result)
        on, median = result["machine"], f", median of {given['repeats']}" if given.get("repeats", 1) > 1 else ""
        out.print(f"[dim]{on['processor']}, {on['cores']} cores, load {on['load_1min']}{median}[/]")
        return 0

    asked = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    run.__annotations__ = {each.name: each.annotation for each in (*options.values(), asked)}
    run.__signature__ = signature.replace(parameters=[*options.values(), asked])  # type: ignore[attr-defined]
    run.__doc__ = f"{inspect.cleandoc(measure.__doc__ or '')}\n    json: Print one JSON object on stdout."
    return run


def _summary(name: str) -> str:
    """What a benchmark measures, without loading it, which takes seconds."""
    source = ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    (measure,) = (each for each in source.body if isinstance(each, ast.FunctionDef) and each.name == f"bench_{name}")
    return (ast.get_docstring(measure) or "").splitlines()[0]


def show(value: Any, title: str = "") -> None:
    """Print what was measured: a table with a column a measurement where they are alike, else the parts one by one."""
    named = value if isinstance(value, dict) else {str(k): row for k, row in enumerate(value)}
    parts = {name: part for name, part in named.items() if name not in ("bench", "repeats", "machine", "versions")}
    rows = [_flat(part) for part in parts.values() if isinstance(part, dict)]
    plain = not any(isinstance(cell, list) for row in rows for cell in row.values())
    if rows and len(rows) == len(parts) and plain and max(map(len, rows)) <= MOST_FIGURES:
        figures = dict.fromkeys(key for row in rows for key in row)
        if len(parts) > MOST_COLUMNS and isinstance(value, dict):
            cells = [[_figure(row.get(key, "")) for key in figures] for row in rows]
            print_section(title, ("", *figures), [(name, *row) for name, row in zip(parts, cells, strict=True)])
            return
        columns = ["", *(parts if isinstance(value, dict) else [""] * len(rows))]
        print_section(title, columns, [(key, *(_figure(row.get(key, "")) for row in rows)) for key in figures])
        return
    single = {name: part for name, part in parts.items() if not isinstance(part, dict | list)}
    print_section(title, (), [(name, _figure(part)) for name, part in single.items()])
    for name, part in parts.items():
        if name not in single:
            show(part, f"{title} {name}".strip())


def _flat(row: dict[str, Any], front: str = "") -> dict[str, Any]:
    """One level: `training.physics`."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        found |= _flat(value, f"{front}{key}.") if isinstance(value, dict) else {front + key: value}
    return found


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _check(given: dict[str, Any]) -> None:
    """ValueError for the first number or list that there is too little of."""
    for name, value in given.items():
        least = 0 if name in MAY_BE_ZERO else 1
        if isinstance(value, tuple) and all(isinstance(each, int) for each in value):
            check_range(name, min(value, default=0), least)
        elif isinstance(value, int) and not isinstance(value, bool):
            check_range(name, value, least)


def main() -> None:
    """Run the benchmark that the command line names; errors of the user as one line, exit code 2."""
    args = sys.argv[1:]
    try:
        if args and (name := args[0]) in BENCHMARKS:
            sys.exit(parse_command({name: command(name)}, name, args[1:], PROGRAM)())
        sys.exit(explain({name: _summary(name) for name in BENCHMARKS}, args, PROGRAM, DESCRIPTION))
    except KeyboardInterrupt:
        print("benchmarks: interrupted", file=sys.stderr)
        sys.exit(130)
    except (ValueError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
