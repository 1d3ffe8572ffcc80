"""`phalanx drill`: faults in flight, and what the shield makes of them."""

from pathlib import Path

from rich.table import Table

from phalanx.console import err, out, print_json
from phalanx.folders import fresh_folder
from phalanx.options import Json, OutFolder, PolicyFile
from phalanx.progress import make_progress


def drill(
    path: PolicyFile = Path("zoo/swarm-swap.onnx"),
    rows: tuple[str, ...] = (),
    out_dir: OutFolder = None,
    json: Json = False,
) -> int:
    """Strike a simulated team in flight with one fault after the other; exits 1 when one ends badly.

    Processes killed and frozen in each phase, lost, late, doubled and false messages, strangers, a full disk, an
    emergency stop. The first robot is struck; each row is a flight of 20 s and says what must happen, how many control
    periods passed until the shield acted, and how it ended.

    Args:
        path: Policy file of a Crazyflie with goals, which flies two; or a team file (.yaml), all of whose robots are
            simulated.
        rows: Only these faults, by name; all when none is given.
        out_dir: New folder for logs and series; a fresh one under runs/drill when not given.
    """
    from ros_nodes.drill.drill import as_json, plan_drill, rows_for
    from ros_nodes.drill.drill import drill as fly

    total = len(rows_for(plan_drill(path)[1], rows))  # what is wrong with the rows is said before there is a folder
    folder = (out_dir or fresh_folder(Path("runs/drill"))).resolve()
    with make_progress() as progress:
        bar = progress.add_task("drill", total=total, note="")
        outcomes = fly(path, folder, lambda outcome: progress.update(bar, advance=1, note=outcome.name), rows)
    passed = all(outcome.passed for outcome in outcomes)
    if json:
        print_json({"passed": passed, "rows": as_json(outcomes)})
        return 0 if passed else 1
    table = Table("fault", "held after", "ended", "must", "other", "closest", "moved")
    for row in outcomes:
        periods = "-" if row.reaction_periods is None else f"{row.reaction_periods:.1f} periods"
        mark = "" if row.passed else " [red]failed[/]"
        state = f"{row.state}{', [red]motors off in the air[/]' if row.cut_in_air else ''}"
        if row.down_s is not None:
            state += f", down after {row.down_s:.1f} s at {row.down_m_s:.1f} m/s"
        closest = "-" if row.least_distance_m is None else f"{row.least_distance_m:.2f} m"
        moved = "-" if row.moved_m is None else f"{row.moved_m:.2f} m"
        table.add_row(row.name + mark, periods, state, row.must, row.other_state or "-", closest, moved)
    out.print(table)
    for row in outcomes:
        if row.reason and (not row.passed or "FAULT" in (row.state, row.other_state)):
            out.print(f"{row.name}: {row.reason}", markup=False, soft_wrap=True)
    err.print(f"logs and series are in {folder}", markup=False)
    return 0 if passed else 1
