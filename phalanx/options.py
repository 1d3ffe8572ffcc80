"""Argument types that several subcommands share."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

TaskName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
PolicyFile = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
RunFlag = Annotated[Path | None, tyro.conf.arg(metavar="RUN")]
OutFile = Annotated[Path | None, tyro.conf.arg(name="out", metavar="FILE")]
OutFolder = Annotated[Path | None, tyro.conf.arg(name="out", metavar="FOLDER")]
Count = Annotated[int | None, tyro.conf.arg(metavar="INT")]
Seconds = Annotated[float | None, tyro.conf.arg(metavar="SECONDS")]
OptionalPolicyFile = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Subjects = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TASK|FILE...")]
TaskFlag = Annotated[str | None, tyro.conf.arg(metavar="TASK")]
Engine = Annotated[str, tyro.conf.arg(metavar="mujoco|warp|mjx|brax")]
Device = Annotated[Literal["cpu", "cuda"] | None, tyro.conf.arg(metavar="cpu|cuda")]
Agent = Literal["policy", "zero", "random", "baseline"]
