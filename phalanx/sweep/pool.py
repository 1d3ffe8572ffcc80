"""Runs of a sweep in processes of their own: when they are killed they go on from their checkpoints, or begin again."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from hardware.parent import end_with_parent
from policies.checkpoint import replace_file
from policies.records import RECORD, read_record
from policies.training.progress import read_progress
from policies.training.train import LOCK

STATE = "sweep.json"
RESTARTS = 3  # of a run that is killed
KILLED = (130, 137, 143)  # exit statuses of what was ended from outside; below zero, too
LOOK_EVERY_S = 0.2
READ_EVERY_S = 2.0  # how far runs have come
TRAINED = 0.99  # of a run, which has its files still to write
GOES_ON = "attack"  # the command that goes on in the folder that it is given
GATE = 1  # exit status of a command that has answered that something fell short


class Process(Protocol):
    """A command that was started, here or elsewhere; see `subprocess.Popen`."""

    def poll(self) -> int | None: ...
    def wait(self) -> object: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


@dataclass
class RunState:
    """One run of a sweep."""

    args: list[str]  # of the command
    state: str = "waiting"  # running, done, failed
    restarts: int = 0  # after it was killed
    why: str = ""  # it failed


def has_sweep(folder: Path) -> bool:
    """Whether there is a sweep to go on with: one of which a run has begun, or may."""
    file = folder / STATE
    return file.is_file() and any(run["state"] != "failed" for run in json.loads(file.read_text())["runs"].values())


class Sweep:
    """The runs of a sweep, and how they stand, in `folder`/sweep.json.

    All are of one `command` of phalanx: `train`, or one that answers in JSON.
    """

    def __init__(self, folder: Path, runs: dict[str, RunState], command: str = "train") -> None:
        self.folder, self.runs, self.command = folder, runs, command

    @classmethod
    def load(cls, folder: Path) -> "Sweep":
        """A sweep that goes on; ValueError where there is none. What failed is tried again."""
        file = folder / STATE
        if not file.is_file():
            raise ValueError(f"no sweep in {folder}: it has no {STATE}")
        saved = json.loads(file.read_text())
        runs = {name: RunState(**values) for name, values in saved["runs"].items()}
        again = {name: run if run.state == "done" else RunState(run.args) for name, run in runs.items()}
        return cls(folder, again, saved.get("command", "train"))

    def save(self) -> None:
        """Write how the runs stand, all or nothing."""
        runs = {name: asdict(run) for name, run in self.runs.items()}
        text = json.dumps({"command": self.command, "runs": runs}, indent=2)
        replace_file(self.folder / STATE, lambda file: file.write(text.encode()))

    def count(self, state: str) -> int:
        return sum(run.state == state for run in self.runs.values())

    def trained(self) -> int:
        """How many runs have trained, and write their files."""
        return sum(run.state == "running" and self._share(name) >= TRAINED for name, run in self.runs.items())

    def run(
        self, workers: int, on_progress: Callable[[float], None], start: Callable[[list[str], Path], Process]
    ) -> None:
        """Run all that is not done, up to `workers` at a time; `on_progress` hears how many runs' worth is done.

        `start` as `start_command`. KeyboardInterrupt leaves every training with a checkpoint to go on from.
        """
        running: dict[str, Process] = {}
        looked_at = -READ_EVERY_S
        try:
            while running or self.count("waiting"):
                for name, process in list(running.items()):
                    if (code := process.poll()) is not None:
                        del running[name]
                        self._ended(name, code)
                waiting = [name for name, run in self.runs.items() if run.state == "waiting"]
                for name in waiting[: workers - len(running)]:
                    if not _in_use(self.folder / name):  # by what a sweep that was killed has left
                        running[name] = self._start(name, start)
                if time.monotonic() - looked_at >= READ_EVERY_S or not running:
                    looked_at = time.monotonic()
                    on_progress(sum(self._share(name) for name in self.runs))
                time.sleep(LOOK_EVERY_S)
        finally:
            self._stop(running)

    def _start(self, name: str, start: Callable[[list[str], Path], Process]) -> Process:
        run, folder = self.runs[name], self.folder / name
        if (folder / RECORD).exists():
            args = ["--resume", str(folder)]
        else:
            args = [*run.args, *(["--out", str(folder)] if self.command in ("train", GOES_ON) else [])]
        log = self._log(name)
        log.parent.mkdir(exist_ok=True)
        process = start([self.command, *args, *([] if self.command == "train" else ["--json"])], log)
        run.state = "running"
        self.save()
        return process

    def _ended(self, name: str, code: int) -> None:
        run = self.runs[name]
        if code == 0 or (code == GATE and self.answer(name) is not None):
            run.state = "done"
        elif (code < 0 or code in KILLED) and run.restarts < RESTARTS:
            run.state, run.restarts = "waiting", run.restarts + 1
        else:
            said = self._log(name).read_text(errors="replace").strip().splitlines()
            run.state, run.why = "failed", said[-1] if said and code > 0 else f"killed {run.restarts + 1} times"
        self.save()

    def _stop(self, running: dict[str, Process]) -> None:
        """End what is still running, each with its checkpoint; at once when that is interrupted too."""
        for name, process in running.items():
            self.runs[name].state = "waiting"
            process.send_signal(signal.SIGINT)
        for process in running.values():
            try:
                process.wait()
            except KeyboardInterrupt:
                for each in running.values():
                    each.kill()
                process.wait()
        if running:
            self.save()

    def answer(self, name: str) -> dict[str, Any] | None:
        """What the command of a run answered; None where it has not, or not whole."""
        try:
            answer: dict[str, Any] = json.loads(_answer(self._log(name)).read_text())
        except (OSError, ValueError):
            return None
        return answer

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.txt"

    def _share(self, name: str) -> float:
        """How much of a run is done, 0 to 1."""
        state, folder = self.runs[name].state, self.folder / name
        if state in ("done", "failed"):
            return 1.0
        rows = read_progress(folder)[-1:]
        if not rows or not (folder / RECORD).exists():
            return 0.0
        record = read_record(folder, ("wall_budget_s", "total_steps"))
        by_time = rows[0]["wall_s"] / (record["wall_budget_s"] or float("inf"))
        return min(TRAINED, max(by_time, rows[0]["agent_steps"] / record["total_steps"]))


def start_command(args: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    """A command of phalanx with its arguments, in a process that the terminal's Ctrl-C does not reach, and that ends
    with this one. It prints into `log`, and an answer in JSON into a file beside that.
    """
    command, with_this = [sys.executable, "-m", "phalanx", *args], partial(end_with_parent, os.getpid())
    with log.open("ab") as said, _answer(log).open("wb") if "--json" in args else nullcontext(said) as answer:
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": answer, "stderr": said}
        return subprocess.Popen(command, **options, start_new_session=True, preexec_fn=with_this)


def _answer(log: Path) -> Path:
    return log.with_name(f"{log.stem}.json")


def _in_use(folder: Path) -> bool:
    """Whether another process trains in it."""
    if not (folder / LOCK).exists():
        return False
    with (folder / LOCK).open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
