"""`phalanx sweep`: a training, an evaluation or an attack for every combination of seeds and values."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hardware.ranges import check_range
from phalanx import interrupt
from phalanx.commands.attack import attack, robot_of
from phalanx.commands.evaluate import evaluate
from phalanx.commands.train import train
from phalanx.commands.verify import verify
from phalanx.console import err, out, print_json
from phalanx.folders import check_out
from phalanx.options import Count, Json, OutFolder, RunFlag
from phalanx.progress import make_progress
from phalanx.sweep.points import make_runs, split_options

if TYPE_CHECKING:
    from phalanx.sweep.pool import Process, Sweep

OWN = ("--seeds", "--samples", "--workers", "--cluster", "--out", "--resume", "--json", "--help")
CURVES, POINTS = "curves.png", "points.png"
SWEPT: Mapping[str, Callable[..., int]] = {"train": train, "eval": evaluate, "verify": verify, "attack": attack}
SUBJECT = {"train": "task", "eval": "policy", "verify": "policy", "attack": "target"}  # what each is about, by name
MISSING = {
    "train": "TASK is missing: such as hover",
    "eval": "a policy is missing: such as zoo/hover.onnx",
    "verify": "a policy is missing: such as zoo/hover.onnx",
    "attack": "who is attacked is missing: such as crazyflie",
}
ALONE = {"train": "--threads", "attack": "--workers"}  # what keeps each to one core
Subjects = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="[train|eval|verify|attack] SUBJECT[,SUBJECT...]", help_behavior_hint=""),
]


def sweep(*args: Any, **kwargs: Any) -> int:
    """Train, evaluate or attack once for every combination of seeds and values, several at a time, and compare."""
    return for_arguments([])(*args, **kwargs)


def for_arguments(args: Sequence[str]) -> Callable[..., int]:
    """The command; `arguments` of it are its own, all others are options of the command that is swept."""
    own, options = split_options(args, OWN)

    def command(
        subjects: Subjects = (),
        seeds: Count = None,
        samples: Count = None,
        workers: Count = None,
        cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")] = None,
        out_dir: OutFolder = None,
        resume: RunFlag = None,
        json: Json = False,
    ) -> int:
        """Train, evaluate or attack once for every combination of seeds and values, several at a time, and compare.

        Every option of the command may have several values, --ppo.learning-rate 1e-4,3e-4, or a range,
        --ppo.gamma 0.95..0.999, from which --samples are drawn. A training that is killed goes on from its checkpoint,
        bit for bit, an attack where it was, and others begin again. `phalanx compare FOLDER` shows how far trainings
        are, and table.csv in it what the others have answered; Ctrl-C is safe.

        Args:
            subjects: Which task or tasks to train. Or eval or verify and policy files or runs, attack and robots, of
                several as zoo/hover.onnx,zoo/reach.onnx.
            seeds: How many seeds for each combination, from 0 or --seed on; of eval from those that are held out.
            samples: How many draws from all ranges together.
            workers: Runs at a time, trainings with --threads 1 unless that is given; one a core when not given.
            cluster: Ray cluster to run on, such as 10.0.0.5:6379, ray://head:10001 or auto, whose machines share the
                folder; local for one of this machine. Without it, and without Ray, in processes of this machine.
            out_dir: Folder for the runs, sweep.json, logs and a picture; runs/sweep-TASK, runs/sweep-eval-FILE, when
                not given.
            resume: Folder of a sweep to go on with: what is done stays, what failed is tried again.
        """
        check_range("seeds", seeds, 1)
        check_range("samples", samples, 1)
        check_range("workers", workers, 1)
        check_out(out_dir, folder=True)
        if resume is not None:
            if subjects or options or seeds or samples or out_dir:
                raise ValueError(
                    f"--resume {resume}: a sweep goes on as it was begun; give --workers, --cluster and --json only"
                )
            from phalanx.sweep.pool import Sweep

            return _run(Sweep.load(resume), workers, cluster, json)
        if len(subjects) > 1 and (near := get_close_matches(subjects[0], SUBJECT, n=1)) and near[0] != subjects[0]:
            known = f"choose from {', '.join(SUBJECT)}; see phalanx sweep --help"
            raise ValueError(f"unknown command {subjects[0]!r}: {known}; did you mean {near[0]!r}?")
        what, *named = subjects if subjects[:1] and subjects[0] in SUBJECT else ("train", *subjects)
        if not named:
            raise ValueError(f"{MISSING[what]}, or a sweep after --resume; see phalanx sweep --help")
        alone = ALONE.get(what, "")
        asked = options if not alone or alone in dict(options) else [*options, (alone, ("1",))]
        about = {SUBJECT[what] + (f"-{i}" if i else ""): words for i, words in enumerate(named)}
        fractions = partial(takes_fractions, what, [words.split(",")[0] for words in named])
        runs = make_runs(about, asked, seeds, samples, _first_seed(what, seeds), fractions)
        _check(what, runs, [name for name, _ in options])
        _check_subjects(what, [each for words in named for each in words.split(",")])
        from phalanx.sweep.pool import RunState, Sweep, has_sweep

        name = "-".join(["sweep", *([] if what == "train" else [what]), *named])
        folder = out_dir or Path("runs") / re.sub(r"[,:/]", "-", name)
        if has_sweep(folder):
            raise ValueError(f"{folder} has a sweep: phalanx sweep --resume {folder}, or give another folder")
        if len(runs) == 1 and seeds is samples is None:
            ways = "an option with several values, --NAME 1,2,3" + ", or --seeds 3" * (what != "verify")
            err.print(f"a sweep of one run; for more: {ways}")
        return _run(Sweep(folder, {name: RunState(args) for name, args in runs.items()}, what), workers, cluster, json)

    command.arguments = own  # type: ignore[attr-defined]
    if subjects := [*takewhile(lambda word: not word.startswith("-"), own)]:
        what, *named = subjects if subjects[0] in SUBJECT else ("train", *subjects)
        command.runs = [what, *(named[0].split(",")[:1] if named and what == "train" else [])]  # type: ignore[attr-defined]
    return command


def takes_fractions(what: str, subjects: Sequence[str], option: str) -> bool:
    """Whether the command takes 0.5 for an option."""
    from phalanx.arguments import parse_command

    try:
        parse_command(SWEPT, what, [*subjects, option, "0.5"])
    except ValueError:
        return False
    return True


def _first_seed(what: str, seeds: int | None) -> int:
    """From which seeds are counted where none is given: as the command by itself."""
    if what != "eval" or seeds is None:
        return 0
    from policies.evaluation.evaluate import HELD_OUT_SEED

    return HELD_OUT_SEED


def _check(what: str, runs: dict[str, list[str]], options: Sequence[str]) -> None:
    """ValueError for arguments that the command would refuse; each value is looked at once; `options`: as typed."""
    from phalanx.arguments import parse_command

    seen: set[tuple[str, str]] = set()
    for args in runs.values():
        if new := set(pairwise(["", *args])) - seen:
            try:
                parse_command(SWEPT, what, args)
            except ValueError:
                _check_spelling(what, options)
                raise
            seen |= new


def _check_spelling(what: str, options: Sequence[str]) -> None:
    """ValueError for an option that neither has and that is nearly one of the sweep's own."""
    from phalanx.arguments import options_of

    known = [*OWN, *options_of(SWEPT, what, [])]
    for option in (each for each in options if each not in known):
        near = get_close_matches(option, known, n=1)
        if near and near[0] in OWN:
            raise ValueError(f"unknown option {option}; see phalanx sweep --help; did you mean {near[0]!r}?")


