"""Who was late, once it is over: a robot that was without commands, measurements or requests for too long."""

COMMANDS, MEASUREMENTS, REQUESTS = "command", "measurement", "request"
WHO = {  # a shield does not know which
    MEASUREMENTS: "the driver or the simulated robots were late, or had ended",
    REQUESTS: "the policy was late, or had ended",
}


SAID_AGAIN_S = 1.0  # on a machine that is too slow one delay follows the other
LONGER = 1.2  # times as long is said all the same


class Delays:
    """Watches one robot, as its shield sees it; times and ages in s."""

    def __init__(self, limit_s: float):
        """`limit_s`: what is longer counts."""
        self._limit_s = limit_s
        self.forget()

    def forget(self) -> None:
        """Begin again: nothing has been awaited."""
        self._last_s: float | None = None
        self._longest_s = dict.fromkeys(WHO, 0.0)
        self._own_until_s = 0.0
        self._stale_s = float("-inf")  # when there was last no fresh measurement
        self._said: dict[str, tuple[float, float, int]] = {}  # of each kind when, how long, and how many since

    def update(self, now_s: float, state_age_s: float, request_age_s: float | None) -> list[str]:
        """The delays that have ended by this step of the shield, in words; None for requests that are not awaited.

        Those that follow each other within `SAID_AGAIN_S` and are not `LONGER` are counted, and said with the next one.
        """
        ended = self._ended(now_s, state_age_s, request_age_s)
        return [said for what, long_s, who in ended if (said := self._say(now_s, what, long_s, who))]

    def _say(self, now_s: float, what: str, long_s: float, who: str) -> str:
        said_s, said_long_s, more = self._said.get(what, (float("-inf"), 0.0, 0))
        if now_s - said_s < SAID_AGAIN_S and long_s < LONGER * said_long_s:
            self._said[what] = said_s, said_long_s, more + 1
            return ""
        self._said[what] = now_s, long_s, 0
        return f"no {what} for {long_s * 1e3:.0f} ms: {who}" + f"; {more} more since the last one" * bool(more)

    def _ended(self, now_s: float, state_age_s: float, request_age_s: float | None) -> list[tuple[str, float, str]]:
        """What was missing, for how many seconds, and whose doing that was."""
        found = []
        if self._last_s is not None and (stood_s := now_s - self._last_s) > self._limit_s:
            found.append((COMMANDS, stood_s, "the shield's process stood still"))
            self._own_until_s = now_s + self._limit_s  # until it has heard what was sent meanwhile
        self._last_s = now_s
        if now_s < self._own_until_s:
            return found
        if state_age_s > 0.5 * self._limit_s:
            self._stale_s = now_s
        # A request is as old as its measurement, and answers a late one some time after that has come.
        own_s = 0.0 if request_age_s is None else min(request_age_s - max(state_age_s, 0.0), now_s - self._stale_s)
        for what, age_s in ((MEASUREMENTS, state_age_s), (REQUESTS, own_s)):
            if age_s > self._limit_s:
                self._longest_s[what] = max(self._longest_s[what], age_s)
            elif (longest_s := self._longest_s[what]) > 0.0:
                found.append((what, longest_s, WHO[what]))
                self._longest_s[what] = 0.0
        return found
