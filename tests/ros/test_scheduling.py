"""What a control process gets from Linux's scheduler, with the privilege to raise itself above others and without."""

import ctypes
import os
import platform
import subprocess
import sys
from functools import partial

import pytest

from ros_nodes.lifecycle.scheduling import SLICE_NS

CAP_SYS_NICE = 23  # of linux/capability.h
PR_CAPBSET_DROP = 24  # of linux/prctl.h
SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}.get(platform.machine())
ASKED = f"""
import ctypes, os, struct
os.setpriority(os.PRIO_PROCESS, 0, 0)
from ros_nodes.lifecycle.scheduling import schedule_process
print(schedule_process(-1))
attributes = ctypes.create_string_buffer(48)
ctypes.CDLL(None).syscall({SCHED_GETATTR}, 0, attributes, 48, 0)
print(struct.unpack("=IIQiIQQQ", attributes.raw)[5])
"""


def test_a_thread_that_ends_meanwhile_keeps_no_process_from_starting():
    ended = (
        "import os; seen = os.listdir; os.listdir = lambda path: ['4194305', *seen(path)]"  # above all that Linux gives
    )
    code = f"{ended}\nfrom ros_nodes.lifecycle.scheduling import schedule_process\nprint(schedule_process(5))"
    below = code.replace("schedule_process(5)", "schedule_process(-1)")
    said = [subprocess.run([sys.executable, "-c", c], capture_output=True, text=True) for c in (code, below)]
    assert [done.returncode for done in said] == [0, 0], said[1].stderr
    assert said[0].stdout == "niceness 5\n"


@pytest.mark.real_time  # slices are of ordinary scheduling
@pytest.mark.skipif(SCHED_GETATTR is None or os.geteuid() != 0, reason="only root of Linux may drop capabilities")
@pytest.mark.parametrize(("dropped", "says"), [(False, "niceness -1"), (True, "niceness -1 not granted")])
def test_slices_are_short_for_an_ordinary_user_too(dropped, says):
    drop = partial(ctypes.CDLL(None).prctl, PR_CAPBSET_DROP, CAP_SYS_NICE) if dropped else None
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, preexec_fn=drop, check=True)
    said, slice_ns = done.stdout.splitlines()
    if not dropped and "not granted" in said:
        pytest.skip("this root may not set a niceness")
    if slice_ns == "0":
        pytest.skip("before Linux 6.12")
    assert says in said and int(slice_ns) == SLICE_NS
