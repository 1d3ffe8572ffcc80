"""Folders of training runs, found without what it takes to read them: an import of torch takes seconds."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RECORD = "run.json"  # what a run is, for people and other programs


def load_record(path: Path, needed: Iterable[str] = ("algorithm",)) -> dict[str, Any]:
    """The record of a run, with all that is `needed`; ValueError names a file that is damaged, and what it lacks."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        if not isinstance(record, dict):
            raise ValueError(f"wanted a run, it is {str(record)[:50]}")
        if lacks := [name for name in needed if name not in record]:
            raise ValueError(f"it lacks {', '.join(lacks)}")
    except ValueError as error:
        raise ValueError(f"{path}: is damaged: {error}") from error
    return record


def find_records(paths: Iterable[Path]) -> list[Path]:
    """The records of the runs in folders, each that of a run or of several; ValueError where there is none."""
    found: list[Path] = []
    for path in paths:
        records = [path / RECORD] if (path / RECORD).is_file() else sorted(path.glob(f"*/{RECORD}"))
        if not records:
            raise ValueError(f"no run in {path}: neither it nor a folder in it has a {RECORD}")
        found += records
    return list(dict.fromkeys(found))
