"""A team whose system's clock is set while it flies, and sensors that go with that clock."""

import threading
import time
from random import Random

import pytest

pytest.importorskip("rclpy")
from nav_msgs.msg import Odometry
from ros_rig import Rig
from system_clock import SystemClock

from ros_nodes.messages import qos
from ros_nodes.messages.conversion import set_stamp

pytestmark = [pytest.mark.ros, pytest.mark.alone]
STEPS_S = (1.0, -1.0, 0.05, 0.1, -0.15)
BETWEEN_S = 1.0  # 50 periods; five without an answer are a fallback, which would be seen
LINE = "the system's clock stepped by"


@pytest.fixture
def system_clock(tmp_path, monkeypatch):
    clock = SystemClock(tmp_path)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    return clock


@pytest.fixture(params=[2])
def rig(request, pd_bundle, system_clock, tmp_path, monkeypatch):
    """A team of two robots, or of as many as a test's parameter says."""
    starts = [[2.0 * robot, 0.0, 1.0, 0.0] for robot in range(request.param)]
    with Rig(tmp_path, starts=starts, bundle=pd_bundle) as rig:
        monkeypatch.undo()  # the test's own clock, and that of the compiler, stay
        yield rig


def test_a_team_flies_through_steps_of_the_systems_clock_and_each_process_logs_one_line(rig, system_clock):
    processes = ("simulated_robots", "cf1/shield", "cf2/shield", "cf1/policy", "cf2/policy")
    rig.start(*processes)
    for name in rig.names:
        rig.fly(name, 1.0)
    for name in rig.names:
        rig.node.changes[name].clear()
    for step_s in STEPS_S:
        system_clock.step(step_s)
        assert len(rig.watch("cf1", BETWEEN_S)) > BETWEEN_S * 45, step_s
    rig.node.update()
    assert not any(rig.node.changes.values())
    for name in processes:
        lines = [line for line in rig.processes.log_of(name.replace("/", "_")).read_text().splitlines() if LINE in line]
        assert [float(line.split(LINE)[1].split()[0]) for line in lines] == pytest.approx(STEPS_S, abs=0.002), name


@pytest.mark.parametrize("rig", [1], indirect=True)
def test_sensors_that_go_with_the_systems_clock_are_believed_across_its_steps(rig, system_clock):
    """As those of a motion-capture system, a program that is none of ours: policy and shield judge its stamps."""
    message, publisher = Odometry(), rig.node.create_publisher(Odometry, "/cf1/odom", qos.SENSOR)
    message.pose.pose.position.z = message.pose.pose.orientation.w = 1.0
    ended, noise = threading.Event(), Random(0)

    def measure() -> None:
        while not ended.wait(0.01):
            set_stamp(message.header.stamp, time.time_ns() + system_clock.ahead_ns - 4_000_000)
            message.pose.pose.position.z = 1.0 + 1e-4 * noise.random()  # what never changes is frozen
            publisher.publish(message)

    thread = threading.Thread(target=measure)
    thread.start()
    try:
        rig.start("cf1/shield", "cf1/policy")
        rig.fly("cf1", 2.0)
        rig.node.changes["cf1"].clear()
        for step_s in STEPS_S:
            system_clock.step(step_s)
            assert len(rig.watch("cf1", BETWEEN_S)) > BETWEEN_S * 45, step_s
    finally:
        ended.set()
        thread.join()
    rig.node.update()
    assert not any(rig.node.changes.values())
