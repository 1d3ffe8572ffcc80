"""`phalanx sweep`: one training for every combination of seeds and values."""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hardware.ranges import check_range
from phalanx import interrupt
from phalanx.console import err, make_progress, out, print_json
from phalanx.options import Count, Json, OutFolder, RunFlag, check_out
from phalanx.sweep_points import make_runs, split_options

if TYPE_CHECKING:
    from phalanx.sweep_pool import Process, Sweep

OWN = ("--seeds", "--samples", "--workers", "--cluster", "--out", "--resume", "--json", "--help")
PICTURE = "curves.png"
Tasks = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK[,TASK...]", help_behavior_hint="")]


def sweep(*args: Any, **kwargs: Any) -> int:
    """Train once for every combination of seeds and values, several at a time, and compare."""
    return for_arguments([])(*args, **kwargs)


def for_arguments(args: Sequence[str]) -> Callable[..., int]:
    """The command; `arguments` of it are its own, all others are options of `phalanx train`."""
    own, options = split_options(args, OWN)

    def command(
        tasks: Tasks = None,
        seeds: Count = None,
        samples: Count = None,
        workers: Count = None,
        cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")] = None,
        out_dir: OutFolder = None,
        resume: RunFlag = None,
        json: Json = False,
    ) -> int:
        """Train once for every combination of seeds and values, several at a time, and compare.

        Every option of `phalanx train` may have several values, --ppo.learning-rate 1e-4,3e-4, or a range,
        --ppo.gamma 0.95..0.999, from which --samples are drawn. A run that is killed goes on from its checkpoint, bit
        for bit. `phalanx compare FOLDER` shows how far it is, also while it runs; Ctrl-C is safe.

        Args:
            tasks: Which task, or tasks; see `phalanx tasks`.
            seeds: How many seeds for each combination, from 0 or --seed on.
            samples: How many draws from all ranges together.
            workers: Trainings at a time, each with --threads 1 unless that is given; one a core when not given.
            cluster: Ray cluster to train on, such as 10.0.0.5:6379, ray://head:10001 or auto, whose machines share the
                folder; local for one of this machine. Without it, and without Ray, in processes of this machine.
            out_dir: Folder for the runs, sweep.json, logs and curves.png; runs/sweep-TASK when not given.
            resume: Folder of a sweep to go on with: what is done stays, what failed is tried again.
        """
        check_range("seeds", seeds, 1)
        check_range("samples", samples, 1)
        check_range("workers", workers, 1)
        check_out(out_dir, folder=True)
        if resume is not None:
            if tasks or options or seeds or samples or out_dir:
                raise ValueError(
                    f"--resume {resume}: a sweep goes on as it was begun; give --workers, --cluster and --json only"
                )
            from phalanx.sweep_pool import Sweep

            return _run(Sweep.load(resume), workers, cluster, json)
        if tasks is None:
            raise ValueError("TASK is missing: such as hover, or a sweep after --resume; see phalanx sweep --help")
        asked = options if "--threads" in dict(options) else [*options, ("--threads", ("1",))]
        runs = make_runs(tasks, asked, seeds, samples)
        _check(runs)
        from phalanx.sweep_pool import STATE, RunState, Sweep

        folder = out_dir or Path("runs") / f"sweep-{tasks.replace(',', '-').replace(':', '-')}"
        if (folder / STATE).exists():
            raise ValueError(f"{folder} has a sweep: phalanx sweep --resume {folder}, or give another folder")
        return _run(Sweep(folder, {name: RunState(args) for name, args in runs.items()}), workers, cluster, json)

    command.arguments = own  # type: ignore[attr-defined]
    return command


def _check(runs: dict[str, list[str]]) -> None:
    """ValueError for arguments that `phalanx train` would refuse; each value is looked at once."""
    from phalanx.arguments import _parse

    seen: set[tuple[str, str]] = set()
    for args in runs.values():
        if new := set(pairwise(["", *args])) - seen:
            _parse("train", args)
            seen |= new


def _run(sweep: "Sweep", workers: int | None, cluster: str | None, json: bool) -> int:
    from phalanx import sweep_pool
    from policies.training.train import alone_in

    folder, total = sweep.folder, len(sweep.runs)
    start: Callable[[list[str], Path], Process] = sweep_pool.start_training
    cores = len(os.sched_getaffinity(0))
    if cluster is not None:
        from phalanx.sweep_ray import ClusterTraining, connect

        start, cores = ClusterTraining, connect(cluster)
    ways = f"to look: phalanx compare {folder}; to go on: phalanx sweep --resume {folder}"
    interrupt.says = f"interrupted; {ways}"
    with alone_in(folder):
        sweep.save()
        try:
            with make_progress() as progress:
                bar = progress.add_task("sweep", total=float(total), note="")

                def show(done: float) -> None:
                    counts = [f"{sweep.count(state)} {state}" for state in ("done", "running", "failed")]
                    progress.update(bar, completed=done, note=f"of {total}: " + ", ".join(counts))

                sweep.run(workers or cores, show, start)
                show(float(total))
        except KeyboardInterrupt:
            left = f"{sweep.count('done')} of {total} runs are done, the others keep their last checkpoint"
            raise KeyboardInterrupt(f"interrupted; {left}; {ways}") from None
    for name, run in sweep.runs.items():
        if run.state == "failed":
            err.print(f"{name} failed: {run.why}", markup=False)
    if sweep.count("done"):
        _show(sweep, json)
    return 1 if sweep.count("failed") else 0


def _show(sweep: "Sweep", json: bool) -> None:
    """The runs that are done as curves and a table."""
    from phalanx.commands.compare import show_curves
    from phalanx.report.curves import draw_curves
    from policies.evaluation.curves import as_rows, compare, has_numbers, read_runs

    done = [sweep.folder / name for name, run in sweep.runs.items() if run.state == "done"]
    states = {name: {"state": run.state, "restarts": run.restarts} for name, run in sweep.runs.items()}
    runs, reach = read_runs(done), 0.9
    if not has_numbers(runs):
        err.print("nothing to compare: no run was long enough for an episode")
        if json:
            print_json({"runs": states, "curves": []})
        return
    of, curves = compare(runs, reach=reach)
    draw_curves(sweep.folder / PICTURE, of, curves)
    err.print(f"written {sweep.folder / PICTURE}", markup=False)
    if json:
        print_json({"runs": states, "of": of, "reach": reach, "curves": as_rows(curves)})
        return
    show_curves(of, reach, curves)
    out.print(f"next: phalanx verify {sweep.folder}/RUN")
