"""What emulated devices share: orders as lines of JSON on stdin, and a client behind a poor UDP link in real time."""

import bisect
import json
import random
import select
import socket
import sys
import time
from collections import deque
from typing import Any

OVERTAKEN_S = 0.035  # by which a packet that is overtaken is late


class Device:
    """Obeys orders, such as {"loss": 0.3}: each sets attributes of its own, or of its firmware."""

    def __init__(self, firmware: Any):
        self.firmware = firmware

    def say(self, orders: dict[str, Any]) -> dict[str, Any]:
        """What it answers to `orders`, once they are obeyed."""
        raise NotImplementedError

    def set(self, name: str, value: Any) -> None:
        setattr(self if hasattr(self, name) else self.firmware, name, value)

    def obey(self) -> bool:
        """The next order, if there is one; False at the end of stdin."""
        if not select.select([sys.stdin], [], [], 0)[0]:
            return True
        if not (line := sys.stdin.readline()):
            return False
        orders = json.loads(line)
        for name, value in orders.items():
            self.set(name, value)
        print(json.dumps(self.say(orders)), flush=True)
        return True


class UdpDevice(Device):
    """Serves one client at a time, in real time: the last that spoke, or one at a port of its own."""

    def __init__(self, firmware: Any, step_s: float, port: int, client: int = 0):
        super().__init__(firmware)
        self._step_s = step_s
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._client: tuple[str, int] | None = ("127.0.0.1", client) if client else None
        self._arriving: deque[tuple[float, bytes]] = deque()
        self._leaving: deque[tuple[float, bytes]] = deque()
        self._clear()

    def _clear(self) -> None:
        """A good link over which nothing has come yet; `without`: variables or parameters that its firmware lacks."""
        self.without: list[str] = []
        self.loss = self.delay_s = self.jitter_s = self.overtaken = 0.0
        self.heard: dict[str, Any] = {"setpoints": 0, "longest_gap_s": 0.0, "largest_thrust": 0.0}
        self.heard["longest_pause_s"] = 0.0  # of this process, which a busy machine did not let run

    def step(self) -> None:
        """One period of the firmware, and what it sends of itself."""
        raise NotImplementedError

    def take(self, packet: bytes) -> None:
        """What has come from the client."""
        raise NotImplementedError

    def set(self, name: str, value: Any) -> None:
        """{"reset": true}: as it began, but for its clock, its client and what this has subscribed to."""
        if name == "reset":
            self._clear()
            self.firmware = self.firmware.reset()
        else:
            super().set(name, value)

    def run(self) -> None:
        """Until stdin ends."""
        print(self._socket.getsockname()[1], flush=True)
        next_s = time.monotonic()
        while self.obey():
            self._receive()
            self.heard["longest_pause_s"] = max(self.heard["longest_pause_s"], time.monotonic() - next_s)
            while next_s <= time.monotonic():
                self.step()
                next_s += self._step_s
            self._deliver()
            time.sleep(max(0.0, next_s - time.monotonic()))

    def write(self, packet: bytes) -> None:
        """Sent after `jitter_s` more than the delay at most, in its order, or lost.

        A share of `overtaken` is sent `OVERTAKEN_S` later still, and later ones overtake them.
        """
        if random.random() < self.loss:
            return
        due_s = time.monotonic() + self.delay_s + random.random() * self.jitter_s
        if random.random() < self.overtaken:
            due_s += OVERTAKEN_S
        elif self._leaving and not self.overtaken:
            due_s = max(due_s, self._leaving[-1][0])
        bisect.insort(self._leaving, (due_s, bytes(packet)), key=lambda each: each[0])

    def _deliver(self) -> None:
        while self._leaving and self._leaving[0][0] <= time.monotonic():
            packet = self._leaving.popleft()[1]
            if self._client is not None:
                self._socket.sendto(packet, self._client)

    def _receive(self) -> None:
        now_s = time.monotonic()
        while True:
            try:
                packet, self._client = self._socket.recvfrom(2048)
            except (BlockingIOError, ConnectionError):
                break
            if random.random() >= self.loss:
                self._arriving.append((now_s + self.delay_s, packet))
        while self._arriving and self._arriving[0][0] <= now_s:
            self.take(self._arriving.popleft()[1])
