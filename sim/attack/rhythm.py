"""Rhythms of joints, and a search that goes on from those that broke a shield, or came nearest to that."""

import numpy as np

START_STEPS = 75  # control periods in which each joint goes to where its rhythm begins
BEYOND = 0.05  # of a joint's range, by which it may be asked for more
FRESH, KNOWN, PARENTS = 0.25, 12, 6  # share of what is drawn afresh; from so many on the rest follows the worst
CHANGED = 0.25  # of a rhythm's numbers that are drawn afresh for the next one


def draw(rng: np.random.Generator, worlds: int, joints: int) -> np.ndarray:
    """Rhythms (W, 7, U): start, middle and swing as shares of a range, half a cycle, phase, share above, is a sine."""
    size = worlds, joints
    return np.stack(
        [
            rng.uniform(0.1, 0.9, size),
            rng.uniform(0.0, 1.0, size),
            rng.choice([0.05, 0.2, 0.5, 1.0, 2.0], size),
            rng.integers(1, 40, size),  # control periods
            rng.integers(0, 80, size),  # control periods
            rng.uniform(0.2, 0.8, size),  # of a cycle
            rng.random(size) < 0.3,
        ],
        axis=1,
    )


def targets(rhythms: np.ndarray, low: np.ndarray, high: np.ndarray, step: int) -> np.ndarray:
    """Targets (W, U) rad in the control period `step` of joints with ranges from `low` to `high` (U,) rad."""
    start, middle, swing, half, phase, above, sine = np.moveaxis(rhythms, 1, 0)
    if step < START_STEPS:
        return low + start * (high - low)
    cycle = (step - START_STEPS + phase) % (2.0 * half) / (2.0 * half)
    side = np.where(sine, np.sin(2.0 * np.pi * cycle), np.where(cycle < above, 1.0, -1.0))
    return low + np.clip(middle + swing * side, -BEYOND, 1.0 + BEYOND) * (high - low)


class RhythmSearch:
    """Rhythms of one flight after another."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self._known: list[tuple[float, np.ndarray]] = []  # room, rhythm (7, U); those with least room first
        self.rhythms: np.ndarray | None = None  # (W, 7, U)

    def next(self, worlds: int, joints: int) -> None:
        """Draw the next `rhythms`: afresh, or a known one of the worst with some numbers changed."""
        self.rhythms = fresh = draw(self._rng, worlds, joints)
        if len(self._known) < KNOWN:
            return
        parents = np.stack([self._known[i][1] for i in self._rng.integers(PARENTS, size=worlds)])
        changed = self._rng.random(fresh.shape) < CHANGED
        changed |= self._rng.random((worlds, 1, 1)) < FRESH
        self.rhythms = np.where(changed, fresh, parents)

    def learn(self, room: np.ndarray) -> None:
        """Keep how much `room` (W,) each of the `rhythms` left: the less, the worse."""
        if self.rhythms is not None:
            self._known += zip(room.tolist(), self.rhythms, strict=True)
            self._known.sort(key=lambda each: each[0])
