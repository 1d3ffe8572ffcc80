"""A bare echo: a message to another process and back, once a control period, and how long that takes.

Two processes of this node, `ping` and `pong`, do nothing else: what they measure is the delay of the machine.
"""

import threading

from nav_msgs.msg import Odometry

from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import ThreadNode
from ros_nodes.lifecycle.loop import Deadlines
from ros_nodes.lifecycle.parameters import declare, declare_series_dir
from ros_nodes.lifecycle.polling import Waiter
from ros_nodes.messages import qos

SERIES = ("time_s", "cycle_ms")
SERIES_CAPACITY = 60_000
PING, PONG = "/ping", "/pong"
PATIENCE_S = 0.5


class EchoNode(ThreadNode):
    """Sends back what it receives; with `rate_hz` above 0 it is the side that sends, and records each cycle."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__("echo", namespace)

    def read_parameters(self) -> None:
        self._rate_hz = declare(self, "rate_hz", 0.0, "Messages sent per second; 0 to send back.", low=0.0, high=1000.0)
        self._series_dir = declare_series_dir(self)

    def configure(self) -> None:
        there, back = (PONG, PING) if self._rate_hz else (PING, PONG)
        self._inbox = self.subscribe(Odometry, there, qos.SENSOR)
        self._publisher = self.advertise(Odometry, back, qos.SENSOR)
        self._series = self.series(self._series_dir, SERIES, SERIES_CAPACITY)

    def run(self, stopped: threading.Event) -> None:
        waiter, inbox, message = Waiter(self.context), [self._inbox], Odometry()
        if not self._rate_hz:
            while not stopped.is_set():
                if waiter.wait(inbox, PATIENCE_S) and (taken := self._inbox.take()):
                    self._publisher.publish(taken[0])
            return
        deadlines = Deadlines(1 / self._rate_hz, self.clock)
        while (tick := deadlines.wait(stopped)) is not None:
            self._publisher.publish(message)
            if waiter.wait(inbox, PATIENCE_S) and self._inbox.take() and self._series:
                now_ns = self.clock.now_ns()
                self._series.add(now_ns * 1e-9, (now_ns - tick.deadline_ns) * 1e-6)


def main() -> int:
    """Run the node."""
    run_node(EchoNode)


if __name__ == "__main__":
    raise SystemExit(main())
