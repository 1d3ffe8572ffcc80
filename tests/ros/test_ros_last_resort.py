"""What a process survives: nodes that are gone, and callbacks that fail."""

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


FAILS = """
import threading
import rclpy
from std_msgs.msg import Empty
from ros_nodes.lifecycle.host import run_nodes
from ros_nodes.nodes.echo_node import EchoNode

class Fragile(EchoNode):
    def __init__(self):
        super().__init__("cf1")
        self.beats = 0
        self.create_timer(0.1, self.beat)

    def beat(self):
        self.beats += 1
        print("beat", self.beats, flush=True)
        raise OverflowError("a stranger's number")

raise SystemExit(run_nodes({"cf1/echo": Fragile}))
"""


@pytest.mark.ros
def test_a_callback_that_fails_does_not_end_the_robots_of_its_process():
    with subprocess.Popen([sys.executable, "-c", FAILS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for _ in range(3):
            assert process.stdout.readline().startswith(b"beat")
        process.terminate()
        assert process.wait(20) == 0
        assert b"a stranger's number" in process.stderr.read()


REFUSES = """
import rclpy
from ros_nodes.nodes.echo_node import EchoNode

class Broken(EchoNode):
    def configure(self):
        raise OverflowError("a number too large")

rclpy.init()
Broken("cf1").trigger_configure()
"""


@pytest.mark.ros
def test_a_node_that_fails_to_configure_says_first_what_failed_then_where():
    done = subprocess.run([sys.executable, "-c", REFUSES], capture_output=True, text=True, timeout=20)
    first, *rest = done.stderr.splitlines()
    assert first.endswith("OverflowError: a number too large") and any("in configure" in line for line in rest)
