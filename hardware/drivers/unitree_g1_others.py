"""Who else is in a G1's network: another robot, whose states mix with its own, or another program that commands it."""

import math
from typing import Any

from hardware.drivers.unitree_g1_states import States

LOOK_S = 0.5  # for other drivers, between two looks
BESIDE_S = 0.5  # after the last command of another program it counts as there
ONE_ROBOT = "one robot in a network: part them, by another interface or domain"


class Others:
    """Found by what they send, not by their writers: one that sends nothing may be the robot's own."""

    def __init__(self, link: Any, states: States):
        """`link` as of `unitree_g1_dds`, and the states that come by it."""
        self._link, self._states = link, states
        self._commander, self._commander_s = "", -math.inf  # who has sent commands, and when last (monotonic, s)
        self._drivers: list[str] = []
        self._looked_s = -math.inf

    def listen(self, now_s: float) -> None:
        """To be called at least as often as commands are to be heard."""
        for writer in self._link.commanders()[:1]:
            if not self._commands(now_s):
                self._commander = self._link.about_commander(writer)
            self._commander_s = now_s
        if now_s - self._looked_s > LOOK_S:
            self._looked_s, self._drivers = now_s, self._link.drivers()

    def take_part(self, now_s: float) -> str:
        """Who commands the robot too, or is commanded with it, in words; empty for none."""
        if writer := self._states.other(now_s):
            return f"{self._link.about_robot(writer)}; {ONE_ROBOT}"
        return self._commands(now_s)

    def may_take_part(self, now_s: float) -> str:
        """The same, and a driver that sends nothing yet: before this one commands anything."""
        return self.take_part(now_s) or (self._drivers[0] if self._drivers else "")

    def refusal(self, now_s: float) -> str:
        """Why a driver must not join, and what to do. A guard will end: until then nothing is sent."""
        self._looked_s = -math.inf
        self.listen(now_s)
        if self._drivers:
            return f"{self._drivers[0]}; end that one: one driver for one robot"
        found = self.take_part(now_s)
        if found and found == self._commands(now_s):
            way_out = "; release the motion service (L2+R2 on the remote), or end that program"
            return "" if found.startswith("process") else found + way_out
        return found

    def _commands(self, now_s: float) -> str:
        return self._commander if now_s - self._commander_s < BESIDE_S else ""
