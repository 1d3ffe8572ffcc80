"""The round trip of a Crazyflie's link, by its echo. cflib's own goes by the wall clock, which may be set meanwhile."""

import struct
import time
from collections import deque
from statistics import median
from typing import Any

OURS = 1  # cflib's own have 0 here
LAYOUT = struct.Struct("<Bd")
PERIOD_S, KEPT = 0.2, 10


class Ping:
    """Of one link: packets that wait for a radio which several robots share count as what they are, late."""

    def __init__(self, cf: Any):
        from cflib.crtp.crtpstack import CRTPPort

        cf.link_statistics.stop()  # each ping of its own takes a packet in both directions
        self._cf, self._port = cf, CRTPPort.LINKCTRL
        self._due_s = 0.0
        self._trips: deque[float] = deque(maxlen=KEPT)
        self.quickest_s = self.trip_s = 0.0  # least and median of the last, 0 before the first
        cf.add_header_callback(self._hear, self._port, 0)

    def send_if_due(self) -> None:
        """Ask once more, `PERIOD_S` after the last time. Waits as long as the radio is busy."""
        from cflib.crtp.crtpstack import CRTPPacket

        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + PERIOD_S
        packet = CRTPPacket()
        packet.set_header(self._port, 0)
        packet.data = LAYOUT.pack(OURS, time.monotonic())
        self._cf.send_packet(packet)

    def _hear(self, packet: Any) -> None:
        whose, sent_s = LAYOUT.unpack(packet.data)
        if whose == OURS:
            self._trips.append(time.monotonic() - sent_s)
            self.quickest_s, self.trip_s = min(self._trips), median(self._trips)
