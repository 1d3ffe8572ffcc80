"""`phalanx train`: learn a task, with a checkpoint that resumes exactly."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from hardware.ranges import check_range
from phalanx import interrupt
from phalanx.console import err, out, print_json
from phalanx.folders import CHECKPOINT, check_out
from phalanx.options import Count, Device, Engine, OutFolder, RunFlag, Seconds, TaskToTrain, check_robots, check_seed
from phalanx.progress import make_progress, time_split, training_note
from phalanx.train_options import asked, check_is_run, check_limits, check_spelling, fields_of_task, given, usual


def train(*args: Any, **kwargs: Any) -> int:
    """Train the robots of a task, each group its own policy where there are several."""
    return for_arguments([])(*args, **kwargs)


def for_arguments(args: Sequence[str]) -> Callable[..., int]:
    """The command with the options of the task and the algorithm that the arguments name, and with their defaults.

    With --resume the defaults are what the run was begun with.
    """
    from sim.tasks import load_task

    check_spelling(args)
    check_limits(args)
    wish = asked(args)
    interrupt.says = f"interrupted; {_left(wish.resumed)}"
    spec = load_task(wish.task) if wish.task else None  # a wrong name is answered before torch is loaded
    from policies.algorithms import load_algorithm
    from policies.networks.trunk import NetworkCfg
    from policies.task_data import changed
    from policies.training.config import CollectionCfg, TrainCfg

    algo, old = wish.algo, wish.begun
    plain = TrainCfg(
        algo=algo, algorithm=old.algorithm, network=old.network, collection=CollectionCfg(shield=old.shield)
    )
    sizes, hyper = plain.hyperparameters(next(iter(spec.groups.values())) if spec else None, f"task {wish.task!r}")
    kind, paths = fields_of_task(spec and changed(spec, old.task_changes))
    shield_is_given = any(word in args for word in ("--shield", "--no-shield"))
    algorithm_type, as_is = load_algorithm(algo).Cfg, kind()
    as_is_by_path = {path: getattr(as_is, name) for name, path in paths.items()}

    def command(
        subject: TaskToTrain = None,
        out_dir: OutFolder = None,
        seed: int = old.seed,
        num_envs: Count = old.num_envs,
        robots: Count = old.robots,
        steps: Count = old.steps,
        wall_budget_s: Seconds = old.wall_budget_s,
        stop_at: Annotated[float | None, tyro.conf.arg(metavar="SUCCESS", help_behavior_hint="")] = old.stop_at,
        shield: bool = usual(args, "shield", spec is not None and plain.behind_shield(spec)),
        resume: RunFlag = None,
        start_from: RunFlag = Path(old.start_from) if old.start_from else None,
        checkpoint_every: int = old.checkpoint_every,
        keep_every: Count = old.keep_every,
        engine: Annotated[Engine | None, tyro.conf.arg(metavar="mujoco|warp|mjx|brax", help_behavior_hint="")] = None,
        device: Device = old.device,
        threads: int = old.threads,
        shards: Count = old.shards,
        accept_task_change: bool = False,
        wandb: bool = usual(args, "wandb", old.wandb),
        onnx: bool = usual(args, "onnx", old.onnx),
        film: bool = usual(args, "film", old.film),
        json: bool = False,
        algo: str = algo,
        hyperparameters: Annotated[algorithm_type, tyro.conf.arg(name=algorithm_type.NAME)] = hyper,  # type: ignore[valid-type]
        network: NetworkCfg = sizes,
        fields: Annotated[kind, tyro.conf.arg(name="task")] = as_is,  # type: ignore[valid-type]
    ) -> int:
        """Train the robots of a task, each group its own policy where there are several.

        Ctrl-C ends after the running iteration and leaves a checkpoint to resume from. `phalanx train TASK --help`
        shows what can be set of the task. At the end the best policies are written as policy files beside it.

        Args:
            subject: Which task; see `phalanx tasks`. Or module:NAME, a TaskCfg of your own.
            out_dir: Folder of the run: checkpoints (the last, and the best so far), progress.csv, TensorBoard logs;
                runs/TASK when not given.
            seed: Same seed and --threads, same run, bitwise on a CPU.
            num_envs: Worlds in parallel; as the task says when not given.
            robots: Robots in a world; as the task says when not given.
            steps: Agent steps to train for, control periods x worlds x robots, in whole iterations; as the task says
                when not given.
            wall_budget_s: End earlier, after so many seconds of training in all.
            stop_at: End earlier, once so much success, such as 0.95, is shown on held-out starts behind the shield:
                with 95 % confidence over all looks at them, of which the k-th has 5 % / (k (k + 1)) of the error.
                Policies that are the best so far fly them at a checkpoint.
            shield: Whether to train behind the safety shield; as the task says when not given.
            resume: Folder of a run to go on with from its last checkpoint, with the options that it was begun with.
            start_from: Folder of another run, or a policy file (.onnx), whose networks to begin with, of a task in
                which robots see and do the same. A file has no critic: --ppo.critic-first 500000 lets one learn first.
            checkpoint_every: Iterations between checkpoints.
            keep_every: Iterations between policies that are kept for good, as iteration-<number>.pt; none when not
                given.
            engine: Physics, see docs/engines.md; mujoco, or when resuming that of the run, when not given.
            device: Of physics and learning; an accelerator where there is one and the engine uses it, when not given.
            threads: Of learning on a CPU, in each shard.
            shards: Parts of the worlds, each with its own copy of what learns; one for each process of torchrun when
                not given.
            accept_task_change: Go on although the task is no longer what the run was begun with.
            wandb: Log to Weights & Biases too, beside TensorBoard; pip install 'phalanx[wandb]'.
            onnx: With, or without, policy files at the end.
            film: With, or without, a replay page of an episode beside the policy files.
            json: Print the result as JSON on stdout.
            algo: Algorithm: dsact, happo, hasac, impala, ppo, sac, td3, vdn. Or module:NAME, one of your own. Names of
                papers that are settings of these, such as mappo or ddpg, are answered with their options.
            hyperparameters: Of the algorithm, see docs/algorithms.md.
            network: Sizes of policy and critics.
            fields: Numbers of the task.
        """
        check_seed(seed)
        check_robots(robots)
        check_range("--steps", steps, 1)
        check_out(out_dir, folder=True)
        from policies.shards import started_by_torchrun
        from policies.training.config import MachineCfg
        from policies.training.train import train as learn

        if wish.resumed is not None:
            check_is_run(wish.resumed)
        if wish.resumed is not None and start_from is not None and str(start_from) != old.start_from:
            raise ValueError(f"--start-from {start_from}: a run that goes on has networks of its own; see --resume")
        if spec is None:
            raise ValueError("TASK is missing: such as hover, or a run after --resume; see phalanx train --help")
        folder = wish.resumed or out_dir or Path("runs") / spec.name
        begun = wish.resumed is not None and (folder / CHECKPOINT).exists()
        if wish.resumed is not None and not begun:
            err.print(f"{folder}: no checkpoint had been written yet, training begins again", markup=False)
        asked_shield = shield if shield_is_given else old.shield
        numbers = {path: getattr(fields, name) for name, path in paths.items()}
        cfg = TrainCfg(
            task=wish.task,
            task_changes={**old.task_changes, **{p: v for p, v in numbers.items() if v != as_is_by_path[p]}},
            out=folder,
            algo=algo,
            algorithm={**old.algorithm, **given(args, algorithm_type.NAME, hyperparameters)},
            network={**old.network, **given(args, "network", network)},
            collection=CollectionCfg(spec.num_envs if num_envs is None else num_envs, robots, asked_shield),
            machine=MachineCfg(engine, device, threads, shards),
            total_steps=spec.train_steps if steps is None else steps,
            wall_budget_s=wall_budget_s,
            stop_at=stop_at,
            seed=seed,
            resume=begun,
            start_from=start_from,
            checkpoint_every=checkpoint_every,
            keep_every=keep_every,
            accept_task_change=accept_task_change,
            onnx=onnx,
            film=film,
            wandb=wandb,
        )
        with make_progress() as progress:
            bar = progress.add_task(f"train {spec.name}", total=1.0, note="", basis=0.0)
            result = learn(
                cfg,
                lambda n: progress.update(bar, completed=n["fraction"], note=f"{training_note(n)}\n{time_split(n)}"),
            )
        first = not started_by_torchrun()[0]
        files = _write_best(folder, accept_task_change) if onnx and result.finished and first else []
        page = _write_film(folder, robots, seed) if film and files else None
        if json:
            row = {**asdict(result), "policy_files": [str(file) for file in files], "film": page and str(page)}
            print_json({name: str(v) if isinstance(v, Path) else v for name, v in row.items()})
        else:
            err.print(result.message)
            for file in files:
                err.print(f"policy file of the best: {file}", markup=False)
            if page:
                err.print(f"an episode of the best: {page}", markup=False)
            out.print(f"next: phalanx verify {folder}" if files else f"next: phalanx export {folder}")
        return 0 if result.finished else 130

    return command


def _left(resumed: Path | None) -> str:
    """What is left of a training that is interrupted before its first iteration, and how to go on."""
    if resumed is None:
        return "training had not begun, nothing was written"
    return f"{resumed} is as it was, to go on: phalanx train --resume {resumed}"


def _write_best(run: Path, accept_change: bool) -> list[Path]:
    """Policy files of the best policies, where there are any yet."""
    from policies.checkpoint import BEST

    if not (run / BEST).exists():
        return []
    interrupt.says = f"interrupted; training is over, to write its policy files: phalanx export {run} --best"
    from policies.export.export import export_beside

    with err.status("policy files of the best ..."):
        return export_beside(run / BEST, accept_change)


def _write_film(run: Path, robots: int | None, seed: int) -> Path | None:
    """A replay page of one episode of the best policies, beside them; None, and a line, where that fails."""
    from phalanx.commands.play import play_page
    from policies.checkpoint import BEST

    page = (run / BEST).with_suffix(".html")
    try:
        with err.status("an episode of the best ..."):
            play_page(run / BEST, page, robots, seed)
    except Exception as error:  # of the task's own code, say: what was trained is there all the same
        err.print(f"no film of the best policies: {' '.join(str(error).split())}", markup=False)
        return None
    return page
