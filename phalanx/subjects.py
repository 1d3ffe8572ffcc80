"""Who acts in which task, from what the command line names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.bundle import load_bundle
from deploy.contract.groups import group_and_number
from phalanx.folders import check_run
from phalanx.zoo import shipped_files
from sim.tasks import load_task, task_names

if TYPE_CHECKING:
    from policies.evaluation.policy_runner import PolicyRunner
    from sim.task import TaskCfg


def check_subjects(subjects: Sequence[str], task: str | None) -> None:
    """ValueError, without a second of imports, for a task that does not exist and for what is no policy file or run."""
    for subject in subjects:
        if not is_file(subject):
            check_task(subject)
        elif Path(subject).suffix == ".onnx":
            load_bundle(subject)
        else:
            check_run(Path(subject))
    if task is not None:
        check_task(task)


def check_task(name: str) -> None:
    """ValueError for a task that does not exist; one of the user's own is only known once it is loaded."""
    if ":" not in name and name not in task_names():
        load_task(name)


def runners_and_task(
    agent: str, subjects: Sequence[str], task: str | None, seed: int
) -> "tuple[dict[str, PolicyRunner], TaskCfg]":
    """A policy runner for each group of the task, and the task.

    `subjects` is a task, policy files, or the folder of a training run; the latter two bring their own task. A task
    without a file is played by the policy that ships for it. A policy also plays another task that gives the same robot
    the same commands and objects: one that walks on a floor may try rough ground. ValueError for an unknown task
    and where policy or task is not clear, BundleError for a bad file, CheckpointError for a bad run.
    """
    paths = [Path(subject) for subject in subjects if is_file(subject)]
    named = {subject for subject in subjects if not is_file(subject)} | ({task} if task else set())
    if len(named) > 1:
        raise ValueError(f"which task, {' or '.join(sorted(named))}? name one")
    if agent != "policy":
        from phalanx.agents import make_agent

        cfg = _load(paths)[1] if paths and not named else load_task(next(iter(named), "swarm-swap"))
        return {group: make_agent(agent, seed, part) for group, part in cfg.groups.items()}, cfg
    if not paths and not named:
        raise ValueError(
            "which policy? give a file or the folder of a run, such as zoo/swarm-swap.onnx or runs/hover, or a task "
            "and --agent zero|random|baseline"
        )
    asked = next(iter(named), None)
    runners, own = _load(paths or shipped(str(asked), f"give a file, or --agent {_others(str(asked))}"))
    cfg = load_task(asked) if asked else own
    if cfg.name != own.name and not _fits(cfg, runners):
        raise ValueError(f"{paths[0]} is a policy for {own.name!r}, not for {asked!r}")
    groups = [group_and_number(name) for name in runners]
    alike = len(cfg.groups) == len(runners) == 1 and groups[0][1] is None  # may be called otherwise in another task
    team = dict(zip(cfg.groups, runners.values(), strict=True)) if alike else runners
    missing = set() if alike else set(cfg.groups) - {group for group, _ in groups}
    if missing:
        absent = ", ".join(sorted(missing))
        raise ValueError(f"task {cfg.name!r} needs a policy for each group; there is none for {absent}")
    return team, cfg


def _load(paths: Sequence[Path]) -> "tuple[dict[str, PolicyRunner], TaskCfg]":
    """Runners by the group that they are for, and their task; that of a run as it was trained."""
    from policies.evaluation.evaluate import load_team
    from policies.evaluation.policy_runner import BundleRunner, TorchRunner

    if runs := [path for path in paths if path.is_dir() or path.suffix == ".pt"]:
        if len(paths) > 1:
            raise ValueError(f"{runs[0]} is a training run, which has the policies of its whole team: give it alone")
        from policies.checkpoint import load_checkpoint
        from policies.evaluation.trained import controllers_of, trained_task

        content = load_checkpoint(runs[0])
        task = trained_task(content)
        return {group: TorchRunner(controller) for group, controller in controllers_of(content, task).items()}, task
    name, team = load_team(paths)
    return {group: BundleRunner(runtime) for group, runtime in team.items()}, load_task(name)


def _fits(cfg: "TaskCfg", runners: "Mapping[str, PolicyRunner]") -> bool:
    """Whether a policy file of another task is for the same robot, and is given here all that it needs."""
    from policies.evaluation.policy_runner import BundleRunner

    runner = next(iter(runners.values()))
    if len(cfg.groups) > 1 or not isinstance(runner, BundleRunner) or runner.runtime.contract.group:
        return False
    contract = runner.runtime.contract
    commands, objects = {command.name for command in contract.commands}, set(contract.objects)
    return (
        contract.robot.name == cfg.group.robot
        and commands == set(cfg.group.commands)
        and objects <= set(cfg.scene.objects)
    )


def is_file(subject: str) -> bool:
    """Whether the command line means a policy file or a run; names of tasks have no suffix and no folder."""
    path = Path(subject)
    if "@" in subject and subject.partition("@")[0] in task_names():  # for the robot of an overlay file
        return False
    return subject not in task_names() and (
        path.exists() or (":" not in subject and (bool(path.suffix) or len(path.parts) > 1))
    )


def _others(task: str) -> str:
    """Who else than a policy can play `task`."""
    baselines = all(group.baseline for group in load_task(task).groups.values())
    return "zero|random|baseline" if baselines else "zero|random"


def shipped(task: str, instead: str = "train one and give its file") -> list[Path]:
    """The policies that ship for `task`, one for each group; ValueError says what to do `instead` of it."""
    paths = shipped_files(task)
    for path in paths:
        if not path.exists():
            raise ValueError(f"no policy ships for {task!r} ({path} is not there): {instead}")
    return paths
