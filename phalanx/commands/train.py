"""`phalanx train`: learn a task, with a checkpoint that resumes exactly."""

from dataclasses import asdict
from pathlib import Path

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


def train(
    task: TaskName,
    out_dir: OutFolder = None,
    seed: int = 0,
    num_envs: Count = None,
    robots: Count = None,
    steps: Count = None,
    wall_budget_s: Seconds = None,
    team_critic: bool = False,
    shield: bool = False,
    resume: bool = False,
    start_from: RunFlag = None,
    engine: Engine | None = None,
    device: Device = None,
    json: bool = False,
) -> int:
    """Train the robots of a task, one policy for each group of like robots.

    Ctrl-C ends after the running iteration and leaves a checkpoint to resume from.

    Args:
        task: Which task; see `phalanx tasks`.
        out_dir: Folder for checkpoint and TensorBoard logs; runs/TASK when not given.
        seed: Same seed, same run, bitwise on a CPU.
        num_envs: Worlds in parallel; as the task says when not given.
        robots: Robots in a world; as the task says when not given.
        steps: Agent steps to train for, control periods x worlds x robots; as the task says when not given.
        wall_budget_s: End earlier, after so many seconds.
        team_critic: MAPPO, the critic sees the whole team; else IPPO.
        shield: Train behind the safety shield.
        resume: Go on from the checkpoint in the folder.
        start_from: Run whose networks to begin with, of a task with the same observations and actions.
        engine: Physics, see docs/engines.md; mujoco, or when resuming that of the run, when not given.
        device: Of physics and learning; an accelerator where there is one and the engine uses it, when not given.
        json: Print the result as JSON on stdout.
    """
    check_seed(seed)
    check_robots(robots)
    check_out(out_dir, folder=True)
    from sim.tasks import load_task

    defaults = load_task(task)
    from policies.training.config import CollectionCfg, MachineCfg, TrainCfg
    from policies.training.train import train as run

    folder = out_dir or Path("runs") / task
    cfg = TrainCfg(
        task=task,
        out=folder,
        collection=CollectionCfg(defaults.num_envs if num_envs is None else num_envs, robots, shield),
        machine=MachineCfg(engine, device),
        algorithm={"critic": "team"} if team_critic else {},
        total_steps=defaults.train_steps if steps is None else steps,
        wall_budget_s=wall_budget_s,
        seed=seed,
        resume=resume,
        start_from=start_from,
    )
    with make_progress() as progress:
        bar = progress.add_task(f"train {task}", total=1.0, note="")
        result = run(cfg, on_progress=lambda n: progress.update(bar, completed=n["fraction"], note=note(n)))
    if json:
        print_json({name: str(v) if isinstance(v, Path) else v for name, v in asdict(result).items()})
    else:
        err.print(result.message)
        target = f"{task}-policies" if len(defaults.groups) > 1 else f"{task}.onnx"
        out.print(f"next: phalanx export {folder} --out {target}")
    return 0 if result.finished else 130


def note(numbers: dict[str, float]) -> str:
    """The few numbers of an iteration that a person watches."""
    parts = [f"{numbers['steps_per_s'] / 1e3:.0f} k steps/s"]
    if "success_rate" in numbers:
        parts.insert(0, f"success {100 * numbers['success_rate']:.0f} %")
    if "mean_return" in numbers:
        parts.insert(0, f"return {numbers['mean_return']:.1f}")
    return "  ".join(parts)
