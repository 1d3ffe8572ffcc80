"""A computer whose clock differs is found by messages there and back, and named before a robot is armed."""

import json
import os
import socket
import subprocess
import sys
import time
from functools import partial

import pytest
from patience import patience

pytest.importorskip("rclpy")
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from ros_rig import Rig
from std_msgs.msg import String
from system_clock import SystemClock

from ros_nodes.lifecycle.clock import RobotClock
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.peer_clocks import BEST_EFFORT, MOST, PERIOD_S, TOPIC, PeerClocks
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment

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
clocks.carries(sys.argv[2])
rclpy.spin(node)
"""


def until(rig: Rig, reached, within_s: float) -> None:
    end = time.monotonic() + patience(within_s)
    while not reached():
        assert time.monotonic() < end
        rig.executor.spin_once(timeout_sec=0.1)


def test_a_computer_alone_is_silent_and_one_whose_clock_differs_keeps_robots_on_the_ground(tmp_path):
    said: list[str] = []
    last_s = [0.0]  # when something was said last

    def note(message: String) -> None:
        said.append(message.data)
        last_s[0] = time.monotonic()

    with Rig(tmp_path, [[0.0, 0.0, 1.0, 0.0], [2.0, 0.0, 1.0, 0.0]]) as rig:
        rig.node.create_subscription(String, TOPIC, note, BEST_EFFORT)
        rig.start("simulated_robots", "cf1/shield", "cf2/shield", armed=False)
        until(rig, lambda: said, 10.0)  # they greet each other, and each falls silent: it would speak once a period
        until(rig, lambda: time.monotonic() - last_s[0] > 3 * PERIOD_S, 20.0)
        rig.ask("cf1", "arm")
        rig.ask("cf1", "land")
        values: dict[str, str] = {}
        said_of_cf1: list[str] = []

        def hear(message: DiagnosticArray) -> None:
            for status in message.status:
                if "cf1/shield" in status.name:
                    values.update({pair.key: pair.value for pair in status.values})
                    said_of_cf1.append(status.message)

        rig.node.create_subscription(DiagnosticArray, "/diagnostics", hear, 10)
        clock, folder = SystemClock(tmp_path), tmp_path / "memory"
        folder.mkdir()
        clock.step(0.3)
        environment = os.environ | ros_environment(rig.node.context.get_domain_id()) | clock.environment
        differs = f"clock of {socket.gethostname()} differs by +"
        key = f"clock of {socket.gethostname()} [ms]"
        for carried in ("somebody", "cf1"):  # a computer that has nothing to do with these robots, and one that has
            said.clear()
            other = subprocess.Popen([sys.executable, "-c", OTHER, str(folder), carried], env=environment)
            try:
                until(rig, partial(has_answered, said, carried), 30.0)
                until(rig, lambda: values.get(key), 30.0)
                assert float(values[key]) == pytest.approx(300.0, abs=20.0)
                if carried == "cf1":
                    assert differs in rig.asked("cf2", "arm", within_s=1.0)
                else:
                    until(rig, lambda: differs in said_of_cf1[-1], 5.0)
                    rig.ask("cf2", "arm")
                    rig.ask("cf2", "land")
                    until(rig, lambda: rig.authority("cf2") == "LANDING", 5.0)
                    until(rig, lambda: rig.authority("cf2") == "DISARMED", 20.0)
            finally:
                other.kill()
                other.wait()


def has_answered(said: list[str], carried: str) -> bool:
    """Whether the process of another computer that carries a node of the robot has heard this one, and said so to all.

    Each process of this computer hears it by itself: what it says once, one of them may have missed.
    """
    messages = [json.loads(data) for data in said]
    heard = [m for m in messages if m["machine"] == "another computer" and m["robots"] == [carried] and m["heard"]]
    return len(heard) >= 3


GARBAGE = {
    "infinite": '{"machine": "x", "host": "h", "sent": Infinity, "heard": {}}',
    "no number": '{"machine": "x", "host": "h", "sent": NaN, "heard": {}}',
    "deep": "[" * 9_000,
    "large": '{"machine": "x", "host": "h", "sent": ' + "9" * 4000 + ', "heard": {}}',
    "negative": '{"machine": "x", "host": "h", "sent": -5, "heard": {}}',
    "long": '{"machine": "' + "x" * 20_000 + '", "host": "h", "sent": 5, "heard": {}}',
    "nothing": "",
    "list": "[]",
}


@pytest.fixture
def clocks():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = rclpy.create_node("clocks", context=context)
        yield PeerClocks(node, RobotClock(node), "this computer")
        node.destroy_node()


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_clock_is_not_heard(clocks, data):
    clocks._hear(String(data=data), {"received_timestamp": time.time_ns()})
    assert not clocks._computers


def test_invented_computers_are_not_kept_for_ever(clocks):
    for number in range(5000):
        says = {"machine": str(number), "host": "h", "sent": time.time_ns(), "heard": {}}
        clocks._hear(String(data=json.dumps(says)), {"received_timestamp": time.time_ns()})
    assert len(clocks._computers) <= MOST
