"""`python -m benchmarks sim|scale|peers|engines|control|shield|ros`: how fast it is, and what else was measured."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from hardware.ranges import check_range
from phalanx.console import out, print_json, print_section
from phalanx.options import Device, OutFolder
from phalanx.progress import make_progress

# fmt: off
Benchmark = Literal[
    "sim", "scale", "peers", "engines", "control", "shield", "ros", "transfer", "verdicts", "devices", "learners",
    "franka", "demo", "flights", "updates", "shards", "sweeps",
]
# fmt: on
MOST_FIGURES = 24  # of one thing in a table that it shares with others; where there are more, it has its own
MOST_COLUMNS = 6  # of a table; where more things were measured, each is a row


def bench(
    what: Annotated[
        Benchmark,
        tyro.conf.Positional,
    ],
    tasks: tuple[str, ...] = (),
    batches: tuple[int, ...] = (256, 1024, 4096),
    training: bool = False,
    teams: tuple[int, ...] = (),
    robots: int = 8192,
    batch: int = 1024,
    peer_batches: tuple[int, ...] = (32, 64),
    engines: tuple[str, ...] = ("mujoco", "warp", "mjx"),
    device: Device = None,
    policy: Path = Path("zoo/swarm-swap.onnx"),
    policies: tuple[Path, ...] = (Path("zoo/hover.onnx"),),
    worlds: int = 64,
    out_dir: OutFolder = None,
    drivers: tuple[str, ...] = (),
    neighbours: int = 8,
    hz: float | None = None,
    held: bool = False,
    repeats: int = 5,
    json: bool = False,
) -> int:
    """Measure speed on this machine.

    `sim`: the whole environment against MuJoCo alone. `scale`: what a drone costs in larger and larger teams. `peers`:
    our environments beside EnvPool's (extra `bench`) and Gymnasium's AsyncVectorEnv. `engines`: our environments on
    each physics engine (extras `warp` and `jax`). `control`: policy runtime, shield. `shield`: its whole step, drones,
    arm and humanoid, and its filter beside OSQP and CBFpy on the same rows (extra `bench`). `ros`: the swap in ROS 2,
    delays beside a bare echo, lost cycles and processor time a robot. `transfer`: no speed, but what policies come to
    on other plants: drones' under their firmware's rate loop with other gains, slower rotors and delays, beside the
    scripted controller; arms' and humanoids' with gains, armature and friction of others (extra `robots`) and delays.
    `verdicts`: whether what `verify` says of policies, sound and spoilt, is what they do on other plants.
    `devices`: what drivers report of emulated devices that fail, and after how many ms. `learners`: time and samples
    that our PPO, stable-baselines3's and rsl_rl's (extra `bench`) take until a policy succeeds. `franka`: how near to
    its poses a Franka Research 3 of franky-sim comes in ROS 2, behind its shield. `demo`: how often `phalanx demo`
    passes all its gates. `flights`: how often robots on the other emulated devices reach their goals in ROS 2, behind
    their shields. `updates`: gradient steps of our PPO and SAC beside those of stable-baselines3 and skrl (extra
    `bench`). `shards`: one training in 1, 2 and 4 processes. `sweeps`: a sweep whose workers are killed beside one
    that is left alone.

    Args:
        what: What to measure.
        tasks: Of `sim` and `engines` hover, swarm-swap, reach and velocity by default, of `peers` reach and velocity,
            of `ros` with `hz` reach and stand, of `learners` hover and reach.
        batches: Worlds in parallel in `sim` and `engines`; each size is measured.
        training: In `sim` and `engines`, measure rollout and learning too.
        teams: Team sizes of `scale`, 1 to 64 by default, and of `ros`, 1, 4 and 8.
        robots: Robots in all worlds together, in `scale`.
        batch: Worlds in parallel of ours in `peers`.
        peer_batches: Worlds in parallel of EnvPool in `peers`; each size is measured. One takes up to 60 MB.
        engines: Physics engines of `engines`.
        device: Of `engines`; an accelerator where there is one, when not given.
        policy: Policy file of `control` and `ros`.
        policies: Policy files of `transfer`; of `verdicts` files beside those of the zoo.
        worlds: Episodes of each policy under each plant, in `transfer` and `verdicts`; poses of `franka`, goals of
            each robot in `flights`.
        out_dir: In `verdicts`, `learners`, `demo` and `shards`, folder that keeps what was found of each policy,
            training or run: what it holds is not done again.
        drivers: Of `devices` and `flights`; all when not given.
        neighbours: Robots around the one that `control` flies.
        hz: In `ros`, fly untrained policies of `tasks` at this control rate, or the next that their models allow.
        held: In `ros` and `demo`, while another program holds a core and the system refuses niceness.
        repeats: Measurements, of `learners`, `demo` and `shards` seeds, of `sweeps` sweeps; the median counts.
        json: Print one JSON object on stdout.
    """
    teams = teams or ((1, 4, 8) if what == "ros" else (1, 2, 4, 8, 16, 32, 64))
    _check(batches=batches, teams=teams, robots=robots, batch=batch, peer_batches=peer_batches, repeats=repeats)
    check_range("neighbours", neighbours, 0)
    check_range("worlds", worlds, 1)
    usual = {"peers": ("reach", "velocity"), "ros": ("reach", "stand"), "learners": ("hover", "reach")}
    chosen = tasks or usual.get(what, ("hover", "swarm-swap", "reach", "velocity"))
    if hz is not None:
        check_range("hz", hz, 1.0)
    each = {"sim": repeats, "peers": repeats, "engines": len(batches)}
    if what in ("transfer", "verdicts", "franka", "flights"):
        repeats = 1
    turns = each[what] * len(chosen) if what in each else repeats
    with make_progress() as progress:
        bar = progress.add_task(f"bench {what}", total=turns, note="")
        options: dict[str, dict[str, Any]] = {
            "sim": {"tasks": chosen, "batches": batches, "training": training},
            "scale": {"teams": teams, "robots": robots},
            "peers": {"tasks": chosen, "batch": batch, "peer_batches": peer_batches},
            "engines": dict(tasks=chosen, engines=engines, batches=batches, device=device, training=training),
            "control": {"policy": policy, "neighbours": neighbours},
            "shield": {},
            "devices": {"drivers": drivers},
            "franka": {"worlds": worlds},
            "flights": {"drivers": drivers, "worlds": worlds},
            "transfer": {"policies": policies, "worlds": worlds},
            "verdicts": {"policies": policies, "worlds": worlds, "out": out_dir},
            "learners": {"tasks": chosen, "out": out_dir},
            "updates": {},
            "shards": {"out": out_dir},
            "sweeps": {},
            "demo": {"held": held, "out": out_dir},
            "ros": {"policy": policy, "teams": teams, "tasks": chosen, "hz": hz, "held": held},
        }

        def advance(total: int | None = None) -> None:
            """One turn more, of `total` where only the benchmark knows how many there are."""
            progress.update(bar, total=total, advance=1)

        result = _measure(what)(**options[what], repeats=repeats, on_progress=advance)
    from phalanx.machine import machine, versions

    result = {"bench": what, "repeats": repeats, **result, "machine": machine()}
    result["versions"] = versions() | result.get("versions", {})
    if json:
        print_json(result)
        return 0
    show(result)
    on, median = result["machine"], f", median of {repeats}" if repeats > 1 else ""
    out.print(f"[dim]{on['processor']}, {on['cores']} cores, load {on['load_1min']}{median}[/]")
    return 0


def _measure(what: str) -> Callable[..., dict[str, Any]]:
    """The function of a benchmark; its libraries are loaded with it."""
    return getattr(importlib.import_module(f"benchmarks.{what}"), f"bench_{what}")


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


def _check(**counts: int | Sequence[int]) -> None:
    """ValueError for the first that is not positive, or of which there is none."""
    for name, count in counts.items():
        check_range(name, count if isinstance(count, int) else min(count, default=0), 1)


def main() -> None:
    """Run the benchmark that the command line names; errors of the user as one line, exit code 2."""
    try:
        sys.exit(tyro.cli(bench, prog="python -m benchmarks", config=(tyro.conf.FlagCreatePairsOff,)))
    except KeyboardInterrupt:
        print("benchmarks: interrupted", file=sys.stderr)
        sys.exit(130)
    except (ValueError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
