"""Which of the frames on rt/lowstate are news of one G1: not damaged, overtaken or said again, nor another robot's."""

from typing import Any

from hardware.drivers.unitree_g1_packets import read_low_state

LOST_S = 0.1  # without a state
BESIDE_S = 1.0  # for so long another robot that was heard counts as there
OVERTAKEN = 1000  # ticks; a state that is older than the newest by more is one of a robot that has started again
TICKS = 1 << 32


class States:
    """The states of one robot: the first that speaks, until it is silent for `LOST_S`."""

    def __init__(self) -> None:
        self.newest: Any = None  # record of `LOW_STATE`
        self.measured_s = 0.0  # when that came (monotonic, s)
        self.starts = 0  # how often it was seen to start again
        self._data = b""
        self._writer, self._heard_s = 0, 0.0  # of this robot, and when it last sent anything
        self._beside, self._beside_s = 0, 0.0  # the writer of another one, and when that last sent anything
        self._wrong, self._wrong_s = "", 0.0  # what was wrong with a frame, and when

    def take(self, writer: int, data: bytes, now_s: float) -> None:
        """A frame of the DDS writer `writer`, in the order in which they came, at `now_s` (monotonic)."""
        if writer != self._writer and self._writer and now_s - self._heard_s < LOST_S:
            self._beside, self._beside_s = writer, now_s
            return
        is_new, self._writer, self._heard_s = writer != self._writer, writer, now_s
        if data == self._data:
            return self._refuse("says the same again and again", now_s)
        if (found := read_low_state(data)) is None:
            return self._refuse("has a wrong checksum, or is not finite", now_s)
        # Its unit is not published: only whether it goes on or back is made use of.
        behind = 0 if self.newest is None else (int(self.newest["tick"]) - int(found["tick"])) % TICKS
        if 0 < behind < OVERTAKEN and not is_new:
            return self._refuse("is older than one that came before", now_s)
        self.starts += 0 < behind < TICKS // 2
        self.newest, self.measured_s, self._data = found, now_s, data

    def other(self, now_s: float) -> int:
        """The writer of another robot that speaks beside this one; 0 for none."""
        return self._beside if now_s - self._beside_s < BESIDE_S and self._beside_s else 0

    def silence(self, now_s: float) -> str:
        """Why there is no news of the robot, in words; empty while there is."""
        if now_s - self.measured_s <= LOST_S:
            return ""
        is_wrong = now_s - self._wrong_s <= LOST_S
        return f"all that comes on rt/lowstate {self._wrong}" if is_wrong else "nothing on rt/lowstate"

    def _refuse(self, wrong: str, now_s: float) -> None:
        self._wrong, self._wrong_s = wrong, now_s
