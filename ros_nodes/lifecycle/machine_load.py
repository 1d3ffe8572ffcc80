"""How much of this machine others use: other programs, and the host of a virtual machine."""

import os
import resource
import time
from pathlib import Path

OTHERS, STOLEN = 0.5, 0.2  # of the cores, from which on a program is slow because of them


def usable_cores() -> int:
    """Cores of this machine that this process may use."""
    return len(_usable()) or os.cpu_count() or 1


class MachineLoad:
    """Measures from its construction on."""

    def __init__(self) -> None:
        self._begin = _now()

    def others(self, children_s: float = 0.0) -> float | None:
        """Cores that all but this program and its children kept busy; None where nothing tells.

        `children_s`: processor time of the children that have not ended.
        """
        begin, end = self._begin, _now()
        if begin is None or end is None:
            return None
        (busy, own, at_s, _), (busy_end, own_end, end_s, _) = begin, end
        others = max(0.0, (busy_end - busy) - (own_end - own) - children_s) / max(end_s - at_s, 1e-3)
        return min(others, float(usable_cores()))  # in a moment the kernel's ticks count for more than there was

    def stolen(self) -> float | None:
        """Cores that the host of a virtual machine took from it; what it took from this program others do not hold."""
        begin, end = self._begin, _now()
        if begin is None or end is None:
            return None
        return (end[3] - begin[3]) / max(end[2] - begin[2], 1e-3)

    def blame(self, children_s: float = 0.0) -> str:
        """What a program that was too slow says of the machine, where more threads want to run than it has cores.

        See `says`; empty where it is not busy.
        """
        busy, said = self.says(children_s)
        return f"; the machine may be too busy: {said}" if busy else ""

    def says(self, children_s: float = 0.0) -> tuple[bool, str]:
        """Whether it is busy, and its load, cores and what others used of them.

        The load is a mean over a minute, and knows nothing of a virtual machine's host: so shares of the cores count
        too, `OTHERS` and `STOLEN`.
        """
        cores, load = usable_cores(), os.getloadavg()[0]
        others, stolen = self.others(children_s), self.stolen()
        busy = load > cores or (others or 0.0) >= OTHERS * cores or (stolen or 0.0) >= STOLEN * cores
        used = "" if others is None else f", others used {others:.1f} of them"
        used += f", its host took {stolen:.1f}" if stolen and stolen >= 0.05 else ""
        return busy, f"load {load:.1f} on {cores} cores{used}"


def _usable() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _now() -> tuple[float, float, float, float] | None:
    """Processor seconds of everything and of this program, the time, and processor seconds that were stolen.

    Of the cores that this process may use.
    """
    names = {f"cpu{number}" for number in _usable()}
    try:
        rows = [row.split() for row in Path("/proc/stat").read_text().splitlines()]
        cores = [list(map(int, numbers)) for name, *numbers in filter(None, rows) if name in names]
        user, nice, system, _idle, _wait, irq, softirq, steal, *_ = map(sum, zip(*cores, strict=True))
    except (OSError, ValueError):
        return None
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, tick_s = sum(usage.ru_utime + usage.ru_stime for usage in usages), 1 / os.sysconf("SC_CLK_TCK")
    busy = user + nice + system + irq + softirq + steal
    return busy * tick_s, own, time.monotonic(), steal * tick_s
