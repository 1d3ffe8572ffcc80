"""Processes of nodes that are forked from one which has imported what they need: a second of a core less for each.

What `Processes` starts for a user, each with an interpreter of its own, is tested by whole teams, by those that
`phalanx deploy` starts among them.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.forkserver import ensure_running
from pathlib import Path

import pytest

from ros_nodes.lifecycle.processes import NODE_ENVIRONMENT, PARENT, Processes

CONTEXT = multiprocessing.get_context("forkserver")
PRELOADED = [f"ros_nodes.nodes.{name}" for name in ("host", "policy_node", "driver_node", "simulated_robots_node")]


class Forked:
    """A process in the place of a `subprocess.Popen`."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]):
        with pytest.MonkeyPatch.context() as patch:  # numerics read it where the server imports them
            for name, value in NODE_ENVIRONMENT.items():
                patch.setenv(name, value)
            CONTEXT.set_forkserver_preload(PRELOADED)
            ensure_running()
        self.args = [module, *arguments]
        self._process = CONTEXT.Process(target=_become, args=(self.args, str(log), dict(environment)))
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, -n for signal n; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ends just now
                os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self._process.kill()


class ForkedProcesses(Processes):
    """`Processes` that forks nodes."""

    def _start(self, name: str, nodes: Sequence[str], command: Sequence[str]) -> None:
        if command[:2] != [sys.executable, "-m"] or "LD_PRELOAD" in self._environment:  # read as a program starts
            super()._start(name, nodes, command)
            return
        self._process_of |= dict.fromkeys(nodes, name)
        self._running[name] = Forked(command[2], command[3:], self.log_of(name), self._environment)


def _become(command: list[str], log: str, environment: dict[str, str]) -> None:
    """Be the process that this command with this environment would have started."""
    os.setsid()
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (written, 1), (written, 2)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(environment, **{PARENT: str(os.getppid())})
    sys.path[:0] = [path for path in environment["PYTHONPATH"].split(os.pathsep) if path not in sys.path]
    sys.argv = command
    sys.exit(import_module(command[0]).main())
