"""How far several flights have come that are flown at once."""

from collections.abc import Callable
from threading import Lock

OnShare = Callable[[float, str], None]  # hears the share of the work that is done, 0 to 1, and what is done now
FINEST = 1e-3  # share after which more is said


class Way:
    """The share of their control steps, each counted by its robots; its methods may be called by several threads."""

    def __init__(self, say: OnShare, begins: float, robot_steps: float):
        """`begins`: share of the work that was done before; `robot_steps`: of all flights, to their longest end."""
        self._say, self._begins, self._all = say, begins, robot_steps
        self._done, self._said, self._note, self._lock = 0.0, begins, "", Lock()

    def begin(self, note: str) -> None:
        """A flight begins, of which `note` is said from here on."""
        with self._lock:
            self._note = note
            self._say(self._said, note)

    def step(self, robots: float) -> None:
        """One control step of so many robots was flown."""
        with self._lock:
            self._done += robots
            share = min(1.0, self._begins + (1.0 - self._begins) * self._done / self._all)
            if share >= self._said + FINEST:
                self._said = share
                self._say(share, self._note)
