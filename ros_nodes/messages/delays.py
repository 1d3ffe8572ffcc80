"""Who was late, once it is over: a robot that was without commands, measurements or requests for too long."""

MEASUREMENTS, REQUESTS = "measurement", "request"
WHO = {  # a shield does not know which
    MEASUREMENTS: "the driver or the simulated robots were late, or had ended",
    REQUESTS: "the policy was late, or had ended",
}


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

    def update(self, now_s: float, state_age_s: float, request_age_s: float | None) -> list[str]:
        """The delays that have ended by this step of the shield, in words; None for requests that are not awaited."""
        found = []
        if self._last_s is not None and (stood_s := now_s - self._last_s) > self._limit_s:
            found.append(f"no command for {stood_s * 1e3:.0f} ms: the shield's process stood still")
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
                found.append(f"no {what} for {longest_s * 1e3:.0f} ms: {WHO[what]}")
                self._longest_s[what] = 0.0
        return found
