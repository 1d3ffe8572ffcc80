"""Folders of training runs, found without what it takes to read them: an import of torch takes seconds."""

from collections.abc import Iterable
from pathlib import Path

RECORD = "run.json"  # what a run is, for people and other programs


def find_records(paths: Iterable[Path]) -> list[Path]:
    """The records of the runs in folders, each that of a run or of several; ValueError where there is none."""
    found: list[Path] = []
    for path in paths:
        records = [path / RECORD] if (path / RECORD).is_file() else sorted(path.glob(f"*/{RECORD}"))
        if not records:
            raise ValueError(f"no run in {path}: neither it nor a folder in it has a {RECORD}")
        found += records
    return found
