"""Argument types that several subcommands share, and checks of their values before any work starts."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardware.ranges import check_range

LARGEST_TEAM = 64  # robots in one scene; what speed was measured up to


def _optional(metavar: str, meaning: str | None = None) -> object:
    """An option that may be left out, without `None` in its help; its `meaning`, unless the docstring says it."""
    return tyro.conf.arg(metavar=metavar, help=meaning, help_behavior_hint="")


TaskToTrain = Annotated[str | None, tyro.conf.Positional, _optional("TASK")]
PolicyFile = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
RunFlag = Annotated[Path | None, _optional("RUN")]
OutFile = Annotated[Path | None, tyro.conf.arg(name="out", metavar="FILE", help_behavior_hint="")]
KeyFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
TrustedKeys = Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY...", help_behavior_hint="")]
OutFolder = Annotated[Path | None, tyro.conf.arg(name="out", metavar="FOLDER", help_behavior_hint="")]
Count = Annotated[int | None, _optional("INT")]
Counts = Annotated[tuple[int, ...], _optional("INT...")]
Seconds = Annotated[float | None, _optional("SECONDS")]
Rate = Annotated[float | None, _optional("HZ")]
Names = Annotated[tuple[str, ...], _optional("NAME...")]
Domain = Annotated[int | None, _optional("INT", "ROS domain; by default ROS_DOMAIN_ID.")]
Subjects = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    _optional(
        "TASK|FILE|RUN...",
        "A task, a policy file, or the folder of a training run; of a team with several groups a file for each.",
    ),
]
Policies = Annotated[tuple[str, ...], tyro.conf.Positional, _optional("TASK|FILE...")]
TaskFlag = Annotated[str | None, _optional("TASK", "Another way to name the task.")]
Engine = Annotated[str, tyro.conf.arg(metavar="mujoco|warp|mjx|brax")]
Device = Annotated[Literal["cpu", "cuda"] | None, _optional("cpu|cuda")]
Agent = Annotated[
    Literal["policy", "zero", "random", "baseline"],
    tyro.conf.arg(
        help="Who acts: the policy (that of the zoo when only a task is given), all actions zero, random actions, or "
        "the task's baseline controller."
    ),
]
Json = Annotated[bool, tyro.conf.arg(help="Print one JSON object on stdout.")]


def check_seed(seed: int | None) -> None:
    """ValueError for a negative one."""
    check_range("seed", seed, 0, 2**63 - 1)


def check_robots(*sizes: int | None) -> None:
    """ValueError for a team that is empty, or larger than one scene takes."""
    for size in sizes:
        check_range("robots", size, 1, LARGEST_TEAM)
