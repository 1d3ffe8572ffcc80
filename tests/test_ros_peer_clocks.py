"""A computer whose clock differs is found by messages there and back, and named before a robot is armed."""

import os
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray
from ros_rig import Rig
from std_msgs.msg import String
from system_clock import SystemClock

from ros_nodes.lifecycle.peer_clocks import BEST_EFFORT, TOPIC
from ros_nodes.lifecycle.processes import ros_environment

pytestmark = pytest.mark.ros

# A process of "another computer": it shares no offset with those of this one, and its system's clock is the test's.
OTHER = """
import sys
from pathlib import Path
from ros_nodes.lifecycle import clock
clock.MEMORY = Path(sys.argv[1])
from ros_nodes.lifecycle.transport import avoid_shared_memory
avoid_shared_memory()
import rclpy
from ros_nodes.lifecycle.peer_clocks import PeerClocks
rclpy.init()
node = rclpy.create_node("other")
clocks = PeerClocks(node, clock.RobotClock(node), "another computer")
rclpy.spin(node)
"""


def until(rig: Rig, reached, within_s: float) -> None:
    end = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < end
        rig.executor.spin_once(timeout_sec=0.1)


def test_a_computer_alone_is_silent_and_one_whose_clock_differs_keeps_robots_on_the_ground(tmp_path):
    said: list[str] = []
    with Rig(tmp_path, [[0.0, 0.0, 1.0, 0.0], [2.0, 0.0, 1.0, 0.0]]) as rig:
        rig.node.create_subscription(String, TOPIC, lambda message: said.append(message.data), BEST_EFFORT)
        rig.start("simulated_robots", "cf1/shield", "cf2/shield", armed=False)
        begin = time.monotonic()
        until(rig, lambda: time.monotonic() - begin > 12.0, 20.0)  # they have greeted each other
        said.clear()
        until(rig, lambda: time.monotonic() - begin > 18.0, 20.0)
        assert not said, "processes of one computer go on talking about their clocks"
        rig.ask("cf1", "arm")
        rig.ask("cf1", "land")
        values: dict[str, str] = {}
        rig.node.create_subscription(
            DiagnosticArray,
            "/diagnostics",
            lambda m: values.update({v.key: v.value for s in m.status if "cf1/shield" in s.name for v in s.values}),
            10,
        )
        clock, folder = SystemClock(tmp_path), tmp_path / "memory"
        folder.mkdir()
        clock.step(0.3)
        environment = os.environ | ros_environment(rig.node.context.get_domain_id()) | clock.environment
        other = subprocess.Popen([sys.executable, "-c", OTHER, str(folder)], env=environment)
        try:
            key = f"clock of {socket.gethostname()} [ms]"
            until(rig, lambda: key in values, 30.0)
            assert float(values[key]) == pytest.approx(300.0, abs=20.0)
            refused = rig.asked("cf2", "arm", within_s=1.0)
            assert f"clock of {socket.gethostname()} differs by +" in refused
        finally:
            other.kill()
            other.wait()
