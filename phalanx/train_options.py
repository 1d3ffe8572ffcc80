"""Options of `phalanx train` that depend on the task and the algorithm: their fields, with what they are by default."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

FLAGS = ("--shield", "--resume", "--json", "--accept-task-change", "--wandb", "--help")
GIVEN_ELSEWHERE = ("num_envs", "train_steps", "num_agents")  # as options of their own


@dataclass(frozen=True)
class Begun:
    """What a run was begun with, as far as it is not given again; of a new run, the defaults."""

    seed: int = 0
    num_envs: int | None = None
    robots: int | None = None
    steps: int | None = None
    wall_budget_s: float | None = None
    shield: bool = False
    checkpoint_every: int = 10
    device: Any = None
    threads: int = 2
    algorithm: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    task_changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What decides which options there are, and their defaults."""

    task: str | None
    algo: str
    begun: Begun


def asked(args: Sequence[str]) -> Asked:
    """Task, algorithm and, with --resume, what the run was begun with, from arguments that are not parsed yet."""
    words = [word for argument in args for word in (argument.split("=", 1) if argument[:1] == "-" else [argument])]
    named: dict[str, str] = {}
    task = None
    for before, word in zip(["", *words], words, strict=False):
        if before.startswith("--") and before not in FLAGS and not word.startswith("--"):
            named[before.replace("_", "-")] = word
        elif not word.startswith("-") and task is None:
            task = word
    record = Path(named.get("--out", f"runs/{task}")) / "run.json"
    if "--resume" not in args or not record.is_file():
        return Asked(task, named.get("--algo", "ppo"), Begun())
    run = json.loads(record.read_text())
    known = {**run, **run["given"], **run["machine"], "steps": run["total_steps"]}
    begun = Begun(**{name: known[name] for name in Begun.__dataclass_fields__ if name in known})
    return Asked(task, named.get("--algo", run["algo"]), begun)


def fields_of_task(task: Any) -> tuple[type, dict[str, str]]:
    """A dataclass with every single number of a task (None: of none) as a field, and the path in the task of each."""
    from policies.task_data import numbers

    known = {} if task is None else numbers(task)
    found = {path: value for path, value in known.items() if path.rpartition(".")[2] not in GIVEN_ELSEWHERE}
    paths = {path.replace(".", "__"): path for path in found}
    made = [
        (name, Annotated[type(found[path]), tyro.conf.arg(name=path)], field(default=found[path]))
        for name, path in paths.items()
    ]
    return make_dataclass("TaskFields", made), paths


def given(args: Sequence[str], prefix: str, value: Any) -> dict[str, Any]:
    """Those fields of the configuration `value` that the arguments name as --prefix.field."""
    names = {arg.partition("=")[0].replace("_", "-").replace(".no-", ".") for arg in args}
    return {n: v for n, v in vars(value).items() if f"--{prefix}.{n}".replace("_", "-") in names}
