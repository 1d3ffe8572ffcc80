"""How often a topic's messages are sent, by the numbers that the middleware gives to them: none is decoded."""

import time
from collections import deque

from rclpy.node import Node

from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos

WINDOW = 9  # polls over which rates are measured
QUIET_S = 1.0  # without a message of a topic its rate is zero


class Stream:
    """When the newest message of a topic arrived, and how often one is sent."""

    def __init__(self, node: Node, message_type: type, topic: str):
        self._mailbox = Mailbox(node, message_type, topic, qos.SENSOR, raw=True)
        self._sent: deque[tuple[int, int]] = deque(maxlen=WINDOW)  # number of a message, ns when it was sent
        self._arrived_ns, self._since_ns = 0, time.time_ns()

    def poll(self) -> None:
        """Take what has arrived."""
        taken = self._mailbox.subscription.handle.take_message(self._mailbox.message_type, True)
        if taken is None:
            return
        self._arrived_ns = taken[1]["received_timestamp"]
        number, sent_ns = taken[1]["publication_sequence_number"], taken[1]["source_timestamp"]
        if number is None:  # a middleware that does not count
            return
        if self._sent and number <= self._sent[-1][0]:  # another publisher, which counts for itself
            self._sent.clear()
        self._sent.append((number, sent_ns))

    def rate_hz(self, now_ns: int) -> float | None:
        """Over the last polls; None where it is not known."""
        if (now_ns - (self._arrived_ns or self._since_ns)) * 1e-9 > QUIET_S:
            return 0.0
        if len(self._sent) < 2 or self._sent[-1][1] <= self._sent[0][1]:
            return None
        (first, begin_ns), (last, end_ns) = self._sent[0], self._sent[-1]
        return (last - first) / ((end_ns - begin_ns) * 1e-9)
