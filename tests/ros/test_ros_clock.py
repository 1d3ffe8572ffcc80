"""Robot time: what processes agree on, and what a step of the system's clock does to stamps and ages."""

import os
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest

pytest.importorskip("rclpy")
from system_clock import SystemClock

from ros_nodes.lifecycle import clock as module
from ros_nodes.lifecycle.clock import MachineClock, RobotClock, SenderClock

MS, S = 1_000_000, 1_000_000_000


class Wall:
    """The system's clock, `ahead_ns` of the true one."""

    def __init__(self, monkeypatch):
        self.ahead_ns = 0
        monkeypatch.setattr(module.time, "time_ns", lambda now=time.time_ns: now() + self.ahead_ns)


@pytest.fixture
def wall(monkeypatch):
    return Wall(monkeypatch)


@pytest.fixture
def clock(monkeypatch, tmp_path, wall):
    machine = MachineClock(tmp_path)
    monkeypatch.setattr(module, "machine_clock", lambda: machine)
    return RobotClock()


def test_processes_that_live_side_by_side_share_one_time_whatever_the_systems_clock_did_between_their_starts(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from ros_nodes.lifecycle import clock\n"
        "ahead_ns, now = int(sys.argv[2]), time.time_ns\n"
        "time.time_ns = lambda: now() + ahead_ns\n"
        "print(clock.MachineClock(Path(sys.argv[1])).offset_ns, flush=True); sys.stdin.read()\n"
    )

    def start(ahead_ns: int) -> subprocess.Popen:
        command = [sys.executable, "-c", code, str(tmp_path), str(ahead_ns)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def offset(process: subprocess.Popen) -> int:
        return int(process.stdout.readline())

    together = [start(0) for _ in range(4)]  # all at once
    assert len({offset(process) for process in together}) == 1
    late = start(5 * S)
    first = offset(late)
    for process in together:
        process.kill()
        process.wait()
    later = start(7 * S)  # the one that gave the time is gone, one that took it is not
    assert offset(later) == first
    for process in (late, later):
        process.kill()
        process.wait()
    alone = start(7 * S)
    assert offset(alone) - first == pytest.approx(7 * S, abs=MS)  # no other computer is left to differ
    alone.kill()
    alone.wait()


def test_without_a_place_to_share_it_a_process_has_a_time_of_its_own_and_says_so(tmp_path):
    clock = MachineClock(tmp_path / "none")
    assert "none" in clock.warning and abs(clock.now_ns() - time.time_ns()) < MS
    assert not MachineClock(tmp_path).warning


@pytest.mark.parametrize("step_ns", [S, -S, 50 * MS, -100 * MS])
def test_a_step_is_noticed_once_and_moves_no_time(clock, wall, step_ns):
    before_ns = clock.now_ns()
    wall.ahead_ns = step_ns
    steps = [clock.machine.watch() for _ in range(50)]
    assert sum(steps) == pytest.approx(step_ns, abs=MS) and sum(step != 0 for step in steps) == 1
    assert 0 < clock.now_ns() - before_ns < 40 * MS
    arrived_ns = clock.arrived_ns(module.time.time_ns())
    assert abs(clock.now_ns() - arrived_ns) < 10 * MS


@pytest.mark.parametrize("step_ns", [S, -S, 50 * MS, -50 * MS, 100 * MS, -100 * MS, 3600 * S])
@pytest.mark.parametrize("follows", [True, False])
def test_who_goes_with_the_systems_clock_and_who_does_not_is_judged_right_across_a_step(clock, wall, step_ns, follows):
    sender, delays_ns = SenderClock(clock), [1 * MS, 4 * MS, 2 * MS, 19 * MS, 7 * MS]
    measured_ns, wrong = clock.now_ns(), []
    for index in range(300):
        measured_ns += 20 * MS
        if index == 10:
            wall.ahead_ns = step_ns
            clock.machine.watch()
        in_flight = index == 10  # stamped before the step, and taken after
        stamp_ns = measured_ns + (wall.ahead_ns if follows and not in_flight else 0)
        now_ns = measured_ns + delays_ns[index % 5]
        if sender.to_own(stamp_ns, now_ns) != pytest.approx(measured_ns, abs=MS):
            wrong.append(index)
    assert not wrong
    # Then it repeats its last message for ever: that grows old.
    ages = [now_ns - sender.to_own(stamp_ns, now_ns) for now_ns in range(now_ns, now_ns + 3 * S, 20 * MS)]
    assert all(later - earlier == 20 * MS for earlier, later in pairwise(ages))


def test_the_first_message_after_a_step_back_is_young(clock, wall):
    """No one has looked at the system's clock since: its own age is what gives the step away."""
    sender = SenderClock(clock)
    wall.ahead_ns = S
    clock.machine.watch()
    clock.machine.settled_ns = 0  # the step is long over
    now_ns = clock.now_ns()
    assert sender.to_own(now_ns + S - 4 * MS, now_ns) == pytest.approx(now_ns - 4 * MS, abs=MS)
    wall.ahead_ns = 0
    now_ns = clock.now_ns()
    assert sender.to_own(now_ns - 4 * MS, now_ns) == pytest.approx(now_ns - 4 * MS, abs=MS)


def test_a_second_step_back_and_a_stamp_of_the_future(clock, wall):
    sender, now_ns = SenderClock(clock), clock.now_ns()
    for ahead_ns in (S, 0):
        wall.ahead_ns = ahead_ns
        clock.machine.watch()
        now_ns += 5 * S
        assert sender.to_own(now_ns - 3 * MS + ahead_ns, now_ns) == pytest.approx(now_ns - 3 * MS, abs=MS)
    assert sender.to_own(now_ns + 3600 * S, now_ns) > now_ns + 3590 * S  # as it was: for the receiver to refuse


def test_a_computer_whose_clock_is_ahead_shows_in_the_diagnostics(clock):
    sender, key, now_ns = SenderClock(clock), "stamps of others ahead [ms]", clock.now_ns()
    for lead_ns in (-30 * MS, 2 * MS, 50 * MS, 40 * MS):
        sender.to_own(now_ns + lead_ns, now_ns)
    assert clock.diagnostics()[key] == "50.0"
    assert clock.diagnostics()[key] == "0.0"


def test_sleeping_ends_on_time_and_when_the_loop_does(clock):
    stopped = threading.Event()
    until_ns = clock.now_ns() + 20 * MS
    assert clock.sleep_until(until_ns, stopped) and clock.now_ns() >= until_ns
    stopped.set()
    assert not clock.sleep_until(clock.now_ns() + 3600 * S, stopped)


def test_a_wait_for_messages_ends_on_time_though_the_clock_is_set_back_meanwhile(tmp_path):
    """The middleware waits for a time of the system's clock: a shield without a policy would command nothing."""
    code = (
        "import time, rclpy; from nav_msgs.msg import Odometry; from ros_nodes.messages import qos\n"
        "from ros_nodes.lifecycle.polling import Mailbox, Waiter\n"
        "rclpy.init(); node = rclpy.create_node('waits')\n"
        "waiter, inbox = Waiter(node.context), [Mailbox(node, Odometry, 'odom', qos.SENSOR)]\n"
        "print('ready', flush=True); begin = time.monotonic()\n"
        "while (left_s := begin + 1.0 - time.monotonic()) > 0:\n"
        "    waiter.wait(inbox, left_s)\n"
        "print(time.monotonic() - begin)\n"
    )
    clock = SystemClock(tmp_path)
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        clock.step(-2.0)
        assert 1.0 <= float(process.stdout.readline()) < 1.5
