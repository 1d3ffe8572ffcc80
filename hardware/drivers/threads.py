"""For threads of drivers, which have to live on, and to say what went wrong."""

import time
from collections.abc import Iterator
from threading import Condition, Event

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # it goes on while the computer is suspended


def running_s() -> float:
    """A clock, s, by which a thread sees that it was held up."""
    return time.clock_gettime(CLOCK)


def beats(period_s: float, ended: Event) -> Iterator[float]:
    """One every `period_s`, and a last one once it has `ended`; one that was missed does not come after.

    Each is how long ago the one before was, s: much more than `period_s` where the thread, its process or the computer
    did not run. What a device was commanded before is not to go on as if nothing had been.
    """
    due_s, before_s = time.monotonic(), running_s()
    while not ended.is_set():
        due_s = max(due_s + period_s, time.monotonic() - period_s)
        ended.wait(max(0.0, due_s - time.monotonic()))
        passed_s, before_s = (now_s := running_s()) - before_s, now_s
        yield passed_s


def in_one_line(error: Exception) -> str:
    """What it says, or what it is where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


class Newest:
    """A mailbox of one, between two threads."""

    def __init__(self) -> None:
        self._changed, self._payload, self._closed = Condition(), b"", False

    def put(self, payload: bytes) -> None:
        with self._changed:
            self._payload = payload
            self._changed.notify()

    def take(self, within_s: float) -> bytes | None:
        """The newest that was not taken yet, when there is one; nothing after `within_s`, None once it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._payload or self._closed, within_s)
            payload, self._payload = self._payload, b""
            return None if self._closed else payload

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
