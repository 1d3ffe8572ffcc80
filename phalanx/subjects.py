"""Who acts, and in which task, from what the command line says."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.runtime import PolicyRuntime
from phalanx.agents import make_agent
from phalanx.catalogue import shipped_files
from policies.evaluation.policy_runner import BundleRunner, PolicyRunner
from sim.task import MixedTaskCfg, TaskCfg
from sim.tasks import any_task_names, load_any_task


def pilots_and_task(
    agent: str, subjects: Sequence[str], task: str | None, seed: int
) -> tuple[dict[str, PolicyRunner], TaskCfg | MixedTaskCfg]:
    """A pilot for each role, and the task. `subjects` is a task, or policy files, which bring their own.

    A task without a file is played by the policy that ships for it. A file also plays another task that gives the same
    robot the same commands and objects: who walks on a floor may try rough ground. ValueError when it is unclear who
    shall act in what and for an unknown task, BundleError for a bad file.
    """
    files = [Path(subject) for subject in subjects if is_file(subject)]
    named = {subject for subject in subjects if not is_file(subject)} | ({task} if task else set())
    if len(named) > 1:
        raise ValueError(f"which task, {' or '.join(sorted(named))}? name one")
    if agent != "policy":
        name = next(iter(named), None) or (_of_files(files)[1] if files else "swarm-swap")
        cfg = load_any_task(name)
        return {role: make_agent(agent, seed, part) for role, part in cfg.roles.items()}, cfg
    if not files and not named:
        raise ValueError(
            "which policy? give a file, such as zoo/swarm-swap.onnx, or a task and --agent zero|random|baseline"
        )
    asked = next(iter(named), None)
    runtimes, name = _of_files(files or shipped(str(asked), f"give a file, or --agent {_others(str(asked))}"))
    cfg = load_any_task(asked or name)
    if cfg.name != name and not _fits(cfg, runtimes):
        raise ValueError(f"{files[0]} is a policy for {name!r}, not for {asked!r}")
    team = {role or cfg.robot: runtime for role, runtime in runtimes.items()} if isinstance(cfg, TaskCfg) else runtimes
    missing = set(cfg.roles) - set(team)
    if missing:
        raise ValueError(f"task {name!r} needs a policy for each role; there is none for {', '.join(sorted(missing))}")
    return {role: BundleRunner(team[role]) for role in cfg.roles}, cfg


def _fits(cfg: TaskCfg | MixedTaskCfg, runtimes: Mapping[str, PolicyRuntime]) -> bool:
    """Whether a policy of another task is for the same robot, and is given here all that it needs."""
    if not isinstance(cfg, TaskCfg) or set(runtimes) != {""}:
        return False
    contract = runtimes[""].contract
    commands, objects = {command.name for command in contract.commands}, set(contract.objects)
    return contract.robot.name == cfg.robot and commands == set(cfg.commands) and objects <= set(cfg.scene.objects)


def is_file(subject: str) -> bool:
    """Whether the command line means a policy file; names of tasks have no suffix and no folder."""
    path = Path(subject)
    return subject not in any_task_names() and (bool(path.suffix) or len(path.parts) > 1 or path.exists())


def _others(task: str) -> str:
    """Who else than a policy can play `task`."""
    baselines = all(role.baseline for role in load_any_task(task).roles.values())
    return "zero|random|baseline" if baselines else "zero|random"


def shipped(task: str, instead: str = "train one and give its file") -> list[Path]:
    """The policies that ship for `task`, one for each role; ValueError, which says what `instead`, where one is not."""
    paths = shipped_files(task)
    for path in paths:
        if not path.exists():
            raise ValueError(f"no policy ships for {task!r} ({path} is not there): {instead}")
    return paths


def _of_files(files: Sequence[Path]) -> tuple[dict[str, PolicyRuntime], str]:
    """Runtimes by the role that their contracts name ("" where a task has one), and their task."""
    runtimes = [PolicyRuntime.load(file) for file in files]
    tasks = sorted({runtime.contract.task for runtime in runtimes})
    if len(tasks) > 1:
        raise ValueError(f"policies for {' and '.join(tasks)} cannot act together")
    team = {runtime.contract.group: runtime for runtime in runtimes}
    if len(team) < len(runtimes):
        raise ValueError("two policies for the same role: give one for each")
    return team, tasks[0]
