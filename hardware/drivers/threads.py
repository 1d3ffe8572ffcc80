"""For threads of drivers, which have to live on, and to say what went wrong."""

import time
from collections.abc import Iterator
from threading import Event


def beats(period_s: float, ended: Event) -> Iterator[None]:
    """One every `period_s`, and a last one once it has `ended`; one that was missed does not come after."""
    due_s = time.monotonic()
    while not ended.is_set():
        due_s = max(due_s + period_s, time.monotonic() - period_s)
        ended.wait(max(0.0, due_s - time.monotonic()))
        yield


def in_one_line(error: Exception) -> str:
    """What it says, or what it is where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__
