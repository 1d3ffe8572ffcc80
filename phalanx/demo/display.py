"""The live display of the demo: one line a stage, and one for the whole with an estimate of the time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import TaskID

from phalanx.progress import make_progress

STAGES = {
    "train": ("1 train", "in parallel simulation"),
    "export": ("2 export", "one file with contract and probes"),
    "verify": ("3 verify", "probes, parity, held-out starts"),
    "fly": ("4 fly", "in ROS 2; one policy is killed in flight"),
    "report": ("5 report", "result.json and report.html"),
}


class Display:
    """Context manager around a rich progress; `seconds` is what each stage is expected to take."""

    def __init__(self, seconds: dict[str, float]):
        self._seconds = seconds
        self._progress = make_progress()
        self._rows: dict[str, TaskID] = {
            name: self._progress.add_task(text, start=False, total=1.0, note=what)
            for name, (text, what) in STAGES.items()
        }
        self._whole = self._progress.add_task("[bold]whole way[/]", total=sum(seconds.values()), note="")
        self._done_s = 0.0
        self.now = ""  # name of the stage that runs, or was the last

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[float | None, str], None]]:
        """While a stage runs; gives it `update(fraction or None, note)`."""
        row, expected, self.now = self._rows[name], self._seconds[name], name
        self._progress.start_task(row)

        def update(fraction: float | None, note: str) -> None:
            if fraction is not None:
                part = min(max(fraction, 0.0), 1.0)
                self._progress.update(row, completed=part)
                self._progress.update(self._whole, completed=self._done_s + part * expected)
            self._progress.update(row, note=note)

        yield update
        self._done_s += expected
        self._progress.update(row, completed=1.0)
        self._progress.update(self._whole, completed=self._done_s)
