"""Time series on disk that survive the death of the process that writes them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np


class SeriesWriter:
    """Rows of float64 in a memory-mapped file: a row costs a microsecond, and a SIGKILL loses none."""

    def __init__(self, path: Path, columns: Sequence[str], capacity: int):
        """Room for `capacity` rows; further rows are dropped."""
        path.parent.mkdir(parents=True, exist_ok=True)
        dtype = np.dtype([(name, np.float64) for name in columns])
        self._rows = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(capacity + 1,)).view(np.float64)
        self._rows = self._rows.reshape(capacity + 1, len(columns))
        self._count = 0

    def add(self, *values: float) -> None:
        """Append one row; the first column must not be zero, which marks the end."""
        if self._count < len(self._rows) - 1:
            self._rows[self._count] = values
            self._count += 1


def read_series(path: Path) -> dict[str, np.ndarray]:
    """Columns (rows,) by name of a file that a SeriesWriter wrote, finished or not."""
    rows = np.load(path, mmap_mode="r")
    assert rows.dtype.names is not None
    count = int(np.argmax(rows[rows.dtype.names[0]] == 0.0))
    return {name: np.array(rows[name][:count]) for name in rows.dtype.names}
