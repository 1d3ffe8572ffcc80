"""A device's clock in this computer's monotonic time."""

from collections import deque
from math import inf, isfinite

WINDOW_S = 10.0  # over which the quickest packet tells how the two clocks differ
RECENT = 5  # exchanges
LONGEST_TRIP_S = 1.0  # a round trip that is said to be longer, or to end before it began, is not believed


class DeviceClock:
    """By the quickest of the last exchanges, or, where the device only sends, by the quickest of its last packets."""

    def __init__(self, around_s: float = inf):
        """`around_s`: after which the device's clock begins again at 0."""
        self._around_s = around_s
        self.restarts = 0
        self.trip_s = 0.0  # of the quickest of the last exchanges: a computer may be busy for a moment
        self._trips: deque[float] = deque(maxlen=RECENT)
        self._offset_s = 0.0  # other threads read this and `trip_s`
        self._quickest: deque[tuple[float, float, float]] = deque()  # when, took and offset, s; each slower than before

    def exchange(self, sent_s: float, device_s: float, now_s: float) -> None:
        """An answer: asked at `sent_s`, when the device's clock said `device_s`, and here at `now_s`."""
        trip_s, offset_s = now_s - sent_s, 0.5 * (sent_s + now_s) - device_s
        if not 0.0 <= trip_s < LONGEST_TRIP_S:
            return
        if self.is_known and abs(offset_s - self._offset_s) > LONGEST_TRIP_S:  # its clock has begun again
            self._quickest.clear()
            self.restarts += 1
        self._trips.append(trip_s)
        self.trip_s = min(self._trips)
        self._take(now_s, trip_s, offset_s)

    def packet(self, device_s: float, now_s: float) -> float:
        """When a packet of `device_s`, here at `now_s`, was sent, as if the quickest took no time; monotonic, s."""
        offset_s = now_s - device_s
        if self._quickest and isfinite(self._around_s):
            offset_s -= self._around_s * round((offset_s - self._quickest[-1][2]) / self._around_s)
        self._take(now_s, offset_s, offset_s)
        return now_s - (offset_s - self._offset_s)

    def here(self, device_s: float) -> float:
        """The moment `device_s` of the device's clock, monotonic, s."""
        return device_s + self._offset_s

    def there(self, now_s: float) -> float:
        """The moment `now_s`, monotonic, on the device's clock, s."""
        return now_s - self._offset_s

    @property
    def is_known(self) -> bool:
        return bool(self._quickest)

    def _take(self, now_s: float, took_s: float, offset_s: float) -> None:
        while self._quickest and self._quickest[0][0] < now_s - WINDOW_S:
            self._quickest.popleft()
        while self._quickest and self._quickest[-1][1] >= took_s:
            self._quickest.pop()
        self._quickest.append((now_s, took_s, offset_s))
        self._offset_s = self._quickest[0][2]
