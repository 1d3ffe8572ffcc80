"""How evenly a recording's messages came: gaps, clocks that stepped back, and commands that were held or recorded late.

A busy machine records what never happened: a command that its recorder heard 0.1 s late looks as if it had acted then.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

LATE = 1.5  # of the period that is usual: a longer pause is late
BACK = 0.5  # of that period by which a stamp is before the one that came sooner: its clock was set back
SURE_S = 0.005  # a command whose time is known no better is not replayed


@dataclass(frozen=True)
class Rhythm:
    """Of messages by their times, in the order in which they came."""

    count: int
    period_s: float  # the usual one; NaN for fewer than two
    late: int  # pauses of more than `LATE` periods
    missed: int  # messages that would have filled these
    longest_s: float
    share: float  # of the time, in such pauses
    jitter_s: float  # 95 % of all other pauses are no farther from the period
    back: int  # times at which the clock stepped back
    back_s: float  # the farthest


def rhythm(times_s: np.ndarray) -> Rhythm:
    """Of times (N,) s."""
    steps = np.diff(times_s)
    pauses = np.diff(np.unique(times_s))
    pauses = pauses[pauses > 0.1 * np.median(pauses)] if len(pauses) else pauses  # one that came twice is no other
    if not len(pauses):
        return Rhythm(len(times_s), float("nan"), 0, 0, 0.0, 0.0, 0.0, 0, 0.0)
    period_s = float(np.median(pauses))
    late, back = pauses > LATE * period_s, steps < -BACK * period_s
    even = np.abs(pauses[~late] - period_s)
    return Rhythm(
        len(times_s),
        period_s,
        int(late.sum()),
        int(np.round(pauses[late] / period_s - 1.0).sum()),
        float(pauses.max()),
        float(pauses[late].sum() / pauses.sum()),
        float(np.percentile(even, 95)) if len(even) else 0.0,
        int(back.sum()),
        float(-steps.min()) if back.any() else 0.0,
    )


def longest_forward(times_s: np.ndarray) -> slice:
    """Of times (N,) s in the order in which they came the longest part in which the clock was not set back."""
    period_s = rhythm(times_s).period_s
    cuts = np.flatnonzero(np.diff(times_s) < -BACK * period_s) + 1
    ends = [0, *cuts.tolist(), len(times_s)]
    begin, end = max(pairwise(ends), key=lambda part: part[1] - part[0])
    return slice(begin, end)
