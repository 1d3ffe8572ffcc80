"""Processes of nodes, forked from one that has imported what they need: half a second of a core less for each.

`python -m ros_nodes.lifecycle.fork_server` is that process. It has no thread and no middleware, waits for orders, and
ends with the program that started it. What it forks are children of that program, as if they had been started by it.
"""

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

NODES = ("host", "policy_node", "shield_node", "driver_node", "operator_node", "recorder_node", "simulated_robots_node")
PR_SET_CHILD_SUBREAPER = 36
SHOWN_BYTES = 4000  # of a command line, in `ps`
ANSWER_S = 30.0  # on a busy machine the server imports for ten seconds before it serves
ENDING_S = 0.5  # from the end of its socket to its own, at most
# One thread for numerics: control cycles are shorter than handing work over. Safe path: a folder in the working
# directory that happens to be called like one of our packages must not shadow it.
NODE_ENVIRONMENT = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONSAFEPATH")
}
_server: "_Server | None" = None


class Forked:
    """A process in the place of a `subprocess.Popen`."""

    def __init__(self, pid: int):
        self.pid = pid
        self.returncode: int | None = None  # the exit code, -n for signal n; None while it runs

    def poll(self) -> int | None:
        """`returncode`, after a look."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; TimeoutExpired where it has not ended after `timeout` s."""
        if self.poll() is None:
            ending = os.pidfd_open(self.pid)
            try:
                select.select([ending], [], [], timeout)
            finally:
                os.close(ending)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def warm() -> None:
    """Begin to import what nodes need, in the background; nothing where that has begun, or on other than Linux."""
    global _server
    if _server is None and sys.platform == "linux":
        _server = _Server()


def fork(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked | None:
    """What `command`, "python -m MODULE ...", would start with `environment`; it prints to the end of the file `log`.

    None for what cannot be forked, and where there is nothing to fork it from.
    """
    global _server
    if list(command[:2]) != [sys.executable, "-m"] or "LD_PRELOAD" in environment:  # read as a program starts
        return None
    warm()
    try:
        return _server.fork(command, log, environment) if _server else None
    except (OSError, ValueError):  # it has been killed, or stopped: the next one may live
        if _server:
            with log.open("a") as said:
                said.write(f"the fork server {_server.end()}: this process is started without it\n")
        _server = None
        return None


class _Server:
    """The process that forks, as the program sees it."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        module = [sys.executable, "-m", "ros_nodes.lifecycle.fork_server"]
        with its:
            self._process = subprocess.Popen(
                [*module, str(its.fileno()), " " * SHOWN_BYTES],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **NODE_ENVIRONMENT, "PYTHONPATH": path},
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        ours.settimeout(ANSWER_S)
        self._socket, self._answers = ours, ours.makefile("rwb")

    def end(self) -> str:
        """What it has not forked yet is not forked any more. How it was before, in words."""
        with suppress(subprocess.TimeoutExpired):  # what is killed closes its socket before it has ended
            self._process.wait(ENDING_S)
        code = self._process.poll()
        self._process.kill()
        self._process.wait()
        return f"(pid {self._process.pid}) {'did not answer' if code is None else f'had ended with code {code}'}"

    def fork(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked:
        order = {"command": list(command), "log": str(log), "environment": dict(environment)}
        # For so long an orphan is this process's: the one that forks the node for us ends before the answer.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._answers.write(json.dumps(order).encode() + b"\n")
            self._answers.flush()
            return Forked(int(self._answers.readline()))
        finally:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def main() -> None:
    """Serve the program at the other end of the socket until it has ended."""
    for name in NODES:
        with suppress(ImportError):  # of a package that only this node needs: it will say so itself
            import_module(f"ros_nodes.nodes.{name}")
    gc.collect()
    gc.freeze()  # or the first collection of each copy writes to all pages
    with socket.socket(fileno=int(sys.argv[1])) as orders, orders.makefile("rwb") as lines:
        for line in lines:
            receives, sends = os.pipe()
            between = os.fork()
            if not between:  # its child is an orphan at once, and so a child of the program
                between = os.getpid()
                if node := os.fork():
                    os.write(sends, b"%d\n" % node)
                    os._exit(0)
                lines.close()
                orders.close()
                os.close(receives)
                os.close(sends)
                _become(between, **json.loads(line))
            os.waitpid(between, 0)
            lines.write(os.read(receives, 20))
            lines.flush()
            os.close(receives)
            os.close(sends)


def _become(between: int, command: list[str], log: str, environment: dict[str, str]) -> NoReturn:
    """Be the process that this command with this environment would have started."""
    while os.getppid() == between:
        time.sleep(0.0005)
    os.setsid()
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(written)
    _show(command)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    sys.argv = command[2:]
    code: Any = 1
    try:
        module: Any = import_module(command[2])
        code = module.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)  # what was imported before the fork may wait for ever for a thread that is not here


def _show(command: Sequence[str]) -> None:
    """Have `ps` show this command line, in the place of the longer one that the process was started with."""
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    text = b"".join(word.encode() + b"\0" for word in command)[: end - begin - 1]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


if __name__ == "__main__":
    main()
