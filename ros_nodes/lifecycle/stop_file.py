"""A person's emergency stop, kept on disk: it outlives every process, until a person resets it."""

import os
import stat
from pathlib import Path

LONGEST = 200  # letters of a reason


class StopFile:
    """One robot's stop."""

    def __init__(self, folder: str, robot: str):
        """`folder` empty for the user's own, $XDG_STATE_HOME/phalanx. OSError when nothing can be written there."""
        state_home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._path = (Path(folder) if folder else Path(state_home) / "phalanx") / f"{robot}.stopped"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self._path.parent, os.W_OK):
            raise PermissionError(f"{self._path.parent}: cannot be written; an emergency stop has to be kept there")

    def read(self) -> str:
        """Why the robot is stopped, or an empty string. A file that cannot be read is a stop."""
        try:
            with open(self._path, errors="replace", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return f"emergency stop ({self._path} is no file)"
                said = "".join(letter for letter in file.readline(LONGEST) if letter.isprintable()).strip()
            return said or "emergency stop"
        except FileNotFoundError:
            return f"emergency stop ({self._path} leads nowhere)" if self._path.is_symlink() else ""
        except OSError as error:
            return f"emergency stop ({self._path}: {error.strerror})"

    def write(self, reason: str) -> None:
        """Keep the stop; OSError when that cannot be."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "w", opener=_without_waiting) as file:
            file.write(reason + "\n")
            file.flush()
            os.fsync(file.fileno())

    def clear(self) -> None:
        """A person has reset it; OSError when that cannot be."""
        self._path.unlink(missing_ok=True)


def _without_waiting(path: str, flags: int) -> int:
    """Opens what is no file without waiting for its other end, as a pipe's."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)
