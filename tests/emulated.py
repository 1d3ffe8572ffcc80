"""An emulated device as a process of its own, and orders to it."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

NICENESS = -15


class Emulated:
    """`python -m devices.NAME OPTIONS`. `address` is what it says first: a port, or a host.

    A context manager, which waits for that: those that are made before the first one is entered start side by side.
    """

    def __init__(self, name: str, *options: str, python: str = sys.executable):
        command = [python, "-m", f"devices.{name}", *options]
        here = Path(__file__).parent
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=here,
            env=_environment(here),
            start_new_session=True,
        )
        _put_first(self._process.pid)

    @cached_property
    def address(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    @property
    def port(self) -> int:
        """Of a device that is a port of this computer."""
        return int(self.address)

    def order(self, **orders: Any) -> dict[str, Any]:
        """Set some of its attributes, such as loss=0.3; what it says of itself."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(orders) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        """As a device whose battery is pulled."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """As a device that says nothing any more, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def __enter__(self) -> "Emulated":
        assert self.address
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


def _put_first(process: int) -> None:
    """As simulated robots, where that is granted: a device stands for hardware, which waits for no program here."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, NICENESS)
        Path(f"/proc/{process}/autogroup").write_text(str(NICENESS))  # it has a session of its own


def _environment(tests: Path) -> dict[str, str]:
    path = os.pathsep.join([str(tests), str(tests.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
