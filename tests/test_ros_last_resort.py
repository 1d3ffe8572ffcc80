"""The thread that ends a process whose main thread hangs outlives the nodes that it wakes."""

import subprocess
import sys

import pytest

pytest.importorskip("rclpy")

HANGS = """
import os, signal, threading, time
import rclpy
from ros_nodes.lifecycle import host
host.ENDS_WITHIN_S = 1.0
rclpy.init()
node = rclpy.create_node("gone")
wake = node.create_guard_condition(lambda: None).trigger
host.Interrupts(wake)
node.destroy_node()
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.1)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
time.sleep(20.0)
"""


@pytest.mark.ros
def test_a_process_that_hangs_after_its_nodes_are_gone_ends_all_the_same():
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=18)
    assert done.returncode == 1 and "Traceback" not in done.stderr
