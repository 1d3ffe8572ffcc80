"""Deadlines do not move, and what a dying process wrote stays readable."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
import rclpy
from sensor_msgs.msg import JointState

from ros_nodes.lifecycle.clock import RobotClock
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.loop import Deadlines, LoopThread
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.lifecycle.series import SeriesWriter, read_series, read_whether_whole
from ros_nodes.lifecycle.turns import Cycles, Turns, Wait
from ros_nodes.messages import qos
from ros_nodes.nodes.policy_node import control_phase
from ros_nodes.plans.placement import place_team

RUNNING = threading.Event()


def test_work_inside_a_cycle_does_not_move_the_next():
    clock = RobotClock()
    deadlines, period_ns = Deadlines(0.01, clock), 10_000_000
    last = deadlines.wait(RUNNING)
    for _ in range(20):
        time.sleep(0.005)
        done_ns, tick = clock.now_ns(), deadlines.wait(RUNNING)
        planned_ns = last.deadline_ns + period_ns
        assert tick.woke_ns >= tick.deadline_ns == planned_ns + tick.skipped * period_ns
        # None is left out but where this machine had no time for us: its period had gone by
        assert (
            max(0, done_ns - planned_ns) // period_ns <= tick.skipped <= max(0, tick.woke_ns - planned_ns) // period_ns
        )
        last = tick


def test_late_cycles_are_skipped_and_counted_never_bunched():
    deadlines = Deadlines(0.01, RobotClock())
    first = deadlines.wait(RUNNING)
    time.sleep(0.045)
    late, after = deadlines.wait(RUNNING), deadlines.wait(RUNNING)
    assert late.skipped >= 3
    assert late.deadline_ns - first.deadline_ns == 10_000_000 * (1 + late.skipped)
    assert after.deadline_ns - late.deadline_ns == 10_000_000 * (1 + after.skipped)
    assert after.woke_ns >= after.deadline_ns


def test_a_period_must_be_positive():
    with pytest.raises(ValueError, match=r"-0\.1 s"):
        Deadlines(-0.1, RobotClock())


def test_a_failing_loop_is_reported():
    heard = []

    def body(stopped: threading.Event) -> None:
        raise RuntimeError("propeller missing")

    loop = LoopThread("test", body, heard.append)
    loop.start()
    loop.stop()
    assert [str(error) for error in heard] == ["propeller missing"]


def test_series_survive_sigkill(tmp_path):
    code = (
        "import os, signal; from pathlib import Path; from ros_nodes.lifecycle.series import SeriesWriter\n"
        f"writer = SeriesWriter(Path({str(tmp_path / 'a.npy')!r}), ('t', 'x'), 1000)\n"
        "for i in range(5): writer.add(i + 1.0, i * i)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    series = read_series(tmp_path / "a.npy")
    np.testing.assert_array_equal(series["t"], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(series["x"], [0, 1, 4, 9, 16])


def test_a_series_for_which_the_disk_has_no_room_ends_and_its_process_does_not(tmp_path):
    """A page of a mapped file that the disk has no room for ends the process that touches it."""
    code = (
        "import numpy as np; from pathlib import Path; from ros_nodes.lifecycle import series\n"
        "series.ROOM = 4096\n"
        f"writer = series.SeriesWriter(Path({str(tmp_path / 'a.npy')!r}), ('t', 'x'), 100_000, print)\n"
        "for i in range(50_000): writer.add(i + 1.0, i * i)\n"
        f"rows, whole = series.read_whether_whole(Path({str(tmp_path / 'a.npy')!r}))\n"
        "print(rows['t'].max(), len(rows['t']), whole)"
    )
    tiny = f"mount -t tmpfs -o size=64k tmpfs {tmp_path}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", tiny], check=False, capture_output=True).returncode:
        pytest.skip("a disk that is small cannot be made here")
    run = f'{tiny} && exec {sys.executable} -c "$0"'
    ended = subprocess.run(["unshare", "-rm", "sh", "-c", run, code], check=True, capture_output=True, text=True)
    reason, found = ended.stdout.splitlines()
    assert reason == f"{tmp_path / 'a.npy'}: No space left on device; the series ends here"
    last, count, whole = found.split()
    assert float(last) == int(count) > 1000 and whole == "False"


def test_a_full_series_drops_what_comes_later(tmp_path):
    writer = SeriesWriter(tmp_path / "a.npy", ("t",), 3)
    for value in range(1, 6):
        writer.add(value)
    found, whole = read_whether_whole(tmp_path / "a.npy")
    np.testing.assert_array_equal(found["t"], [1, 2, 3])
    assert whole, "there was room on the disk"


@pytest.fixture
def context():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        yield context


def counting(counts: list[int], clock: RobotClock, fails_at: int = -1) -> Cycles:
    """Counts a cycle every 5 ms."""
    deadline_ns = clock.now_ns()
    while True:
        deadline_ns += 5_000_000
        assert not (yield Wait((), deadline_ns)), "there was no message"
        counts.append(threading.get_ident())
        if len(counts) == fails_at:
            raise RuntimeError("propeller missing")


@pytest.mark.parametrize("robots", (1, 4, 8, 12))
def test_robots_whose_shields_share_a_process_are_controlled_at_one_moment(robots):
    team = [f"cf{number}" for number in range(1, robots + 1)]
    phases = {name: control_phase(name, [peer for peer in reversed(team) if peer != name]) for name in team}
    for process, nodes in place_team(team).items():
        here = {phases[node.partition("/")[0]] for node in nodes}
        assert len(here) == 1 or "policy" in process, f"{process}: {phases}"
    assert set(phases.values()) == ({0, 1} if robots > 1 else {0}), "a core is not filled by many robots at once"


def test_loops_that_take_turns_keep_their_deadlines_and_fail_alone(context):
    turns, clock, heard = Turns(context), RobotClock(), []
    counts: list[list[int]] = [[], [], []]
    loops = [
        turns.start(str(number), counting(counts[number], clock, 10 if number == 1 else -1), clock, heard.append)
        for number in range(3)
    ]
    time.sleep(0.5)
    for loop in loops:
        loop.stop()
    lengths = [len(count) for count in counts]
    assert lengths[1] == 10 and [str(error) for error in heard] == ["propeller missing"]
    assert min(lengths[0], lengths[2]) > 60, lengths
    assert len({thread for count in counts for thread in count}) == 1  # one thread has served all
    time.sleep(0.05)
    assert [len(count) for count in counts] == lengths  # what was stopped is not served any more
    again: list[int] = []
    loop = turns.start("again", counting(again, clock), clock, heard.append)
    until = time.monotonic() + patience(5.0)
    while len(again) <= 5 and time.monotonic() < until:  # that a second thread serves, however late it comes to that
        time.sleep(0.01)
    loop.stop()
    assert len(again) > 5


def test_a_loop_that_waits_for_messages_is_served_as_one_comes_and_closed_where_it_waits(context):
    node, clock = rclpy.create_node("talks", context=context), RobotClock()
    mailbox = Mailbox(node, JointState, "words", qos.SENSOR)
    publisher = node.create_publisher(JointState, "words", qos.SENSOR)
    turns, served, closed = Turns(context), [], threading.Event()

    def listen() -> Cycles:
        try:
            while True:
                if (yield Wait([mailbox], clock.now_ns() + 10_000_000_000)):
                    served.append(mailbox.take())
        finally:
            closed.set()

    loop = turns.start("listens", listen(), clock, lambda error: None)
    until = time.monotonic() + patience(5.0)
    while not served and time.monotonic() < until:
        publisher.publish(JointState())
        time.sleep(0.01)
    assert served and served[0] is not None
    begin = time.monotonic()
    loop.stop()
    assert closed.is_set() and time.monotonic() - begin < 1.0  # it did not wait out its ten seconds
