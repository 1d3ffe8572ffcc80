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
from pathlib import Path

SLICE_NS = 100_000  # the shortest that Linux grants: the shorter the slice, the sooner a thread runs that wakes
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(platform.machine())


def schedule_process(niceness: int) -> str:
    """Short interpreter switches, and all threads at `niceness` (-20 first, 19 last) in short slices, where granted.

    Threads that start later inherit it. Returns one line on what was granted.
    """
    sys.setswitchinterval(0.0005)
    try:
        for thread in os.listdir("/proc/self/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), niceness)
            _shorten_slice(int(thread), niceness)
        # Where sessions are scheduled as groups, niceness counts only inside one, and the group has its own.
        group = Path("/proc/self/autogroup")
        if group.exists():
            group.write_text(str(niceness))
    except OSError as error:
        return f"ordinary scheduling: niceness {niceness} not granted ({error.strerror})"
    return f"niceness {niceness}"


def _shorten_slice(thread: int, niceness: int) -> None:
    """Ask for short slices (Linux 6.12 and later; older kernels take the request and ignore it)."""
    if _SCHED_SETATTR is None:
        return
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, niceness, 0, SLICE_NS, 0, 0)
    if ctypes.CDLL(None, use_errno=True).syscall(_SCHED_SETATTR, thread, attributes, 0) != 0:
        number = ctypes.get_errno()
        if number != errno.ENOSYS:
            raise OSError(number, os.strerror(number))
