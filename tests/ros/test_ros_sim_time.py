"""Nodes with `use_sim_time`: a team at half of real time, while /clock stands still, and when it begins again."""

import threading
import time

import pytest
from patience import patience

pytest.importorskip("rclpy")
from ros_rig import PERIOD_S, Rig
from rosgraph_msgs.msg import Clock

from ros_nodes.messages.conversion import set_stamp
from ros_nodes.messages.layout import read_stamp

pytestmark = pytest.mark.ros
START_NS, STEP_NS = 5_000_000_000, 4_000_000
SPEED = 0.5
FALLBACK = ("HOLD", "LAND", "ESTOP")


class SimulatedTime:
    """Publishes /clock at `SPEED`, from 5 s on; a context manager."""

    def __init__(self, rig: Rig):
        self._publisher = rig.node.create_publisher(Clock, "/clock", 10)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.now_ns, self.is_paused = START_NS, False

    def _run(self) -> None:
        message = Clock()
        while not self._ended.wait(STEP_NS / SPEED * 1e-9):
            self.now_ns += 0 if self.is_paused else STEP_NS
            set_stamp(message.clock, self.now_ns)
            self._publisher.publish(message)

    def __enter__(self) -> "SimulatedTime":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def rig(pd_bundle, tmp_path):
    simulated = {"/**": {"use_sim_time": True}}
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=pd_bundle, parameters=simulated) as rig:
        yield rig


def newest_stamp_s(rig: Rig) -> float:
    """Of the shield's next command."""
    until = time.monotonic() + patience(2.0)
    while (taken := rig.commands["cf1"].take()) is None:
        assert time.monotonic() < until
        time.sleep(0.001)
    return read_stamp(taken[0]) * 1e-9


def watched(rig: Rig, simulated: SimulatedTime, duration_s: float) -> float:
    """How many control periods of the simulated clock have gone by, in each of which there was a command."""
    begin_ns = simulated.now_ns
    commands = rig.watch("cf1", duration_s)
    periods = (simulated.now_ns - begin_ns) * 1e-9 / PERIOD_S
    assert len(commands) == pytest.approx(periods, rel=0.15)
    return periods


def test_stamps_deadlines_and_ages_follow_the_clock_topic(rig):
    with SimulatedTime(rig) as simulated:
        rig.start("simulated_robots", "cf1/shield", "cf1/policy")
        rig.fly("cf1", 3.0)
        rig.node.changes["cf1"].clear()

        assert watched(rig, simulated, 2.0) < 60  # it is slower than real time, and so are commands
        assert abs(simulated.now_ns * 1e-9 - newest_stamp_s(rig)) < 0.1

        simulated.is_paused = True
        rig.watch("cf1", 0.3)
        assert len(rig.watch("cf1", 1.5)) == 0  # nothing is commanded again ...
        simulated.is_paused = False
        watched(rig, simulated, 1.5)
        rig.node.update()
        assert not [mode for mode in rig.node.changes["cf1"] if mode.mode in FALLBACK]  # ... and nothing has aged

        simulated.now_ns = START_NS  # as when the replay of a bag is repeated
        commands, until = 0, time.monotonic() + patience(1.5)
        while commands < 20:
            assert time.monotonic() < until
            commands += len(rig.watch("cf1", 0.1))
        assert [mode for mode in rig.node.changes["cf1"] if "clock jumped" in mode.reason] or rig.mode(
            "cf1"
        ) in FALLBACK
        assert abs(simulated.now_ns * 1e-9 - newest_stamp_s(rig)) < 0.1
