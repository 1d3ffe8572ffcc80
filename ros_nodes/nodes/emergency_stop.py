"""Requests of people to a shield by its services, from one thread, until the shield's own thread takes them."""

from queue import Empty, SimpleQueue

STOP, RESET = "estop", "reset"


class EmergencyStop:
    """A stop that holds until a reset, and that wins over any reset taken in the same cycle."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[str] = SimpleQueue()
        self._is_active = False

    def request(self, what: str) -> None:
        """STOP or RESET, from any thread; it waits until it is taken."""
        self._requests.put(what)

    def restart(self) -> bool:
        """For the shield's thread as it starts: True when stopped. A reset that was not taken is dropped."""
        self._is_active |= STOP in self._waiting()
        return self._is_active

    def take(self) -> str:
        """For the shield's thread, every cycle: STOP, RESET or "" for nothing new."""
        requests = self._waiting()
        what = STOP if STOP in requests else RESET if RESET in requests else ""
        if what:
            self._is_active = what == STOP
        return what

    def _waiting(self) -> set[str]:
        found = set()
        while True:
            try:
                found.add(self._requests.get_nowait())
            except Empty:
                return found
