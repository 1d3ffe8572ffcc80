"""Time series on disk that survive the death of the process that writes them."""

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

ROOM = 1 << 20  # bytes, at least, that are reserved at a time
CUT = -1.0  # first column of the row behind the last one, where the disk had no room for more; else zero


class SeriesWriter:
    """Rows of float64 in a memory-mapped file: a row costs a microsecond, and a SIGKILL loses none.

    What is mapped is reserved on the disk before it is written: where a full disk has no room for a page, the kernel
    ends the process that touches it. Such a series ends instead.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        capacity: int,
        on_end: Callable[[str], object] = lambda reason: None,
    ):
        """Room for `capacity` rows; further rows are dropped. OSError where not even the first rows have room.

        `on_end` is called with the reason, once, where the disk has no room for more.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        dtype = np.dtype([(name, np.float64) for name in columns])
        self._path, self._row_bytes, self._on_end = path, dtype.itemsize, on_end
        memory = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(capacity + 1,))
        self._begin, self._capacity = memory.offset, capacity
        self._further = len(columns) - 1
        self._row, self._bytes = struct.Struct(f"{len(columns)}d"), memory.view(np.uint8).data
        self._count = self._room = 0
        self._ended = False
        self._reserve()

    def add(self, *values: float) -> None:
        """Append one row; the first column must be above zero, for others mark the end."""
        if self._count == self._room and not self._grow():
            return
        self._row.pack_into(self._bytes, self._count * self._row_bytes, *values)
        self._count += 1

    def _grow(self) -> bool:
        """Room for further rows, where there is any."""
        if self._ended or self._room == self._capacity:
            return False
        try:
            self._reserve()
        except OSError as error:
            self._ended = True
            self._row.pack_into(self._bytes, self._count * self._row_bytes, CUT, *[0.0] * self._further)
            self._on_end(f"{self._path}: {error.strerror}; the series ends here")
        return not self._ended

    def _reserve(self) -> None:
        """Make sure that the next rows, and the row of zeros behind them, are on the disk."""
        rows = min(self._room + -(-ROOM // self._row_bytes), self._capacity)
        with self._path.open("r+b") as file:
            begin = self._begin + self._room * self._row_bytes
            try:
                os.posix_fallocate(file.fileno(), begin, (rows + 1 - self._room) * self._row_bytes)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path)) from None
        self._room = rows


def read_series(path: Path) -> dict[str, np.ndarray]:
    """Columns (rows,) by name of a file that a SeriesWriter wrote, finished or not."""
    return read_whether_whole(path)[0]


def read_whether_whole(path: Path) -> tuple[dict[str, np.ndarray], bool]:
    """As `read_series`, and False where the disk had no room for what came after."""
    rows = np.load(path)  # not mapped: on a full disk the holes of such a file cannot be
    assert rows.dtype.names is not None
    first = rows[rows.dtype.names[0]]
    count = int(np.argmax(first <= 0.0))
    return {name: np.array(rows[name][:count]) for name in rows.dtype.names}, first[count] != CUT
