"""What a process may ask of the scheduler so that its control loop wakes on time.

Not SCHED_FIFO: where ordinary work waits, recent kernels halt it for 50 ms in a row, once a second, to let that work
through. Three control periods of silence make a shield land its robot. A low niceness with short slices has no such
cliff.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path

OF_SHIELDS = -15  # niceness that shields and drivers ask for, in config/team.yaml
SLICE_NS = 100_000  # the shortest that Linux grants: the shorter the slice, the sooner a thread runs that wakes
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(platform.machine())


def schedule_process(niceness: int) -> str:
    """Short interpreter switches, and all threads at `niceness` (-20 first, 19 last) where that is granted.

    Below 0 in short slices, too, which need no privilege. Threads that start later inherit both. Returns one line on
    what was granted.
    """
    sys.setswitchinterval(0.0005)
    refused = ""
    try:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has ended since
                os.setpriority(os.PRIO_PROCESS, int(thread), niceness)
        # Where sessions are scheduled as groups, niceness counts only inside one, and the group has its own.
        group = Path("/proc/self/autogroup")
        if group.exists():
            _nice_group(group, niceness)
    except OSError as error:
        refused = f": niceness {niceness} not granted ({error.strerror})"
    if niceness < 0:  # who has to be on time; short slices need no privilege
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):
                _shorten_slice(int(thread))
    return f"ordinary scheduling{refused}" if refused else f"niceness {niceness}"


def is_granted(niceness: int) -> bool:
    """Whether this process may have `niceness`. A thread that ends tries it: a number of the kernel's may not hold."""
    granted = []

    def ask() -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
            granted.append(niceness)

    asks = threading.Thread(target=ask, name="niceness")
    asks.start()
    asks.join()
    return bool(granted)


def _nice_group(group: Path, niceness: int) -> None:
    try:
        group.write_text(str(niceness))
    except OSError as error:
        if error.errno != errno.EINVAL:  # the group of what has no session: niceness counts against all there is
            raise


def _shorten_slice(thread: int) -> None:
    """Ask for short slices (Linux 6.12 and later; older kernels take the request and ignore it)."""
    if _SCHED_SETATTR is None:
        return
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
    niceness = os.getpriority(os.PRIO_PROCESS, thread)
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, niceness, 0, SLICE_NS, 0, 0)
    if ctypes.CDLL(None, use_errno=True).syscall(_SCHED_SETATTR, thread, attributes, 0) != 0:
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EPERM):
            raise OSError(number, os.strerror(number))
