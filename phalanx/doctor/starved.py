"""Whether this computer let the program run while it looked at a robot: else what it measured is not the robot's."""

import os
import time
from pathlib import Path

from ros_nodes.lifecycle.machine_load import usable_cores

IN_TIME_S = 0.002  # by which a wake-up may be late on a computer that has nothing else to do
LEAST_S = 0.5  # of a look that shows whether it is busy
SHARE = 0.1  # of the time kept from a processor, from which on a rate says more of the computer than of a link


class Starved:
    """Measures from its construction on, of this process alone."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._late_s = self._worst_s = 0.0
        self._waits = _waits_s()

    def sleep(self, seconds: float) -> None:
        """Sleep, and see how much later than that it goes on."""
        due_s = time.monotonic() + seconds
        time.sleep(seconds)
        late_s = time.monotonic() - due_s
        self._late_s += max(0.0, late_s - IN_TIME_S)
        self._worst_s = max(self._worst_s, late_s)

    def says(self) -> str:
        """That this computer is busy, and how much it kept this program waiting; empty where it did not."""
        seconds = max(time.monotonic() - self._began_s, 1e-3)
        waited_s = max((now_s - self._waits.get(thread, 0.0) for thread, now_s in _waits_s().items()), default=0.0)
        share = max(self._late_s, waited_s) / seconds
        if share < SHARE or seconds < LEAST_S:
            return ""
        late = f"waited for a processor {100 * share:.0f} % of the time"
        if self._worst_s > IN_TIME_S:
            late = f"woke up to {1e3 * self._worst_s:.0f} ms late, and {late}"
        return f"this computer is busy: the doctor {late} (load {os.getloadavg()[0]:.1f} on {usable_cores()} cores)"


def _waits_s() -> dict[str, float]:
    """How long each thread of this process was ready and did not run, s; of no thread where the kernel does not say."""
    found = {}
    for file in Path("/proc/self/task").glob("*/schedstat"):
        try:
            found[file.parent.name] = 1e-9 * int(file.read_text().split()[1])
        except (OSError, ValueError, IndexError):  # a thread that has ended
            continue
    return found
