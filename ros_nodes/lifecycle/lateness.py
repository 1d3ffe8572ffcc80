"""Whether this computer let the loops of a process run in time: else what they call late is not a device's doing."""

import os
from collections import deque

from ros_nodes.lifecycle.machine_load import usable_cores

LATE_S = 0.02  # a whole period of a shield
RECENT_S = 2.0  # a hold, of which a landing comes, began no longer ago


class Lateness:
    """How much later than they were to loops of one process went on; each may be of another thread."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=50)

    def note(self, now_s: float, late_s: float) -> None:
        """A loop went on at `now_s`, of any clock that all of them have, `late_s` too late."""
        if late_s > LATE_S:
            self._late.append((now_s, late_s))

    def says(self, now_s: float) -> str:
        """That this computer was late in the last `RECENT_S`, or that it is busy; an empty string else."""
        late_s = [late_s for then_s, late_s in tuple(self._late) if 0.0 <= now_s - then_s < RECENT_S]
        cores, load = usable_cores(), os.getloadavg()[0]
        busy = f"load {load:.1f} on {cores} cores"
        if late_s:
            woke = f"a loop of its process woke up {1e3 * max(late_s):.0f} ms late"
            return f"this computer was late: {woke}, {busy}"
        return f"this computer is busy: {busy}" if load > cores else ""