def _check_subjects(what: str, subjects: Sequence[str]) -> None:
    """An error for what the command cannot be about, before it is started for any of them."""
    if what == "train":
        return
    from phalanx.subjects import check_subjects, is_file

    for subject in subjects:
        if what == "attack":
            robot_of(subject)
        elif what == "verify" and not is_file(subject):
            raise ValueError(f"verify is for policy files and training runs, not for {subject!r}")
        else:
            check_subjects([subject], None)


def _run(sweep: "Sweep", workers: int | None, cluster: str | None, json: bool) -> int:
    from phalanx.sweep import pool
    from phalanx.sweep.answers import CSV, read_rows, write_rows
    from policies.training.train import alone_in

    folder, total = sweep.folder, len(sweep.runs)
    start: Callable[[list[str], Path], Process] = pool.start_command
    cores = len(os.sched_getaffinity(0))
    if cluster is not None:
        from phalanx.sweep.cluster import ClusterCommand, connect

        start, cores = ClusterCommand, connect(cluster)
    training = sweep.command == "train"
    look = f"phalanx compare {folder}" if training else str(folder / CSV)
    ways = f"to look: {look}; to go on: phalanx sweep --resume {folder}"
    interrupt.says = f"interrupted; {ways}"
    with alone_in(folder):
        sweep.save()
        try:
            with make_progress() as progress:
                bar = progress.add_task("sweep", total=float(total), note="")

                def show(done: float) -> None:
                    counts = [f"{sweep.count(state)} {state}" for state in ("done", "running", "failed")]
                    ends = f" ({writing} writing policy and film)" if (writing := sweep.trained()) else ""
                    progress.update(bar, completed=done, note=f"of {total}: {', '.join(counts)}{ends}")
                    if not training:
                        write_rows(folder / CSV, read_rows(sweep))

                sweep.run(workers or cores, show, start)
                show(float(total))
        except KeyboardInterrupt:
            left = f"{sweep.count('done')} of {total} runs are done"
            left += ", the others keep their last checkpoint" * training
            raise KeyboardInterrupt(f"interrupted; {left}; {ways}") from None
    for name, run in sweep.runs.items():
        if run.state == "failed":
            err.print(f"{name} failed: {run.why}", markup=False)
    if sweep.count("done"):
        (_show if training else _show_answers)(sweep, json)
    return 1 if sweep.count("failed") else 0


