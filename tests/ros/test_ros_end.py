"""A node's process ends after a signal, also when its main thread is past hearing one."""

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy")

HANGS = """
import time
from ros_nodes.lifecycle import host
host.ENDS_WITHIN_S = 0.3
interrupts = host.Interrupts(lambda: None)
print("ready", flush=True)
while True:
    time.sleep(20.0)  # the main thread hangs: it looks at no signal
"""


@pytest.mark.ros
def test_a_process_that_hangs_ends_soon_after_a_signal():
    process = subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.6)  # it does not end unasked
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10.0) == 1
    assert time.monotonic() - asked >= 0.3  # what goes well has its time


ENDS = """
import atexit, time
from ros_nodes.lifecycle.host import run_nodes

def make():
    raise ValueError("no such robot")

atexit.register(time.sleep, 60.0)  # in the place of a destructor of the middleware, which can wait for ever
run_nodes({"cf1": make})
"""


@pytest.mark.ros
def test_a_process_whose_nodes_have_ended_waits_for_no_destructor():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=45)
    assert (done.returncode, done.stderr) == (2, "error: cf1: no such robot\n")
