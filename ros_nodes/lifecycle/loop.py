"""Control loops: a thread on absolute deadlines, and what a process does to keep them."""

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ros_nodes.lifecycle.clock import RobotClock

PR_SET_TIMERSLACK = 29


@dataclass(slots=True)
class Tick:
    """One cycle of a loop; times of its clock."""

    deadline_ns: int
    woke_ns: int
    skipped: int  # cycles left out before this one because their time had passed


class Deadlines:
    """Deadlines `period_s` apart that do not move: what is late is skipped, never made up for in a bunch."""

    def __init__(self, period_s: float, clock: RobotClock, first_ns: int | None = None):
        """`first_ns` of `clock`, default now."""
        self.period_ns = round(period_s * 1e9)
        if self.period_ns <= 0:
            raise ValueError(f"loop period {period_s} s: must be positive")
        self._clock = clock
        self.next_ns = clock.now_ns() if first_ns is None else first_ns  # the next one, as long as it is not missed

    def due(self) -> int:
        """The next deadline that has not gone by for a whole period."""
        now_ns = self._clock.now_ns()
        if now_ns < self.next_ns - 2 * self.period_ns and self._clock.is_simulated:  # /clock began again
            self.next_ns = now_ns
        return self.next_ns + max(0, (now_ns - self.next_ns) // self.period_ns) * self.period_ns

    def begin(self, deadline_ns: int) -> Tick:
        """The cycle of a deadline that has come."""
        skipped = (deadline_ns - self.next_ns) // self.period_ns
        self.next_ns = deadline_ns + self.period_ns
        return Tick(deadline_ns, self._clock.now_ns(), skipped)

    def wait(self, stopped: threading.Event) -> Tick | None:
        """Sleep until the next deadline; None once `stopped` is set."""
        deadline_ns = self.due()
        return self.begin(deadline_ns) if self._clock.sleep_until(deadline_ns, stopped) else None


class LoopThread:
    """Runs `body(stopped)` in a thread of its own until `stop`; an exception in it goes to `on_error`."""

    def __init__(
        self,
        name: str,
        body: Callable[[threading.Event], None],
        on_error: Callable[[Exception], None],
        ends_within_s: float = 2.0,
    ):
        self._ends_within_s = ends_within_s
        self._stopped = threading.Event()
        self._body = body
        self._on_error = on_error
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the body to end and wait for it; TimeoutError when it does not."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(self._ends_within_s)
            if self._thread.is_alive():
                raise TimeoutError(f"loop {self._thread.name!r} did not end within {self._ends_within_s} s")

    def _run(self) -> None:
        reduce_timer_slack()
        try:
            self._body(self._stopped)
        except Exception as error:
            self._on_error(error)


def freeze_garbage() -> None:
    """No pauses for garbage collection from here on; what a loop allocates has no cycles and is freed by counting."""
    gc.collect()
    gc.freeze()
    gc.disable()


def reduce_timer_slack() -> None:
    """Let this thread's sleeps end when they should: Linux adds up to 50 us by default."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)
