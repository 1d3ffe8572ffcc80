"""Folders of training runs, found without what it takes to read them: an import of torch takes seconds."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RECORD = "run.json"  # what a run is, for people and other programs


def read_record(run: Path, needed: Iterable[str] = ("algorithm",)) -> dict[str, Any]:
    """What the run in a folder is, with all that is `needed`; ValueError names a file that is damaged or lacks it."""
    path = run / RECORD
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        if not isinstance(record, dict):
            raise ValueError(f"wanted a run, it is {str(record)[:50]}")
        if lacks := [name for name in needed if name not in record]:
            raise ValueError(f"it lacks {', '.join(lacks)}")
    except ValueError as error:
        raise ValueError(f"{path}: is damaged: {error}") from error
    return record


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The folders of the runs in `paths`, each that of a run or of several; ValueError where there is none."""
    found: list[Path] = []
    for path in paths:
        runs = [path] if (path / RECORD).is_file() else [file.parent for file in sorted(path.glob(f"*/{RECORD}"))]
        if not runs:
            raise ValueError(f"no run in {path}: neither it nor a folder in it has a {RECORD}")
        found += runs
    return list(dict.fromkeys(found))
