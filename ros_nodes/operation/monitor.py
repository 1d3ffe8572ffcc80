"""What the robots of a ROS domain say of themselves, heard without disturbing them.

Few subscriptions, polled; topics of sensors and commands are heard unreliable, one message deep, and never decoded:
how often they are sent is read off the numbers that the middleware gives to messages.
"""

import os
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import BatteryState, JointState

from ros_nodes.lifecycle.claims import taken_names
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.lifecycle.machine_load import usable_cores
from ros_nodes.lifecycle.polling import Mailbox, make_mailbox
from ros_nodes.messages import battery, course, device, qos
from ros_nodes.messages.diagnostics import REFUSED, ShieldMode, read_status, value_of
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.messages.peers_say import SAID_S
from ros_nodes.operation.stream import Stream

SILENT, SILENT_S = "SILENT", 5.0  # a shield says its status twice a second; one that was lost comes again within 3 s
DEVICE_SILENT_S = 3.0  # a driver says once a second what its device says
LOOK_S = 1.0  # between two looks at who is there
KEPT = 20  # changes of each robot
DISCOVERED_S, LISTEN_S = 1.0, 0.05  # who is in the domain is known after so long
SPEAKS_S = 6.0  # within which a node that is alive is heard on /diagnostics: a lost announcement comes again after 3 s
SLOWEST = 8.0  # times as long on a machine where more threads want to run than it has cores
NEVER_S = 1e6  # an age above means that there has been none
STREAMS = {"odom": Odometry, "requested": JointState, "command": JointState}
SAID_ONCE = {  # latched topics that only some robots have
    battery.TOPIC: BatteryState,
    POLICY_STATUS: DiagnosticArray,
    device.TOPIC: DiagnosticArray,
    course.TOPIC: DiagnosticArray,
}
STATUS_TYPE = "diagnostic_msgs/msg/DiagnosticArray"


@dataclass(frozen=True, slots=True)
class Change:
    """A robot went from one state to another, each a `ShieldMode.label` or `SILENT`; `before` is "" at first.

    With the same state twice the reason is a delay.
    """

    time_s: float  # of the robot
    robot: str
    before: str
    after: str
    reason: str


