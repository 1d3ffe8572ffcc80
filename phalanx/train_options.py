"""Options of `phalanx train` that depend on the task and the algorithm: their fields, with what they are by default."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import tyro

from hardware.names import nearest_path
from phalanx.folders import CHECKPOINT
from policies.records import RECORD, read_record

SWITCHES = ("shield", "onnx", "film", "wandb")  # --NAME or --no-NAME
FLAGS = ("--json", "--accept-task-change", "--help", *(f"--{no}{name}" for name in SWITCHES for no in ("", "no-")))
VALUED = "out seed num-envs robots steps wall-budget-s stop-at resume start-from checkpoint-every keep-every engine"
VALUED += " device threads shards algo"  # options of every task and algorithm that take a value
ALIKE = 0.85  # of the letters of two names, from which one is the other mistyped
GIVEN_ELSEWHERE = ("num_envs", "train_steps", "num_agents")  # as options of their own


@dataclass(frozen=True)
class Begun:
    """What a run was begun with, as far as it is not given again; of a new run, the defaults."""

    seed: int = 0
    num_envs: int | None = None
    robots: int | None = None
    steps: int | None = None
    wall_budget_s: float | None = None
    stop_at: float | None = None
    shield: bool | None = None  # as the task says
    checkpoint_every: int = 10
    keep_every: int | None = None
    onnx: bool = True
    film: bool = True
    wandb: bool = False
    start_from: str | None = None
    device: Any = None
    threads: int = 2
    shards: int | None = None
    algorithm: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    task_changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What decides which options there are, and their defaults."""

    task: str | None
    algo: str
    begun: Begun
    resumed: Path | None = None  # folder of the run that goes on


def asked(args: Sequence[str]) -> Asked:
    """Task, algorithm and, with --resume, what the run was begun with, from arguments that are not parsed yet.

    ValueError for a run of another task than the one that is named, or that shall go on in another folder.
    """
    words = [word for argument in args for word in (argument.split("=", 1) if argument[:1] == "-" else [argument])]
    named: dict[str, str] = {}
    task = None
    for before, word in zip(["", *words], words, strict=False):
        if before.startswith("--") and before not in FLAGS and not word.startswith("--"):
            named[before.replace("_", "-")] = word
        elif not word.startswith("-") and task is None and not _is_number(word):  # the second one of a range
            task = word
    if "--resume" not in named:
        return Asked(task, named.get("--algo", "ppo"), Begun())
    path = Path(named["--resume"])
    folder = path.parent if path.is_file() else path
    if path.is_file() and path.name != CHECKPOINT:
        last, begins = f"a run goes on from its last checkpoint, {folder / CHECKPOINT}", f"--start-from {path}"
        raise ValueError(f"--resume {path}: {last}; to begin a new one with these networks: {begins}")
    if not (folder / RECORD).is_file():
        return Asked(task, named.get("--algo", "ppo"), Begun(), folder)  # which is refused when its work is to begin
    if Path(named.get("--out", folder)) != folder:
        raise ValueError(f"--out {named['--out']}: a run goes on in its own folder, {folder}")
    run = read_record(folder, ("from", "task", "algo", "given", "machine", "total_steps"))
    begun_with = run["from"] or run["task"]
    if task not in (None, begun_with):
        raise ValueError(f"cannot resume with task {task!r}: {folder} was begun with {begun_with!r}")
    if (algo := named.get("--algo", run["algo"])) != run["algo"]:
        raise ValueError(f"cannot resume with algo {algo!r}: {folder} was begun with {run['algo']!r}")
    known = {**run, **run["given"], **run["machine"], "steps": run["total_steps"]}
    begun = Begun(**{name: known[name] for name in Begun.__dataclass_fields__ if name in known})
    return Asked(begun_with, algo, begun, folder)


def check_spelling(args: Sequence[str]) -> None:
    """ValueError for an option that is nearly one of every task's: without seconds of imports for the others' names."""
    known = [*FLAGS, *(f"--{name}" for name in VALUED.split())]
    for option in (arg.partition("=")[0].replace("_", "-") for arg in args if arg.startswith("--") and "." not in arg):
        near = get_close_matches(option, known, n=1, cutoff=ALIKE)
        if near and option not in known:
            raise ValueError(f"unknown option {option}; see phalanx train --help; did you mean {near[0]!r}?")


def usual(args: Sequence[str], switch: str, begun: bool) -> bool:
    """The default of a switch: as of what was `begun`; what changes it is in the help, and either where it is given."""
    given = [word == f"--no-{switch}" for word in args if word in (f"--{switch}", f"--no-{switch}")]
    return given[0] if given else begun


def check_limits(args: Sequence[str]) -> None:
    """ValueError unless pairs of a term and a number follow each --ppo.limits, or that of another algorithm."""
    for place, arg in enumerate(args):
        option, _, first = arg.partition("=")
        if not re.fullmatch(r"--\w+\.limits", option):
            continue
        words = [word for word in (first, *takewhile(lambda word: word[:2] != "--", args[place + 1 :])) if word]
        if not words or len(words) % 2 or not all(map(_is_number, words[1::2])):
            given = " ".join([option, *words])
            raise ValueError(f"{given}: wanted terms of the reward, a number after each, such as action_change 0.02")
        if twice := [name for name in words[::2] if words[::2].count(name) > 1]:
            raise ValueError(f"{option}: {twice[0]} stands there twice")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_is_run(folder: Path) -> None:
    """ValueError unless `folder` is that of a training run."""
    if not (folder / RECORD).is_file():
        near = "" if folder.exists() else nearest_path(folder)
        raise ValueError(f"no run in {folder}: it has no {RECORD}; give the folder of a training run{near}")


def fields_of_task(task: Any) -> tuple[type, dict[str, str]]:
    """A dataclass with the numbers and ranges of a task (None: of none) as fields, and the path in the task of each."""
    from policies.task_data import numbers

    known = {} if task is None else numbers(task)
    found = {path: value for path, value in known.items() if path.rpartition(".")[2] not in GIVEN_ELSEWHERE}
    paths = {path.replace(".", "__"): path for path in found}
    made = [
        (name, Annotated[_type(found[path]), tyro.conf.arg(name=path)], field(default=found[path]))
        for name, path in paths.items()
    ]
    return make_dataclass("TaskFields", made), paths


def _type(value: Any) -> Any:
    return tuple[tuple(float for _ in value)] if isinstance(value, tuple) else type(value)  # type: ignore[misc]


def given(args: Sequence[str], prefix: str, value: Any) -> dict[str, Any]:
    """Those fields of the configuration `value` that the arguments name as --prefix.field."""
    names = {arg.partition("=")[0].replace("_", "-").replace(".no-", ".") for arg in args}
    return {n: v for n, v in vars(value).items() if f"--{prefix}.{n}".replace("_", "-") in names}
