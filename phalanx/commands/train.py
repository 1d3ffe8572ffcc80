"""`phalanx train`: learn a task, with a checkpoint that resumes exactly."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from phalanx.console import err, make_progress, out, print_json
from phalanx.options import (
    Count,
    Device,
    Engine,
    OutFolder,
    RunFlag,
    Seconds,
    TaskName,
    check_out,
    check_robots,
    check_seed,
)
from phalanx.train_options import asked, fields_of_task, given


def train(*args: Any, **kwargs: Any) -> int:
    """Train the robots of a task, each group its own policy where there are several."""
    return for_arguments([])(*args, **kwargs)


def for_arguments(args: Sequence[str]) -> Callable[..., int]:
    """The command with the options of the task and the algorithm that the arguments name, and with their defaults.

    With --resume the defaults are what the run was begun with.
    """
    from sim.tasks import load_task

    wish = asked(args)
    spec = load_task(wish.task) if wish.task else None  # a wrong name is answered before torch is loaded
    from policies.algorithms import ALGORITHMS
    from policies.networks.trunk import NetworkCfg
    from policies.task_data import changed
    from policies.training.config import TrainCfg

    algo, old = wish.algo, wish.begun
    plain = TrainCfg(algo=algo, algorithm=old.algorithm, network=old.network)
    sizes, hyper = plain.hyperparameters(next(iter(spec.groups.values())) if spec else None, f"task {wish.task!r}")
    kind, paths = fields_of_task(spec and changed(spec, old.task_changes))
    algorithm_type, as_is = ALGORITHMS[algo].Cfg, kind()
    as_is_by_path = {path: getattr(as_is, name) for name, path in paths.items()}

    def command(
        subject: TaskName,
        out_dir: OutFolder = None,
        seed: int = old.seed,
        num_envs: Count = old.num_envs,
        robots: Count = old.robots,
        steps: Count = old.steps,
        wall_budget_s: Seconds = old.wall_budget_s,
        shield: bool = old.shield,
        resume: bool = False,
        start_from: RunFlag = None,
        checkpoint_every: int = old.checkpoint_every,
        engine: Annotated[Engine | None, tyro.conf.arg(metavar="mujoco|warp|mjx|brax", help_behavior_hint="")] = None,
        device: Device = old.device,
        threads: int = old.threads,
        accept_task_change: bool = False,
        wandb: bool = False,
        json: bool = False,
        algo: str = algo,
        hyperparameters: Annotated[algorithm_type, tyro.conf.arg(name=algo)] = hyper,  # type: ignore[valid-type]
        network: NetworkCfg = sizes,
        fields: Annotated[kind, tyro.conf.arg(name="task")] = as_is,  # type: ignore[valid-type]
    ) -> int:
        """Train the robots of a task, each group its own policy where there are several.

        Ctrl-C ends after the running iteration and leaves a checkpoint to resume from. `phalanx train TASK --help`
        shows what can be set of the task.

        Args:
            subject: Which task; see `phalanx tasks`. Or module:NAME, a TaskCfg of your own.
            out_dir: Folder for checkpoints (the last, and the best so far) and TensorBoard logs; runs/TASK when not
                given.
            seed: Same seed, same run, bitwise on a CPU.
            num_envs: Worlds in parallel; as the task says when not given.
            robots: Robots in a world; as the task says when not given.
            steps: Agent steps to train for, control periods x worlds x robots; as the task says when not given.
            wall_budget_s: End earlier, after so many seconds of training in all.
            shield: Train behind the safety shield.
            resume: Go on from the checkpoint in the folder, with the options that the run was begun with.
            start_from: Folder of another run whose networks to begin with, of a task in which robots see and do the
                same.
            checkpoint_every: Iterations between checkpoints.
            engine: Physics, see docs/engines.md; mujoco, or when resuming that of the run, when not given.
            device: Of physics and learning; an accelerator where there is one and the engine uses it, when not given.
            threads: Of learning on a CPU.
            accept_task_change: Go on although the task is no longer what the run was begun with.
            wandb: Log to Weights & Biases too, beside TensorBoard; pip install 'phalanx[wandb]'.
            json: Print the result as JSON on stdout.
            algo: Algorithm: ppo, td3.
            hyperparameters: Of the algorithm; --ppo.critic team is MAPPO, the critic sees the whole team.
            network: Sizes of policy and critics.
            fields: Numbers of the task.
        """
        check_seed(seed)
        check_robots(robots)
        check_out(out_dir, folder=True)
        from policies.training.config import CollectionCfg, MachineCfg
        from policies.training.train import train as learn

        assert spec is not None
        numbers = {path: getattr(fields, name) for name, path in paths.items()}
        cfg = TrainCfg(
            task=subject,
            task_changes={**old.task_changes, **{p: v for p, v in numbers.items() if v != as_is_by_path[p]}},
            out=out_dir or Path("runs") / spec.name,
            algo=algo,
            algorithm={**old.algorithm, **given(args, algo, hyperparameters)},
            network={**old.network, **given(args, "network", network)},
            collection=CollectionCfg(spec.num_envs if num_envs is None else num_envs, robots, shield),
            machine=MachineCfg(engine, device, threads),
            total_steps=spec.train_steps if steps is None else steps,
            wall_budget_s=wall_budget_s,
            seed=seed,
            resume=resume,
            start_from=start_from,
            checkpoint_every=checkpoint_every,
            accept_task_change=accept_task_change,
            wandb=wandb,
        )
        with make_progress() as progress:
            bar = progress.add_task(f"train {spec.name}", total=1.0, note="")
            result = learn(cfg, on_progress=lambda n: progress.update(bar, completed=n["fraction"], note=note(n)))
        if json:
            print_json({name: str(v) if isinstance(v, Path) else v for name, v in asdict(result).items()})
        else:
            err.print(result.message)
            target = f"{spec.name}-policies" if len(spec.groups) > 1 else f"{spec.name}.onnx"
            out.print(f"next: phalanx export {cfg.out} --out {target}")
        return 0 if result.finished else 130

    return command


def note(numbers: dict[str, float]) -> str:
    """The few numbers of an iteration that a person watches."""
    parts = [f"{numbers['steps_per_s'] / 1e3:.0f} k steps/s"]
    if "success_rate" in numbers:
        parts.insert(0, f"success {100 * numbers['success_rate']:.0f} %")
    if "mean_return" in numbers:
        parts.insert(0, f"return {numbers['mean_return']:.1f}")
    return "  ".join(parts)
