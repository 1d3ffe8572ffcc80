"""One thread for the control loops of a process: each runs until it waits, then the next one that is due.

What has just run costs a sixth (a policy's step) or a third (a shield's) of what it costs after a pause, in which the
processor's caches grow cold (`python -m benchmarks control`): robots that are served one right after the other need far
less time together than in a thread each.
"""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import NamedTuple

from rclpy.context import Context

from ros_nodes.lifecycle.clock import RobotClock, machine_clock
from ros_nodes.lifecycle.loop import reduce_timer_slack
from ros_nodes.lifecycle.polling import Mailbox, Waiter

LONGEST_S = 1.0  # without a look at who is there


class Wait(NamedTuple):
    """What a loop waits for: a message, or a time of its node's clock."""

    mailboxes: Sequence[Mailbox]
    until_ns: int


Cycles = Generator[Wait, bool, None]  # yields what it waits for, and is answered whether a message is there


class Turns:
    """Runs loops in turns, in a thread that lives as long as there are any."""

    def __init__(self, context: Context):
        self._waiter, self._machine = Waiter(context), machine_clock()
        self._loops: list[TurnLoop] = []
        self._lock = threading.Lock()

    def start(self, name: str, cycles: Cycles, clock: RobotClock, on_error: Callable[[Exception], None]) -> "TurnLoop":
        """Begin a loop; an exception in it goes to `on_error` and leaves the others as they are."""
        loop = TurnLoop(name, cycles, clock, on_error, self._waiter.wake)
        with self._lock:
            self._loops.append(loop)
            if len(self._loops) == 1:
                threading.Thread(target=self._run, name="turns", daemon=True).start()
        self._waiter.wake()
        return loop

    def _run(self) -> None:
        reduce_timer_slack()
        while loops := self._living():
            try:
                ready = self._wait(loops)
            except Exception as error:  # the middleware's: no loop can go on
                for loop in loops:
                    loop.fail(error)
                continue
            now_ns = self._machine.now_ns()
            for loop in loops:
                if loop.turn(ready, now_ns):  # which takes its time
                    now_ns = self._machine.now_ns()

    def _living(self) -> list["TurnLoop"]:
        with self._lock:
            self._loops = [loop for loop in self._loops if not loop.ended.is_set()]
            return list(self._loops)

    def _wait(self, loops: Sequence["TurnLoop"]) -> set[Mailbox]:
        now_ns = self._machine.now_ns()
        timeout_s = min(loop.clock.until_s(loop.wait.until_ns, now_ns) for loop in loops)
        return self._waiter.wait([box for loop in loops for box in loop.wait.mailboxes], min(timeout_s, LONGEST_S))


class TurnLoop:
    """One loop; to be stopped by another thread."""

    def __init__(
        self,
        name: str,
        cycles: Cycles,
        clock: RobotClock,
        on_error: Callable[[Exception], None],
        wake: Callable[[], None],
    ):
        self.clock, self.wait = clock, Wait((), 0)
        self.ended = threading.Event()
        self._name, self._cycles, self._on_error, self._wake = name, cycles, on_error, wake
        self._begun = self._stopped = False

    def stop(self, timeout_s: float = 2.0) -> None:
        """Ask the loop to end and wait for it; TimeoutError when it does not."""
        self._stopped = True
        self._wake()
        if not self.ended.wait(timeout_s):
            raise TimeoutError(f"loop {self._name!r} did not end within {timeout_s} s")

    def turn(self, ready: set[Mailbox], now_ns: int) -> bool:
        """Go on to the next wait, where what is waited for is there at `now_ns` of the machine; whether it was."""
        try:
            if self._stopped:
                self._cycles.close()
                self.ended.set()
            elif not self._begun:
                self.wait, self._begun = next(self._cycles), True
            else:
                arrived = not ready.isdisjoint(self.wait.mailboxes)
                if not arrived and self.clock.until_s(self.wait.until_ns, now_ns) > 0:
                    return False
                self.wait = self._cycles.send(arrived)
        except StopIteration:
            self.ended.set()
        except Exception as error:
            self.fail(error)
        return True

    def fail(self, error: Exception) -> None:
        """End, and say why."""
        with suppress(Exception):  # where it waits, it still has to let go of things
            self._cycles.close()
        self.ended.set()
        self._on_error(error)
