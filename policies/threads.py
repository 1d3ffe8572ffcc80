"""A few threads that each run single-threaded torch on a piece of the data.

Splitting the rows once beats torch's own threads for networks this small: those meet at a barrier after every
operation, and on a busy machine each barrier waits for a thread that is not running. Here a busy core costs its share.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TypeVar

import torch

from policies.shards import ALONE, Shards

Result = TypeVar("Result")


class Workers:
    """`count` threads; results depend on `count` in the last bits, never on timing."""

    def __init__(self, count: int, shards: Shards = ALONE) -> None:
        """`shards`: the shard that they work on, and the way to the others."""
        self.count, self.shards = count, shards
        self._pool = ThreadPoolExecutor(count, "learner", initializer=torch.set_num_threads, initargs=(1,))

    def over_rows(self, func: Callable[[slice], Result], rows: int) -> list[Result]:
        """`func` of `count` contiguous slices that cover `rows`, in order; fewer when there are fewer rows."""
        size = max(1, -(-rows // self.count))
        pieces = [slice(i, min(i + size, rows)) for i in range(0, rows, size)]
        if len(pieces) <= 1:
            return [func(slice(0, rows))]
        return list(self._pool.map(func, pieces))

    def close(self) -> None:
        self._pool.shutdown()


def at_once(jobs: Sequence[Callable[[Callable[[], None]], Result]]) -> list[Result]:
    """What `jobs` return, in order: they run in threads, as many at a time as this process may use cores.

    Each is given a function to call now and then, which ends it after Ctrl-C, or when a job before it has failed.
    """
    ending = Event()

    def check() -> None:
        if ending.is_set():
            raise InterruptedError("another job has ended early")

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            return list(pool.map(lambda job: job(check), jobs))
        finally:
            ending.set()


@contextmanager
def single_threaded_torch() -> Iterator[None]:
    """Torch's own threads are off in this thread for as long as the context lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
