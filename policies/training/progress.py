"""progress.csv of a training run: a row for every iteration, to be read while it trains."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from policies.checkpoint import CheckpointError, replace_file

PROGRESS = "progress.csv"


class Progress:
    """Appends rows to `folder`/progress.csv. A row is in the file, whole, before the checkpoint of its iteration."""

    def __init__(self, folder: Path, agent_steps: int) -> None:
        """A run that goes on at `agent_steps` takes back the rows that were written after its checkpoint."""
        self._path = folder / PROGRESS
        rows = [row for row in read_progress(folder) if row["agent_steps"] <= agent_steps]
        self._columns = list(dict.fromkeys(name for row in rows for name in row))
        self._write(rows)

    def add(self, row: Mapping[str, float]) -> None:
        """One iteration; `agent_steps` is in it. A number that is new, as success is at first, becomes a column."""
        new = [name for name in row if name not in self._columns]
        if new:
            self._columns += new
            self._write([*read_progress(self._path.parent), row])
            return
        try:
            self._file.write(self._line_of(row))
            self._file.flush()
        except OSError as error:
            raise CheckpointError(f"cannot write {self._path}: {error.strerror or error}") from error

    def sync(self) -> None:
        """Wait until all rows are on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        with suppress(OSError):  # of a row that could not be written, which was said already
            self._file.close()

    def _line_of(self, row: Mapping[str, float]) -> str:
        return _line(row.get(name, "") for name in self._columns)

    def _write(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Write the whole file."""
        if hasattr(self, "_file"):
            self.close()
        text = _line(self._columns) + "".join(self._line_of(row) for row in rows)
        replace_file(self._path, lambda file: file.write(text.encode()))
        self._file = self._path.open("a", encoding="utf-8")


def read_progress(folder: Path) -> list[dict[str, float]]:
    """The rows of a run's progress.csv, oldest first; without numbers that an iteration did not have.

    A last line that is not whole, because the run was killed or its disk was full, is left out. CheckpointError names
    the first line that is not one of ours.
    """
    path = folder / PROGRESS
    if not path.is_file():
        return []
    try:
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: is damaged: {error}") from error
    if not whole:
        return []
    columns, *lines = csv.reader(io.StringIO(whole))
    if "agent_steps" not in columns:
        raise CheckpointError(f"{path}: is damaged: its first line has no agent_steps")
    return [_row(f"{path}: line {number}", columns, line) for number, line in enumerate(lines, 2)]


def _row(where: str, columns: Sequence[str], line: Sequence[str]) -> dict[str, float]:
    try:
        cells = zip(columns, line, strict=True)
        return {name: int(cell) if cell.isdecimal() else float(cell) for name, cell in cells if cell}
    except ValueError as error:
        found = ascii(",".join(line)[:50])
        raise CheckpointError(f"{where} is damaged, take it out: {found}, wanted {len(columns)} numbers") from error


def _line(cells: Iterable[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
