"""A node's process ends after a signal, also when its main thread is past hearing one."""

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy")

HANGS = """
import signal, time
from ros_nodes.lifecycle.host import end_in_any_case
signal.signal(signal.SIGTERM, lambda *_: None)  # asks nicely, and nobody looks
end_in_any_case(within_s=0.3)
print("ready", flush=True)
time.sleep(20.0)
"""


@pytest.mark.ros
def test_a_process_that_hangs_ends_soon_after_a_signal():
    process = subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.6)  # nobody ends it unasked
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10.0) == 1
    assert time.monotonic() - asked >= 0.3  # what goes well has its time
