"""`phalanx identify`: what this one robot is like, from a recording of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import tyro

from phalanx.console import out, print_json, print_section
from phalanx.folders import check_out
from phalanx.options import Json, OutFile, Seconds
from phalanx.progress import make_progress

Recorded = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="BAG")]
RobotName = Annotated[str, tyro.conf.arg(metavar="ROBOT")]
InBag = Annotated[str, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
Known = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NUMBER=VALUE...", help_behavior_hint="")]


def identify(
    bag: Recorded,
    robot: RobotName,
    name: InBag = "",
    out_file: OutFile = None,
    known: Known = (),
    window_s: Seconds = None,
    json: Json = False,
) -> int:
    """Fit the simulator to a recording of one robot, and write in what that robot differs from its specification.

    Replays the recorded commands in the robot's own model, in short windows, and fits mass, thrust, lags, gains,
    friction, inertia and delay by least squares; the last quarter is held out. What the recording does not tell is
    said. The file that it writes names that robot wherever a robot is asked for.

    Args:
        bag: Folder of a rosbag2, in MCAP or SQLite, or one that `phalanx deploy` wrote; a ULog of PX4, .ulg (extra
            `ulog`); or a table, .npz or .csv.
        robot: Kind of robot, see `phalanx robots`.
        name: Of the robot in the bag; the only one of its kind when not given.
        out_file: File to write; ROBOT@lab.yaml when not given.
        known: Numbers that were measured otherwise and are not fitted, such as mass_kg=0.0442 from a scale.
        window_s: How long each window is; as is good for the class of robot when not given.
    """
    from hardware import load_robot
    from hardware.overlay import SUFFIX, save_overlay
    from hardware.ranges import check_range

    check_range("window_s", window_s, 0.02, 10.0)
    spec = load_robot(robot)
    if robot.endswith(SUFFIX):
        raise ValueError(f"--robot {robot}: wanted the kind of robot, {spec.name}; what is known of it goes to --known")
    target = out_file or Path(f"{spec.name}@lab.yaml")
    check_out(target)
    numbers = _numbers(known)
    from sim.identification.identify import IdentifyCfg
    from sim.identification.identify import identify as run

    with make_progress() as progress:
        bar = progress.add_task("identify", total=1.0, note="")
        cfg = IdentifyCfg(numbers, window_s, name=name)
        found, overlay = run(bag, robot, spec, cfg, lambda s, note: progress.update(bar, completed=s, note=note))
    save_overlay(target, overlay)
    if json:
        print_json({**found, "overlay": str(target)})
    else:
        _show(found)
        out.print(f"{target}  names this robot: phalanx robots {target}", markup=False)
    return 0


def _numbers(known: tuple[str, ...]) -> dict[str, float]:
    """NUMBER=VALUE by name; ValueError for what is no such pair."""
    from hardware.overlay import check_value

    numbers = {}
    for each in known:
        name, _, value = each.partition("=")
        try:
            numbers[name] = float(value)
        except ValueError:
            raise ValueError(f"--known {each}: wanted NUMBER=VALUE, such as mass_kg=0.0442") from None
        check_value(f"--known {name}", name, numbers[name])
    return numbers


def _show(found: dict[str, Any]) -> None:
    windows = found["windows"]
    loop = f", flown by the {found['rate_loop']}'s rate loop" if found["rate_loop"] else ""
    out.print(
        f"{found['recording']}: {found['recorded_s']:.1f} s{loop}; {windows['fitted']} windows of "
        f"{found['window_s']:g} s fitted, {windows['held_out']} held out",
        markup=False,
    )
    for line in _recorded(found["rhythm"]):
        out.print(line, markup=False)
    rows = (
        (name, f"{n['value']:.4g}", f"{n['low']:.4g} to {n['high']:.4g}", f"{n['nominal']:.4g}", n["unit"])
        for name, n in found["numbers"].items()
    )
    print_section("fitted", ("number", "value", "95 % interval", "specified", "unit"), rows, whole=(0, 2))
    print_section("not identifiable from this recording", ("number", "why"), found["not_identifiable"].items(), (0,))
    gap = (
        (g["signal"], f"{g['before']:.3g}", f"{g['after']:.3g}", g["unit"], _times(g["before"], g["after"]))
        for g in found["gap"]["held_out"]
    )
    columns = ("RMS of model against recording", "as specified", "as fitted", "unit", "smaller by")
    print_section("the part that was held out", columns, gap, whole=(0,))


def _recorded(rhythm: dict[str, Any]) -> Iterator[str]:
    """What was odd about the recording, in words."""
    for name in ("measurements", "commands"):
        said = rhythm[name]
        if said["late"]:
            pauses = f"{said['late']} pauses of more than {1.5e3 * said['period_s']:.0f} ms"
            longest = f"{1e3 * said['longest_s']:.0f} ms at most, {said['share']:.0%} of the time"
            yield f"{name}: {pauses}, {said['missed']} missed, {longest}"
        if said["back"]:
            back = f"{said['back']} times, by up to {said['back_s']:.3g} s"
            yield f"{name}: the clock was set back {back}; the longest part between is read"
    late, unsure = rhythm["commands_heard_late"], rhythm["commands_left_out"]
    if late["share"]:
        yield (
            f"commands: {late['share']:.0%} were recorded up to {1e3 * late['longest_s']:.0f} ms late; "
            "replayed as they were sent"
        )
    if unsure["share"]:
        late_ms = 1e3 * unsure["longest_s"]
        yield f"commands: {unsure['share']:.0%} came or were recorded up to {late_ms:.0f} ms late; left out"
    yield from rhythm["notes"]


def _times(before: float, after: float) -> str:
    return f"x{before / after:.1f}" if after > 0 else ""
