"""A topic that passes through the drill: what is lost, delayed, doubled or changed on the way is decided here."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message

from ros_nodes.lifecycle.polling import Mailbox, Waiter

NICENESS = -10  # of its thread, where granted: what waits here is to wait on purpose
LOOK_S = 0.02
QUEUE = QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT)

# (serialised message, random numbers) -> what is sent instead, each so many seconds later
Way = Callable[[bytes, Random], list[tuple[float, bytes]]]


class Relay:
    """Passes the messages of `source` on to `sink`, by `way`, which may be replaced at any time; has a thread."""

    def __init__(self, node: Node, message_type: type, source: str, sink: str, profile: QoSProfile, way: Way):
        """`profile`: quality of service of `sink`."""
        self.way = way
        self._publisher = node.create_publisher(message_type, sink, profile)
        self._mailbox = Mailbox(node, message_type, source, QUEUE, raw=True)
        self._waiter = Waiter(node.context)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Pass nothing on any more."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        random, numbers = Random(0), count()
        waiting: list[tuple[float, int, bytes]] = []  # a heap: when due, number, message
        while not self._stopped.is_set():
            due_s = waiting[0][0] - time.monotonic() if waiting else LOOK_S
            self._waiter.wait([self._mailbox], min(max(due_s, 0.0), LOOK_S))
            for taken, _ in self._mailbox.drain():
                for delay_s, message in self.way(taken, random):
                    heappush(waiting, (time.monotonic() + delay_s, next(numbers), message))
            while waiting and waiting[0][0] <= time.monotonic():
                self._publisher.publish(heappop(waiting)[2])


def unchanged(message: bytes, random: Random) -> list[tuple[float, bytes]]:
    """As it came."""
    return [(0.0, message)]


def silence(message: bytes, random: Random) -> list[tuple[float, bytes]]:
    """Nothing arrives."""
    return []


def loss(share: float) -> Way:
    """So many of all messages are lost, each by chance."""
    return lambda message, random: [] if random.random() < share else [(0.0, message)]


def delay(delay_s: float) -> Way:
    """All arrive so much later."""
    return lambda message, random: [(delay_s, message)]


def duplicates(message: bytes, random: Random) -> list[tuple[float, bytes]]:
    """All arrive again, 5 ms later."""
    return [(0.0, message), (0.005, message)]


def reordering(share: float, delay_s: float) -> Way:
    """So many of all messages are overtaken by those that are sent up to `delay_s` later."""
    return lambda message, random: [(delay_s if random.random() < share else 0.0, message)]


def changed(message_type: type, change: Callable[[Any], None]) -> Way:
    """All are changed."""

    def way(serialised: bytes, random: Random) -> list[tuple[float, bytes]]:
        message = deserialize_message(serialised, message_type)
        change(message)
        return [(0.0, serialize_message(message))]

    return way
