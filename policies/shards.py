"""A training in shards: each has its share of the worlds and its own copy of what learns, and all copies stay equal.

What the copies learn from is gathered from all shards and added in their order, so that it does not matter over how
many processes the shards are spread: `torchrun` starts the processes, and shards of one process are threads.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, BrokenBarrierError, Lock
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

Value = TypeVar("Value")


class ShardError(ValueError):
    """Another shard has failed; the message says which, and how."""


class Shards:
    """One shard of a training, number `index` of `count`, and the way to the others.

    What gathers is a call that every shard makes, in the same order.
    """

    def __init__(self, index: int = 0, count: int = 1, process: "_Process | None" = None) -> None:
        self.index, self.count, self._process = index, count, process

    def gather(self, value: Value) -> list[Value]:
        """The values of all shards in their order; tensors, of one shape, are copies."""
        return [value] if self._process is None else self._process.gather(self.index, value)

    def joined(self, tensor: Tensor) -> Tensor:
        """The tensors (n, ...) of all shards as one, (count x n, ...)."""
        return tensor if self._process is None else torch.cat(self.gather(tensor))

    def mean(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The mean over the shards of each of `tensors`, in one exchange."""
        if self._process is None:
            return tensors
        total: Any = sum(self.gather(torch.cat([tensor.flatten() for tensor in tensors])))
        parts = (total / self.count).split([tensor.numel() for tensor in tensors])
        return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]

    @contextmanager
    def together(self, in_turn: bool = False) -> Iterator[None]:
        """What fails here in one shard fails in all of them, as a ShardError in the others; nothing is gathered inside.

        With `in_turn` the shards of one process pass one after the other.
        """
        if self._process is None:
            yield
            return
        failed: Exception | None = None
        if in_turn:
            self._process.lock.acquire()
        try:
            yield
        except Exception as error:
            failed = error
        finally:
            if in_turn:
                self._process.lock.release()
        said = self.gather(None if failed is None else str(failed) or type(failed).__name__)
        if failed is not None:
            raise failed
        for index, what in enumerate(said):
            if what is not None:
                raise ShardError(f"shard {index} of {self.count}: {what}")


ALONE = Shards()


class _Process:
    """What the shards of one process share, and its way to the other processes."""

    def __init__(self, shards: int, processes: int) -> None:
        self.processes, self.lock, self.barrier = processes, Lock(), Barrier(shards)
        self.error: BaseException | None = None  # of the first shard that has ended with one
        self._given: list[Any] = [None] * shards
        self._found: list[Any] = []

    def gather(self, index: int, value: Any) -> list[Any]:
        """See `Shards.gather`: the first shard of the process asks for all."""
        place = index % len(self._given)
        self._given[place] = value
        try:
            self.barrier.wait()
            if place == 0:
                self._found = self._of_all_processes(list(self._given))
            self.barrier.wait()
        except BrokenBarrierError:
            wrong = "" if isinstance(self.error, ValueError) else "another shard has ended: "  # of what a person gave
            raise ShardError(f"{wrong}{self.error or 'it is done'}") from self.error
        except RuntimeError as error:  # of gloo, which says no more than that a connection is gone
            raise ShardError(
                "another process of the training has ended; to go on from the checkpoint: the same with --resume RUN"
            ) from error
        return list(self._found)

    def _of_all_processes(self, given: list[Any]) -> list[Any]:
        if isinstance(given[0], Tensor):
            own = torch.stack(given)
            if self.processes == 1:
                return list(own)
            parts = [torch.empty_like(own) for _ in range(self.processes)]
            distributed.all_gather(parts, own)
            return list(torch.cat(parts))
        if self.processes == 1:
            return given
        found: list[Any] = [None] * self.processes
        distributed.all_gather_object(found, given)
        return [value for part in found for value in part]


def started_by_torchrun() -> tuple[int, int]:
    """Number of this process, and of all that `torchrun` started; (0, 1) without it."""
    if not distributed.is_torchelastic_launched():
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def over_shards(func: Callable[[Shards], Value], count: int | None = None) -> Value:
    """`func` for every shard of this process; returns what it returns for the first of them.

    There are `count` shards over all processes, as many as processes when that is None; ValueError where they cannot be
    spread evenly.
    """
    rank, processes = started_by_torchrun()
    count = count or processes
    if count % processes:
        raise ValueError(f"shards = {count}: wanted a multiple of the {processes} processes that torchrun started")
    if count == 1:
        return func(ALONE)
    here = count // processes
    process = _Process(here, processes)
    if processes > 1:
        distributed.init_process_group("gloo")

    def run(shard: Shards) -> Value:
        try:
            return func(shard)
        except BaseException as error:
            process.error = process.error or error
            process.barrier.abort()
            raise

    first, *others = (Shards(rank * here + place, count, process) for place in range(here))
    try:
        with ThreadPoolExecutor(max(1, len(others)), "shard") as pool:
            for shard in others:
                pool.submit(run, shard)
            return run(first)
    finally:
        if processes > 1:
            distributed.destroy_process_group()