class RobotMonitor:
    """One robot. Nothing but its status is subscribed to before a shield has spoken there."""

    def __init__(self, node: Node, name: str):
        self.name, self._node = name, node
        self._status = Mailbox(node, DiagnosticArray, f"/{name}/status", qos.HISTORY)
        self._streams: dict[str, Stream] = {}
        self._boxes: dict[str, Mailbox] = {}  # of `SAID_ONCE`, of those with a publisher
        self._said: dict[str, tuple[Any, int]] = {}  # the last message of each, and when it came, ns
        self._heard_ns = 0
        self.shield = ShieldMode("?")
        self.is_foreign = False  # its `status` is of something else
        self._label = ""
        self.changes: deque[Change] = deque(maxlen=KEPT)
        self.publishers: dict[str, int] = {}

    @property
    def heard(self) -> bool:
        """Whether a shield has ever spoken."""
        return self._heard_ns > 0

    def look(self) -> None:
        """Count publishers, and listen to what is new."""
        if not self.heard:
            return
        if not self._streams:
            self._streams = {topic: Stream(self._node, kind, self._topic(topic)) for topic, kind in STREAMS.items()}
        self.publishers = {topic: self._node.count_publishers(self._topic(topic)) for topic in STREAMS}
        for topic, kind in SAID_ONCE.items():
            if topic not in self._boxes and self._node.count_publishers(self._topic(topic)):
                self._boxes[topic] = make_mailbox(self._node, kind, self._topic(topic), qos.LATCHED)

    def poll(self, now_ns: int) -> list[Change]:
        """Take what has arrived; changes since the last call. `now_ns`: the system's clock."""
        found = []
        while (taken := self._status.take()) is not None:
            said = read_status(taken[0])
            self.is_foreign = said.state == "?"
            if not self.is_foreign:
                late = said.last_delay if self._label and said.delays > self.shield.delays else ""
                self.shield, self._heard_ns = said, taken[1]
                found += self._change(said.time_ns, said.label, said.reason, late)
        if self.heard and (now_ns - self._heard_ns) * 1e-9 > SILENT_S:
            found += self._change(now_ns, SILENT, self._silence(SILENT_S))
        if self.heard and not self._streams:
            self.look()
        for stream in self._streams.values():
            stream.poll()
        self._said |= {topic: taken for topic, box in self._boxes.items() if (taken := box.take()) is not None}
        return found

    def snapshot(self, now_ns: int) -> dict[str, Any]:
        """All that is known, for JSON: None where something is not. Seconds, Hz, V; charge from 0 to 1."""
        silent, shield = self._label == SILENT, self.shield
        status_age_s = max(0.0, (now_ns - self._heard_ns) * 1e-9)
        last = {topic: message for topic, (message, _) in self._said.items()}
        charge: BatteryState | None = last.get(battery.TOPIC)
        return {
            "robot": self.name,
            "state": SILENT if silent else shield.state,
            "mode": shield.mode,
            "reason": self._silence(status_age_s) if silent else shield.reason,
            "device": self._of_device(now_ns),
            "latched": shield.latched,
            "course": course.read(last[course.TOPIC]) if course.TOPIC in last else None,
            "refused": value_of(REFUSED, last.get(POLICY_STATUS)),
            "margin": _finite(shield.margin),
            "keeps_distance": shield.shares,
            "peers_sharing": list(shield.sharing),
            "interventions": shield.interventions,
            "request_age_s": _finite(shield.request_age_s) if shield.request_age_s < NEVER_S else None,
            "state_age_s": _finite(shield.state_age_s + (status_age_s if status_age_s > SAID_S else 0.0)),
            "state_bound_s": _finite(shield.state_bound_s),
            "peers_age_s": {name: None if age_s is None else _finite(age_s) for name, age_s in shield.peers.items()},
            "status_age_s": status_age_s,
            "rates_hz": {name: self._rate_hz(name, now_ns) for name in self._streams},
            "publishers": self.publishers,
            "battery": charge and {"charge": _finite(charge.percentage), "voltage": _finite(charge.voltage)},
            "changes": [
                {"time_s": c.time_s, "from": c.before, "to": c.after, "reason": c.reason} for c in self.changes
            ],
        }

    @property
    def stands_still(self) -> bool:
        """Of one that says nothing: whether its process is on this computer all the same."""
        return bool(taken_names(self._node.context.get_domain_id(), [f"/{self.name}/shield"]))

    def _silence(self, seconds: float) -> str:
        stands = ": its process stands still" if self.stands_still else ""
        return f"silent for {seconds:.0f} s{stands}; it was {self.shield.label}"

    def _of_device(self, now_ns: int) -> str:
        """What its own controller says is wrong now, which its shield's reason may have from longer ago."""
        if device.TOPIC not in self._said:
            return ""
        message, heard_ns = self._said[device.TOPIC]
        silent_s = (now_ns - heard_ns) * 1e-9
        silent = silent_s > DEVICE_SILENT_S
        return f"its driver is silent for {silent_s:.0f} s" if silent else value_of(device.FAULT, message)

    def _rate_hz(self, topic: str, now_ns: int) -> float | None:
        """None where it is not known: each of several publishers numbers its own messages."""
        count = self.publishers[topic]
        return 0.0 if count == 0 else self._streams[topic].rate_hz(now_ns) if count == 1 else None

    def _change(self, time_ns: int, label: str, reason: str, late: str = "") -> list[Change]:
        said = [(self._label, late)] * bool(late) + [(label, reason)] * (label != self._label)
        found = [Change(time_ns * 1e-9, self.name, self._label, now, why) for now, why in said]
        self._label = label
        self.changes += found
        return found

    def _topic(self, name: str) -> str:
        return f"/{self.name}/{name}"