def _show(sweep: "Sweep", json: bool) -> None:
    """The runs that are done as curves and a table."""
    from phalanx.commands.compare import show_curves
    from phalanx.report.curves import draw_curves
    from policies.evaluation.curves import compare, has_numbers, read_runs

    done = [sweep.folder / name for name, run in sweep.runs.items() if run.state == "done"]
    states, runs = _states(sweep), read_runs(done)
    if not has_numbers(runs):
        err.print("nothing to compare: no run was long enough for an episode")
        if json:
            print_json({"runs": states, "curves": []})
        return
    found = compare(runs)
    draw_curves(sweep.folder / CURVES, found.of, found.curves)
    err.print(f"written {sweep.folder / CURVES}", markup=False)
    if json:
        print_json({"runs": states, **found.as_data()})
        return
    show_curves(found)
    best = max(found.curves, key=lambda curve: curve.middle[-1])
    out.print(f"next: phalanx verify {best.folders[0]}")


def _show_answers(sweep: "Sweep", json: bool) -> None:
    """What the runs that are done have answered, as a picture and a table over seeds."""
    from phalanx.report.points import draw_points
    from phalanx.sweep.answers import CSV, over_seeds, read_rows, show_rows

    table = over_seeds(read_rows(sweep))
    draw_points(sweep.folder / POINTS, table)
    err.print(f"written {sweep.folder / CSV}, {sweep.folder / POINTS}", markup=False)
    if json:
        print_json({"runs": _states(sweep), "command": sweep.command, "table": table})
        return
    show_rows(table)


def _states(sweep: "Sweep") -> dict[str, dict[str, Any]]:
    return {name: {"state": run.state, "restarts": run.restarts} for name, run in sweep.runs.items()}
