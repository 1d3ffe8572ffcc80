"""A person's emergency stop, kept on disk: it outlives every process, until a person resets it.

A robot is known by its name in its ROS domain, as orders are: two of one name in two domains of a computer have a stop
each, so that a reset of one never frees the other. A version before kept `NAME.stopped` without the domain: that holds
for the robots of this name in all domains, until one of them is reset.
"""

import os
import stat
from pathlib import Path

LONGEST = 200  # letters of a reason


class StopFile:
    """One robot's stop."""

    def __init__(self, folder: str, robot: str, domain_id: int):
        """`folder` empty for the user's own, $XDG_STATE_HOME/phalanx. OSError when nothing can be written there."""
        self._path = _folder(folder) / f"{robot}@{domain_id}.stopped"
        self._of_before = self._path.with_name(f"{robot}.stopped")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self._path.parent, os.W_OK):
            raise PermissionError(f"{self._path.parent}: cannot be written; an emergency stop has to be kept there")

    def read(self) -> str:
        """Why the robot is stopped, or an empty string. A file that cannot be read is a stop."""
        return _read(self._path) or _read(self._of_before)

    def write(self, reason: str) -> None:
        """Keep the stop; OSError when that cannot be."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "w", opener=_without_waiting) as file:
            file.write(reason + "\n")
            file.flush()
            os.fsync(file.fileno())

    def clear(self) -> None:
        """A person has reset it; OSError when that cannot be."""
        self._of_before.unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)


def stops_elsewhere(folder: str, robot: str, domain_id: int) -> dict[int, str]:
    """Why robots of this name are stopped in other ROS domains than `domain_id`, by domain."""
    found = {}
    for file in _folder(folder).glob(f"{robot}@*.stopped"):
        domain = file.stem.rpartition("@")[2]
        if domain.isdecimal() and int(domain) != domain_id:
            found[int(domain)] = _read(file)
    return dict(sorted(found.items()))


def _folder(given: str) -> Path:
    state_home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(given) if given else Path(state_home) / "phalanx"


def _read(path: Path) -> str:
    try:
        with open(path, errors="replace", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return f"emergency stop ({path} is no file)"
            said = "".join(letter for letter in file.readline(LONGEST) if letter.isprintable()).strip()
        return said or "emergency stop"
    except FileNotFoundError:
        return f"emergency stop ({path} leads nowhere)" if path.is_symlink() else ""
    except OSError as error:
        return f"emergency stop ({path}: {error.strerror})"


def _without_waiting(path: str, flags: int) -> int:
    """Opens what is no file without waiting for its other end, as a pipe's."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)
