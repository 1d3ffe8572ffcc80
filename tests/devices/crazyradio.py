"""Crazyflies behind one Crazyradio: python -m devices.crazyradio --starts "[[0, 0, 0.02], [1, 0, 0.02]]".

Their addresses are E7E7E7E701 and so on. What the dongle sends over USB comes as a datagram each: its number, five
bytes of address and a radio packet; the answer is that number and what the dongle gives its computer.
Orders come as lines of JSON on stdin. Facts: crazyradio-firmware's docs/functional-areas/usb_radio_protocol.md,
crazyflie2-nrf-firmware's src/esb.c (commit 0807843), crazyflie-firmware's crtp.c.
"""

import argparse
import json
import random
import select
import socket
import time
from collections import deque
from itertools import combinations
from typing import Any

import numpy as np

from devices.crazyflie import CrazyflieDevice
from devices.crazyflie_firmware import DT_S, Firmware
from devices.device import Device

TX_QUEUE = 120  # CRTP_TX_QUEUE_SIZE: packets that wait for the radio; what comes on top is lost
SAFELINK, NULL = bytes([0xFF, 0x05, 0x01]), 0xF3
ACKED, NOT_ACKED = b"\x01", b"\0"


class OnAir(CrazyflieDevice):
    """A Crazyflie whose packets leave with the acknowledgements of those that it gets."""

    def __init__(self, firmware: Firmware):
        super().__init__(0, firmware)
        self._waiting: deque[bytes] = deque()
        self._up = self._down = 1
        self._sent = b""
        self.gaps_s: list[float] = []  # between set-points in flight
        self.packets = self.useful = self.dropped = 0

    def write(self, packet: bytes) -> None:
        if len(self._waiting) < TX_QUEUE:
            self._waiting.append(bytes(packet))
        else:
            self.dropped += 1

    def gap(self, gap_s: float) -> None:
        self.gaps_s.append(gap_s)

    def acknowledge(self, packet: bytes) -> bytes:
        """The payload that goes back with the acknowledgement of `packet`, each exactly once: safelink."""
        self.packets += 1
        if packet == SAFELINK:
            self._up = self._down = 1
            return packet
        head = packet[0]
        if head & 0x08 != self._up << 3:
            self._up = 1 - self._up
            if head & 0xF3 != NULL:
                self.take(packet)
        if head & 0x04 != self._down << 2:
            self._down = 1 - self._down
            payload = self._waiting.popleft() if self._waiting else bytes([NULL, 0x01, 40])  # with its signal strength
            self.useful += payload[0] & 0xF3 != NULL
            self._sent = bytes([payload[0] & 0xF3 | self._down << 2]) + payload[1:]
        return self._sent


class Crazyradio(Device):
    """One dongle, and what it reaches."""

    def __init__(self, starts: list[list[float]]):
        self.robots = [OnAir(Firmware(tuple(start))) for start in starts]
        super().__init__(self.robots)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.loss = 0.0
        self.nearest_m = np.inf

    def say(self, orders: dict[str, Any]) -> dict[str, Any]:
        gaps_s = [robot.gaps_s for robot in self.robots]
        said = {
            "positions": [robot.firmware.position.tolist() for robot in self.robots],
            "infos": [robot.firmware.info for robot in self.robots],
            "nearest_m": self.nearest_m,
            "now_s": self.robots[0].firmware.now_s,
            "packets": [robot.packets for robot in self.robots],
            "useful": [robot.useful for robot in self.robots],
            "waiting": [len(robot._waiting) for robot in self.robots],
            "dropped": [robot.dropped for robot in self.robots],
            "setpoints": [robot.heard["setpoints"] for robot in self.robots],
        }
        return said | ({"gaps_s": gaps_s} if "gaps" in orders else {})

    def set(self, name: str, value: Any) -> None:
        """{"gaps": true}: say all of them; {"forget": true}: begin again to measure gaps and distances.

        {"nearest": true}: distances alone.
        """
        if name == "loss":
            self.loss = value
        elif name == "nearest":
            self.nearest_m = np.inf
        elif name == "forget":
            self.nearest_m = np.inf
            for robot in self.robots:
                robot.gaps_s = []
        elif name != "gaps":
            for robot in self.robots:
                robot.set(name, value)

    def run(self) -> None:
        """Until stdin ends."""
        print(self._socket.getsockname()[1], flush=True)
        next_s = time.monotonic()
        while self.obey():
            while next_s <= time.monotonic():
                for robot in self.robots:
                    robot.step()
                next_s += DT_S
            self._measure()
            while select.select([self._socket], [], [], max(0.0, next_s - time.monotonic()))[0]:
                self._transmit(*self._socket.recvfrom(64))
                if time.monotonic() > next_s:
                    break

    def _transmit(self, packet: bytes, dongle: tuple[str, int]) -> None:
        """On the way there, or on that of the acknowledgement, it may be lost."""
        number = packet[5] - 1 if packet[1:5] == bytes([0xE7] * 4) else -1
        answer = NOT_ACKED
        if 0 <= number < len(self.robots) and random.random() >= 0.5 * self.loss:
            payload = self.robots[number].acknowledge(packet[6:])
            if random.random() >= 0.5 * self.loss:
                answer = ACKED + payload
        self._socket.sendto(packet[:1] + answer, dongle)

    def _measure(self) -> None:
        for one, other in combinations(self.robots, 2):
            if one.firmware.is_flying and other.firmware.is_flying:
                apart_m = np.linalg.norm(one.firmware.position - other.firmware.position)
                self.nearest_m = min(self.nearest_m, float(apart_m))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--starts", type=json.loads, default=[[0.0, 0.0, 0.02]], help="JSON: where each Crazyflie stands, x y z in m"
    )
    Crazyradio(parser.parse_args().starts).run()


if __name__ == "__main__":
    main()