class Monitor:
    """All robots of a domain, found as they come, or those that are named."""

    def __init__(self, node: Node, names: Sequence[str] = ()):
        self._node, self._named = node, bool(names)
        self._robots = {name: RobotMonitor(node, name) for name in names}
        self._look_s = 0.0

    @property
    def heard(self) -> list[RobotMonitor]:
        """Robots whose shield has spoken, by name."""
        return sorted((robot for robot in self._robots.values() if robot.heard), key=lambda robot: _natural(robot.name))

    @property
    def missing(self) -> list[str]:
        """Those whose shield has not, of those named or found, and of the peers that shields speak of."""
        return [robot.name for robot in self._missing()]

    @property
    def is_whole(self) -> bool:
        """Whether all are heard that were named, or of whom the shields of a team speak."""
        heard = self.heard
        return bool(heard) and not self.missing and (self._named or all(robot.shield.peers for robot in heard))

    @property
    def standing_still(self) -> list[str]:
        """Those of `missing` whose process is on this computer."""
        return [robot.name for robot in self._missing() if robot.stands_still]

    def poll(self) -> list[Change]:
        """Take what has arrived, and look for robots now and then; changes since the last call, by time."""
        if (now_s := time.monotonic()) > self._look_s:
            self._look_s = now_s + LOOK_S
            if not self._named:
                self._find()
            for robot in self._robots.values():
                robot.look()
        now_ns = time.time_ns()
        return sorted((c for robot in self._robots.values() for c in robot.poll(now_ns)), key=lambda c: c.time_s)

    def snapshot(self) -> dict[str, Any]:
        """Of all robots that were heard, for JSON, the ROS domain, and the time, s of the system's clock."""
        now_ns, domain_id = time.time_ns(), self._node.context.get_domain_id()
        robots = [robot.snapshot(now_ns) for robot in self.heard]
        return {"time_s": now_ns * 1e-9, "domain_id": domain_id, "robots": robots}

    def refuse_taken(self, nodes: Sequence[str]) -> None:
        """ValueError where one of `nodes`, fully qualified names, is alive already: another team's.

        Those of this computer have claimed their names. Of another computer's, which discovery finds, a node that was
        killed stays known for a while, so those count that say something on `/diagnostics`.
        """
        if claimed := taken_names(self._node.context.get_domain_id(), nodes):
            raise self._taken(claimed[0])
        slow = slowness()
        ours, alive = {name.strip("/") for name in nodes}, set[str]()
        said, begun_s = Mailbox(self._node, DiagnosticArray, "/diagnostics", QoSProfile(depth=100)), time.monotonic()
        try:
            while not alive and (waited_s := time.monotonic() - begun_s) < slow * SPEAKS_S:
                known = {f"{space}/{name}".strip("/") for name, space in self._node.get_node_names_and_namespaces()}
                if waited_s > slow * DISCOVERED_S and not ours & known:
                    return
                time.sleep(LISTEN_S)
                while (taken := said.take()) is not None:
                    alive |= ours & {status.name.removesuffix(": node") for status in taken[0].status}
        finally:
            said.close()
        if alive:
            raise self._taken(min(alive))

    def _taken(self, node: str) -> ValueError:
        domain = self._node.context.get_domain_id()
        return ValueError(
            f"another team is in ROS domain {domain}: node {node.strip('/')} is there already; "
            "end that team, choose another ROS_DOMAIN_ID, or other names and namespace in the team file"
        )

    def _missing(self) -> list[RobotMonitor]:
        silent = (robot for robot in self._robots.values() if not robot.heard and not robot.is_foreign)
        return sorted(silent, key=lambda robot: _natural(robot.name))

    def _find(self) -> None:
        found = {peer for robot in self.heard for peer in robot.shield.peers}
        for topic, types in self._node.get_topic_names_and_types():
            if (match := re.fullmatch("/([^/]+)/status", topic)) and STATUS_TYPE in types:
                found.add(match[1])
        for name in found - self._robots.keys():
            self._robots[name] = RobotMonitor(self._node, name)


@contextmanager
def monitoring(names: Sequence[str] = (), domain: int | None = None) -> Iterator[Monitor]:
    """A monitor of `domain`, see `domain_context`."""
    with domain_context(domain) as context:
        node = Node(f"monitor_{os.getpid()}", context=context, enable_rosout=False, start_parameter_services=False)
        try:
            yield Monitor(node, names)
        finally:
            node.destroy_node()


def slowness() -> float:
    """How many times as long things take as on a quiet machine."""
    return min(max(1.0, os.getloadavg()[0] / usable_cores()), SLOWEST)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _natural(name: str) -> list[tuple[int, str]]:
    """Orders cf2 before cf10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
