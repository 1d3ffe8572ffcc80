"""A process that ends with the one that started it."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def end_with_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """In a child of the process `parent`: be sent signal `number` when that is gone, however it went. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it went before the line above
            os._exit(1)
