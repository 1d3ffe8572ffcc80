"""One clock for stamps, ages and deadlines of all nodes: ROS time that a step of the system's clock does not move.

**Robot time** is CLOCK_MONOTONIC plus an offset, which the first of this user's processes on this machine measures from
the system's clock, and which all that live beside it share; NTP slews the two clocks alike, and its steps move one.
A stamp of another program, or of another computer, may follow the system's clock through its steps: see `SenderClock`.
With the parameter `use_sim_time` a node's time is that of `/clock` instead, for deadlines and timeouts too.
"""

import fcntl
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rclpy.clock import JumpThreshold

if TYPE_CHECKING:
    from rclpy.node import Node

STEP_NS = 1_000_000  # a change of the system's clock that counts as a step
WATCH_S = 0.05  # between two looks at the system's clock
SUSPECT_NS = 20_000_000  # a message of this age makes one look at once
READ_NS = 50_000  # two clocks that are read further apart than this were interrupted in between
SETTLED_NS = 1_000_000_000  # after a step: messages stamped before it have arrived
AHEAD_NS = 5_000_000  # clocks of one robot's computers agree to this
UNLIKELY = 10  # a stamp that much of the future is as unlikely as one so many times as old
SLICE_S = 0.001  # between two looks at /clock
FAR_NS = 1_000_000_000  # no wait is so long: a time further ahead is one from before /clock began again
MEMORY = Path(
    "/dev/shm"
)  # all sessions of a user share it, where each may have a folder of its own for temporary files


class MachineClock:
    """Robot time of this process, and how far the system's clock is ahead of it."""

    def __init__(self, folder: Path | None = None):
        """The processes that share `folder` share the offset."""
        self.warning = ""  # for the log
        own_ns = _wall_offset_ns()
        try:
            self.offset_ns = self._agree(folder or (MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())), own_ns)
        except (OSError, ValueError) as error:
            self.offset_ns = own_ns
            self.warning = f"this process has a clock of its own, for it shares none with others: {error}"
        self.ahead_ns = self.ahead_before_ns = 0  # of the system's clock: now, and before the last step
        self.steps = self.logged = 0
        self.lead_ns = (
            0  # of stamps over this clock, the largest since it was last reported; proof that a clock differs
        )
        self.settled_ns = 0  # robot time from which on the last step is over
        self._lock = threading.Lock()
        self._on_step: list[weakref.WeakMethod[Callable[[int], None]]] = []
        self._watcher: threading.Thread | None = None
        self.watch()

    def now_ns(self) -> int:
        """Robot time."""
        return time.monotonic_ns() + self.offset_ns

    def on_step(self, method: "weakref.WeakMethod[Callable[[int], None]]") -> None:
        """Have `method` called with the size, ns, of each step of the system's clock, while its owner lives."""
        with self._lock:
            self._on_step.append(method)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._keep_watching, name="clock", daemon=True)
                self._watcher.start()

    def _keep_watching(self) -> None:
        while True:
            time.sleep(WATCH_S)
            self.watch()

    def watch(self) -> int:
        """Look at the system's clock. How far it has stepped since the last look, ns."""
        wall_ns = _wall_offset_ns(tries=1)
        if not wall_ns or abs(wall_ns - self.offset_ns - self.ahead_ns) < STEP_NS:
            return 0
        with self._lock:
            ahead_ns = wall_ns - self.offset_ns
            step_ns = ahead_ns - self.ahead_ns
            if abs(step_ns) < STEP_NS:
                return 0
            self.ahead_before_ns, self.ahead_ns = self.ahead_ns, ahead_ns if abs(ahead_ns) >= STEP_NS else 0
            self.settled_ns = self.now_ns() + SETTLED_NS
            self.steps += 1
            self._on_step = [method for method in self._on_step if method() is not None]
            methods = list(self._on_step)
        for method in methods:
            if (call := method()) is not None:
                call(step_ns)
        return step_ns

    def _agree(self, folder: Path, own_ns: int) -> int:
        """The offset of the processes that live; of this one, `own_ns`, where there are no others.

        Every process keeps a shared lock on the file for as long as it lives, so that who can lock it alone is alone.
        """
        path = folder / f"phalanx-clock-{os.getuid()}"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(own_ns).encode(), 0)
        # Between the two locks another process may have been alone and written: what counts is read under this one.
        fcntl.flock(self._file, fcntl.LOCK_SH)
        return int(os.pread(self._file, 32, 0))


@cache
def machine_clock() -> MachineClock:
    """The clock of this process."""
    return MachineClock()


def _wall_offset_ns(tries: int = 5) -> int:
    """The system's clock minus CLOCK_MONOTONIC; with one try 0 when this thread was interrupted meanwhile."""
    best_ns, found = READ_NS if tries == 1 else 1 << 62, 0
    for _ in range(tries):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        took_ns = time.monotonic_ns() - before_ns
        if took_ns < best_ns:
            best_ns, found = took_ns, wall_ns - before_ns - took_ns // 2
    return found


