"""How far the clocks of other computers differ from this one's: messages there and back, as in NTP.

Each process says on `/clocks` when it sends, and of every other computer when that sent its last message and when that
arrived here. From these four times follow the difference of the two clocks, and the way, by half of which it may be
wrong. A process speaks when another one comes, and goes on where one of another computer answers: on a single computer
it is silent.
"""

import json
import socket
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from ros_nodes.lifecycle.clock import AHEAD_NS, RobotClock

TOPIC = "/clocks"
PERIOD_S = 2.0
GREETINGS = 3  # messages after the number of processes has changed
KEPT = 8  # exchanges, of which the fastest counts
MOST, LONGEST = 100, 10_000  # computers, characters of a message: more is no fleet's
LATEST_NS = 2**62
FORGET_NS = 15_000_000_000  # a computer that is silent for so long
BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


class Exchange(NamedTuple):
    """A message there and back."""

    offset_ns: float  # of the other clock over this one
    way_ns: int  # of both messages together


class _Said(NamedTuple):
    """A message, as far as it concerns this computer; ns."""

    machine: str
    host: str
    sent_ns: int
    asked_ns: int  # when this computer sent its last message that arrived there, and when that was; 0 for none
    there_ns: int
    robots: frozenset[str]  # that it says it carries nodes of


class _Computer:
    def __init__(self, name: str):
        self.name = name
        self.sent_ns = self.arrived_ns = 0  # its last message: by its clock, by this one's
        self.exchanges: deque[Exchange] = deque(maxlen=KEPT)
        self.robots: frozenset[str] = frozenset()


class PeerClocks:
    """The clocks of other computers, for all nodes of a process; messages are served by its executor."""

    def __init__(self, node: Node, clock: RobotClock, machine: str = ""):
        """`machine`: by default what the kernel calls this boot of this computer."""
        self._node, self._clock = node, clock
        self._machine = machine or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._computers: dict[str, _Computer] = {}
        self._robots: set[str] = set()  # whose nodes this process carries
        self._processes = self._greetings = 0
        self._publisher = node.create_publisher(String, TOPIC, BEST_EFFORT)
        node.create_subscription(String, TOPIC, self._hear, BEST_EFFORT)
        node.create_timer(PERIOD_S, self._beat, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def carries(self, robot: str) -> None:
        """This process has a node of `robot`: from now on it says so."""
        self._robots.add(robot)

    def offsets(self, robots: Collection[str] | None = None) -> dict[str, Exchange]:
        """The best exchange with each other computer that is not silent, by host name.

        With `robots` only with those that say that they carry nodes of one of them.
        """
        now_ns = self._clock.now_ns()
        return {
            computer.name: min(computer.exchanges, key=lambda exchange: exchange.way_ns)
            for computer in list(self._computers.values())
            if computer.exchanges and now_ns - computer.arrived_ns < FORGET_NS
            if robots is None or not computer.robots.isdisjoint(robots)
        }

    def differing(self, robots: Collection[str] | None = None) -> list[str]:
        """Clocks that certainly differ by more than robots' computers may, in words; `robots` as in `offsets`."""
        return [
            f"clock of {name} differs by {exchange.offset_ns * 1e-6:+.1f} ms"
            for name, exchange in self.offsets(robots).items()
            if abs(exchange.offset_ns) - exchange.way_ns / 2 > AHEAD_NS
        ]

    def diagnostics(self) -> dict[str, str]:
        """Keys and values for `/diagnostics`."""
        return {f"clock of {n} [ms]": f"{e.offset_ns * 1e-6:+.2f}" for n, e in self.offsets().items()}

    def _beat(self) -> None:
        if self._clock.is_simulated:
            return
        processes = self._node.count_publishers(TOPIC)
        if processes > 1 and processes != self._processes:
            self._greetings = GREETINGS
        self._processes = processes
        now_ns = self._clock.now_ns()
        others = {key: c for key, c in self._computers.items() if now_ns - c.arrived_ns < FORGET_NS}
        self._computers = others
        if not others and not self._greetings:
            return
        self._greetings = max(0, self._greetings - 1)
        heard = {key: [computer.sent_ns, computer.arrived_ns] for key, computer in others.items()}
        says = {"machine": self._machine, "host": socket.gethostname(), "robots": [*self._robots], "heard": heard}
        self._publisher.publish(String(data=json.dumps(says | {"sent": self._clock.now_ns()})))

    def _hear(self, message: String, info: dict[str, int]) -> None:
        arrived_ns = self._clock.arrived_ns(info["received_timestamp"])
        said = self._read(message.data)
        if said is None or said.machine == self._machine or self._clock.is_simulated:
            return
        key, name, sent_ns, asked_ns, there_ns, robots = said
        if key not in self._computers:
            if len(self._computers) >= MOST:
                return
            self._greetings = max(self._greetings, 1)
        computer = self._computers.setdefault(key, _Computer(name))
        computer.sent_ns, computer.arrived_ns = sent_ns, arrived_ns
        computer.robots |= robots  # each of its processes names its own
        if asked_ns:
            offset_ns = ((there_ns - asked_ns) + (sent_ns - arrived_ns)) / 2
            computer.exchanges.append(Exchange(offset_ns, (arrived_ns - asked_ns) - (sent_ns - there_ns)))

    def _read(self, data: str) -> "_Said | None":
        """None for what is of another version, or a stranger's."""
        if len(data) > LONGEST:
            return None
        try:
            says = json.loads(data)
            heard = says["heard"].get(self._machine)
            asked_ns, there_ns = map(int, heard) if heard else (0, 0)
            times = int(says["sent"]), asked_ns, there_ns
            robots = frozenset(name for name in says.get("robots", ()) if isinstance(name, str))
            said = _Said(str(says["machine"]), str(says["host"])[:64], *times, robots=robots)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return None
        return said if all(0 <= time_ns < LATEST_NS for time_ns in times) else None


_CLOCKS: WeakKeyDictionary[Node, PeerClocks] = WeakKeyDictionary()


def peer_clocks(hub: Node, clock: RobotClock, robot: str) -> PeerClocks:
    """Those of the process whose shared node is `hub`, for a node of `robot`; for the thread of the executor."""
    if hub not in _CLOCKS:
        _CLOCKS[hub] = PeerClocks(hub, clock)
    _CLOCKS[hub].carries(robot)
    return _CLOCKS[hub]
