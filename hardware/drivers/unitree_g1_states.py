"""Which of the frames on rt/lowstate are news of one G1: not damaged, overtaken or said again, nor another robot's."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardware.drivers.unitree_g1_packets import read_low_state

HOT_C = 90  # of a motor, own choice: the vendor publishes none
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
        self._lost_at = ""  # the time of day since which there is no news

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

    def lost(self, now_s: float) -> str:
        """`silence`, and since what time of day; it says the same for as long as it lasts."""
        if not (silence := self.silence(now_s)):
            self._lost_at = ""
            return ""
        since_s = time.time() - (now_s - self.measured_s)
        self._lost_at = self._lost_at or time.strftime("%H:%M:%S", time.localtime(since_s))
        return f"{silence} since {self._lost_at}"

    def _refuse(self, wrong: str, now_s: float) -> None:
        self._wrong, self._wrong_s = wrong, now_s


def motor_fault(found: Any, motors: np.ndarray, names: Sequence[str]) -> str:
    """Which of `motors`, called `names`, is in trouble by the record `found` of `LOW_STATE`; empty for none."""
    errors = found["motors"]["error"][motors]
    if errors.any():
        joint = int(errors.argmax())
        return f"motor of {names[joint]} reports error {errors[joint]:#x}"
    hottest = found["motors"]["temperature"][motors].max(axis=-1)
    if hottest.max() > HOT_C:
        joint = int(hottest.argmax())
        return f"motor of {names[joint]} has {hottest[joint]} degrees, {HOT_C} at most"
    return ""
