"""Who spoke first on a topic of measurements: what a second publisher says there counts as nothing."""

import time
from math import inf
from typing import Any

from ros_nodes.lifecycle.polling import Mailbox

RATE_OVER_S = 1.0  # the first one's rate is its highest over so long: a busy machine only slows it down
FASTER = 1.3  # times that rate, at most, it goes on
AT_ONCE = 5  # messages more that may come at once
LOST_S = 1.0  # what the first one said in so long may be lost; who is out of hearing for longer is not known again
UNSURE_S = 0.3  # without a message of the first one, after which the second one may have been taken for it
Taken = tuple[Any, int]
Numbered = tuple[Taken, int | None]  # what was taken, and its publisher's number of it


class OneSpeaker:
    """Whether a message is of the publisher before, where one is counted: another may come and go between two looks.

    A new one's first message begins with 1, and is not believed; those that go on from it are.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._other: int | None = None

    def believes(self, number: int | None) -> bool:
        """Of the message with this number of its publisher; each one once."""
        if number is None:
            return True
        before = [last for last in (self._last, self._other) if last is not None and last < number <= last + AT_ONCE]
        is_believed = self._last is None or bool(before)
        self._last, self._other = (number, None) if is_believed else (self._last, number)
        return is_believed


class FirstSpeaker:
    """The newest message of the publisher that was alone on a topic; to be used by one thread at a time.

    rclpy does not say whose a message is, but each publisher numbers what it sends. While there are several those count
    that go on from the last number of the first one, at its rate. A second one begins with 1, and is known by that: if
    it is faster it passes by once, and while the numbers of both meet, for half a second at most, nothing counts.
    Where a middleware gives no numbers nothing counts while there are several.
    """

    def __init__(self, mailbox: Mailbox):
        """The queue of `mailbox` has to hold what comes in between, see `qos.MEASURED_IN`."""
        self._mailbox = mailbox
        self._doubled = False
        self._number: int | None = None  # of the first one's last message
        self._other: int | None = None  # of the second one's
        self._met_s = -inf  # when a number came twice: both were at the same one
        self._heard_s = self._looked_s = 0.0  # when that was taken, and when was looked last; monotonic
        self._since: tuple[float, int] | None = None  # of the window for its rate: when it began, and the number then
        self._rate_hz = 0.0
        self._room = 0.0  # how far beyond the last number the next one may be

    def take(self) -> Taken | None:
        """It, and when it arrived (ns, the system's clock); None for nothing new. What is older is dropped."""
        found = [(taken, self._mailbox.number) for taken in self._mailbox.drain()]
        # A publisher is counted before it is heard, and one that has left may still be in the queue.
        before, self._doubled = self._doubled, self._mailbox.publishers > 1
        now_s = time.monotonic()
        if before or self._doubled:
            found = self._of_the_first(found, now_s)
        elif found:
            self._learn(found[-1][1], now_s)
        self._looked_s = now_s
        if not found:
            return None
        self._heard_s = now_s
        newest, self._number = found[-1]
        return newest

    def _learn(self, number: int | None, now_s: float) -> None:
        """The rate of who is alone and has come to this number."""
        self._room, self._other = AT_ONCE, None
        if number is None:
            self._since = None
        elif self._since is None or number < self._since[1]:
            self._since, self._rate_hz = (now_s, number), 0.0
        elif (elapsed_s := now_s - self._since[0]) >= RATE_OVER_S:
            self._rate_hz = max(self._rate_hz, (number - self._since[1]) / elapsed_s)
            self._since = now_s, number

    def _of_the_first(self, found: list[Numbered], now_s: float) -> list[Numbered]:
        """Those of `found` that go on from its last one."""
        if (last := self._number) is None:
            return []
        kept: list[Numbered] = []
        fastest_hz = FASTER * self._rate_hz
        self._room += fastest_hz * (now_s - self._looked_s)
        self._room = min(self._room, AT_ONCE + fastest_hz * min(now_s - self._heard_s, LOST_S))
        if now_s - self._heard_s > UNSURE_S and now_s - self._met_s < UNSURE_S:
            self._other = None
        for taken, number in found:
            if number is None:
                continue
            goes_on = self._other is not None and self._other <= number <= self._other + 1
            if number <= last or goes_on:
                self._met_s = now_s if number == self._other else self._met_s
                self._other = number
            elif number <= last + self._room:
                kept.append((taken, number))
                self._room -= number - last
                last = number
        return kept
