"""How long to wait for what has to come: whether it comes is tested, and how soon it does on a busy machine is not."""

import os


def patience(seconds: float) -> float:
    """`seconds` of a quiet machine, twice as long at least, and as much longer as more wants to run than can."""
    return seconds * max(2.0, os.getloadavg()[0] / (os.cpu_count() or 1))