class RobotClock:
    """The time of one node, ns: robot time, or that of `/clock` with `use_sim_time`."""

    def __init__(self, node: "Node | None" = None):
        """Without a node: robot time."""
        self._node, self.machine = node, machine_clock()
        self.is_simulated = False  # whether `/clock` is followed; asking ROS each time costs a control loop a twentieth
        if node is not None:
            if self.machine.warning:
                node.get_logger().warning(self.machine.warning)
                self.machine.warning = ""
            self._ros_clock = node.get_clock()
            changes = JumpThreshold(min_forward=None, min_backward=None)
            self._on_change = self._ros_clock.create_jump_callback(changes, post_callback=self._take_source)
            self._take_source()
            self.machine.on_step(weakref.WeakMethod(self._log_step))

    def _take_source(self, jump: object = None) -> None:
        self.is_simulated = self._ros_clock.ros_time_is_active

    def now_ns(self) -> int:
        """Now; with `use_sim_time` 0 before the first `/clock`."""
        if self.is_simulated:
            return int(self._ros_clock.now().nanoseconds)
        return self.machine.now_ns()

    def _log_step(self, step_ns: int) -> None:
        if self._node is not None and self.machine.logged != self.machine.steps:  # one line of a process
            self.machine.logged = self.machine.steps
            ahead_s = self.machine.ahead_ns * 1e-9
            side = "behind" if ahead_s > 0 else "ahead of"
            after = f"; stamps are {abs(ahead_s):.3f} s {side} it until all nodes have ended"
            text = f"the system's clock stepped by {step_ns * 1e-9:+.3f} s; ages and deadlines are as before"
            self._node.get_logger().warning(text + after * bool(ahead_s))

    def diagnostics(self) -> dict[str, str]:
        """Keys and values about the clocks for `/diagnostics`."""
        machine = self.machine
        lead_ns, machine.lead_ns = machine.lead_ns, 0
        return {
            "stamps of others ahead [ms]": f"{lead_ns * 1e-6:.1f}",
            "steps of the system's clock": str(machine.steps),
            "system's clock ahead [ms]": f"{machine.ahead_ns * 1e-6:.1f}",
        }

    def start(self, stopped: threading.Event) -> None:
        """With `use_sim_time` wait for the first `/clock`."""
        self.say_waiting()
        self.sleep_until(1, stopped)

    def say_waiting(self) -> None:
        """Log it where `/clock` has not begun."""
        if self._node is not None and not self.now_ns():
            self._node.get_logger().info("waiting for /clock")

    def arrived_ns(self, received_ns: int) -> int:
        """When a message arrived that the middleware received at `received_ns` of the system's clock.

        With `use_sim_time` that is now: what `/clock` said then is not known.
        """
        self.machine.watch()
        now_ns = self.now_ns()
        return now_ns if self.is_simulated else min(now_ns, received_ns - self.machine.ahead_ns)

    def sleep_until(self, time_ns: int, stopped: threading.Event) -> bool:
        """Sleep; False when `stopped` was set before the time came. Ends where `/clock` begins again."""
        while (remaining_s := self.until_s(time_ns)) > 0:
            if stopped.is_set():
                return False
            time.sleep(remaining_s)
        return not stopped.is_set()

    def until_s(self, time_ns: int, machine_ns: int | None = None) -> float:
        """How long to wait for a time before the next look at it, s; 0 or less when it has come.

        `machine_ns`: what the machine's clock shows, for one who has just looked and asks of several times.
        With `use_sim_time` also where it is far: then `/clock` has begun again.
        """
        if machine_ns is None or self.is_simulated:
            machine_ns = self.now_ns()
        remaining_ns = time_ns - machine_ns
        if not self.is_simulated:
            return remaining_ns * 1e-9
        return SLICE_S if 0 < remaining_ns <= FAR_NS else 0.0


class SenderClock:
    """Brings the stamps of one sender to the time of the node that receives them.

    After a step of the system's clock a sender may have gone with it, or not. Of the two times that its stamp may mean
    that one counts which makes it youngest without putting it in the future; a time that is disproved so is not tried
    again until the next step, for else what a silent sender repeats would turn young again. Not detected: a message
    that is late by more than the step before its sender's first punctual one; it counts as younger, by the step.

    Of a sender on another computer a clock that is ahead shows, on `/diagnostics`, once its lead exceeds the way of the
    message. One that is behind looks like a long way: its measurements count as older than they are.
    """

    def __init__(self, clock: RobotClock):
        self._clock, self._machine = clock, clock.machine
        self._steps = 0
        self._disproved: set[int] = set()

    def to_own(self, stamp_ns: int, now_ns: int) -> int:
        """`stamp_ns`, of a message that was taken at `now_ns`, in the time of the node."""
        machine = self._machine
        own_ns = self._to_own(machine, stamp_ns, now_ns)
        if not -AHEAD_NS <= now_ns - own_ns <= SUSPECT_NS and machine.watch():
            own_ns = self._to_own(machine, stamp_ns, now_ns)
        if own_ns > now_ns + AHEAD_NS:
            machine.lead_ns = max(machine.lead_ns, own_ns - now_ns)
        return own_ns

    def _to_own(self, machine: MachineClock, stamp_ns: int, now_ns: int) -> int:
        unsettled = machine.steps > 0 and now_ns < machine.settled_ns
        if not (machine.ahead_ns or unsettled) or self._clock.is_simulated:
            return stamp_ns
        if self._steps != machine.steps:
            self._steps, self._disproved = machine.steps, set()
        aheads = {0, machine.ahead_ns, machine.ahead_before_ns} if unsettled else {0, machine.ahead_ns}
        ages = {ahead: now_ns - stamp_ns + ahead for ahead in aheads - self._disproved}
        best = min(ages, key=lambda ahead: _doubt(ages[ahead]))
        if not unsettled and ages[best] >= -AHEAD_NS:
            self._disproved |= {ahead for ahead, age_ns in ages.items() if age_ns < -AHEAD_NS}
        return stamp_ns - best


def _doubt(age_ns: int) -> int:
    """How unlikely an age is."""
    return age_ns if age_ns >= -AHEAD_NS else -UNLIKELY * age_ns
