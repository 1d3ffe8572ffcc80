"""What people ask of a shield by its services, from one thread, and when the shield's own thread takes it."""

import threading


class StopButton:
    """An emergency stop that stays in until a person resets it, and that no reset of the same moment can undo."""

    def __init__(self) -> None:
        self._stop_asked, self._reset_asked = threading.Event(), threading.Event()
        self._is_in = False

    def ask_stop(self) -> None:
        """For any thread, also while nobody looks: it waits."""
        self._stop_asked.set()

    def ask_reset(self) -> None:
        """For any thread."""
        self._reset_asked.set()

    def restart(self) -> bool:
        """For the shield's thread as it starts: True when the button is in. A reset that nobody served is dropped."""
        self._reset_asked.clear()
        self._is_in |= _taken(self._stop_asked)
        return self._is_in

    def take(self) -> str:
        """For the shield's thread, every cycle: "estop", "reset" or "" for nothing new."""
        reset = _taken(self._reset_asked)  # first: a stop that comes in between is seen below, and wins
        if _taken(self._stop_asked):
            self._is_in = True
            return "estop"
        if reset:
            self._is_in = False
            return "reset"
        return ""


def _taken(event: threading.Event) -> bool:
    """Whether `event` was set; it no longer is. One that is set again in between has been noticed all the same."""
    if not event.is_set():
        return False
    event.clear()
    return True
