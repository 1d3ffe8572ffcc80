"""Who acts, and in which task, from what the command line says."""

from pathlib import Path

from phalanx.play.agents import make_agent
from policies.evaluate import make_pilot
from policies.pilot import BundlePilot, Pilot
from sim.tasks import load_task, task_names

ZOO = Path("zoo")


def pilot_and_task(agent: str, subject: str | Path | None, task: str | None, seed: int) -> tuple[Pilot, str]:
    """The pilot and the task's name. `subject` is a task or a policy file, which brings its own task; `task` a task.

    A task without a file is played by the policy that ships for it. ValueError when it is unclear who shall act in
    what and for an unknown task, BundleError for a bad file.
    """
    named = str(subject) if subject is not None and not is_file(subject) else None
    if named is not None and task is not None and named != task:
        raise ValueError(f"which task, {named!r} or {task!r}? name it once")
    if agent != "policy":
        chosen = named or task
        if subject is not None and named is None:
            chosen = chosen or task_of(Path(subject))
        cfg = load_task(chosen or "swarm-swap")
        return make_agent(agent, seed, cfg), cfg.name
    if subject is None and task is None:
        raise ValueError(
            "which policy? give a file, such as zoo/swarm-swap.onnx, or a task and --agent zero|random|baseline"
        )
    file = Path(subject) if subject is not None and named is None else shipped(named or task or "")
    pilot = make_pilot(file)
    assert isinstance(pilot, BundlePilot)
    return pilot, load_task(pilot.runtime.contract.task).name


def is_file(subject: str | Path) -> bool:
    """Whether the command line means a policy file; names of tasks have no suffix and no folder."""
    path = Path(subject)
    return str(subject) not in task_names() and (bool(path.suffix) or len(path.parts) > 1 or path.exists())


def shipped(task: str) -> Path:
    """The policy that ships for `task`; ValueError where there is none."""
    name = load_task(task).name
    path = ZOO / f"{name}.onnx"
    if not path.exists():
        simple = "zero|random|baseline" if load_task(name).baseline else "zero|random"
        raise ValueError(f"no policy ships for {name!r} ({path} is not there): give a file, or --agent {simple}")
    return path


def task_of(file: Path) -> str:
    """The task that a policy file was trained on."""
    from deploy.bundle import load_bundle

    return load_bundle(file).contract.task
