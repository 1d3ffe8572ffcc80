"""What the robots of a ROS domain say of themselves, heard without disturbing them.

Few subscriptions, polled; topics of sensors and commands are heard unreliable, one message deep, and never decoded:
how often they are sent is read off the numbers that the middleware gives to messages.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import QoSProfile

from ros_nodes.lifecycle.claims import taken_names
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.lifecycle.machine_load import usable_cores
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.operation.robot_monitor import Change, RobotMonitor

LOOK_S = 1.0  # between two looks at who is there
DISCOVERED_S, LISTEN_S = 1.0, 0.05  # who is in the domain is known after so long
SPEAKS_S = 6.0  # within which a node that is alive is heard on /diagnostics: a lost announcement comes again after 3 s
SLOWEST = 8.0  # times as long on a machine where more threads want to run than it has cores
STATUS_TYPE = "diagnostic_msgs/msg/DiagnosticArray"


class Monitor:
    """All robots of a domain, found as they come, or those that are named."""

    def __init__(self, node: Node, names: Sequence[str] = ()):
        self._node, self.is_named = node, bool(names)
        self.domain_id: int = node.context.get_domain_id()
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
        return bool(heard) and not self.missing and (self.is_named or all(robot.shield.peers for robot in heard))

    @property
    def in_domain(self) -> list[str]:
        """All robots of the domain that publish a status, those that were not named too."""
        return sorted({*self._speaking()}, key=_natural)

    @property
    def standing_still(self) -> list[str]:
        """Those of `missing` whose process is on this computer."""
        return [robot.name for robot in self._missing() if robot.stands_still]

    def poll(self) -> list[Change]:
        """Take what has arrived, and look for robots now and then; changes since the last call, by time."""
        if (now_s := time.monotonic()) > self._look_s:
            self._look_s = now_s + LOOK_S
            if not self.is_named:
                self._find()
            for robot in self._robots.values():
                robot.look()
        now_ns = time.time_ns()
        return sorted((c for robot in self._robots.values() for c in robot.poll(now_ns)), key=lambda c: c.time_s)

    def snapshot(self) -> dict[str, Any]:
        """Of all robots that were heard, for JSON, the ROS domain, and the time, s of the system's clock."""
        now_ns = time.time_ns()
        robots = [robot.snapshot(now_ns) for robot in self.heard]
        return {"time_s": now_ns * 1e-9, "domain_id": self.domain_id, "robots": robots}

    def refuse_taken(self, nodes: Sequence[str]) -> None:
        """ValueError where one of `nodes`, fully qualified names, is alive already: another team's.

        Those of this computer have claimed their names. Of another computer's, which discovery finds, a node that was
        killed stays known for a while, so those count that say something on `/diagnostics`.
        """
        if claimed := taken_names(self.domain_id, nodes):
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
                for taken in said.drain():
                    alive |= ours & {status.name.removesuffix(": node") for status in taken[0].status}
        finally:
            said.close()
        if alive:
            raise self._taken(min(alive))

    def _taken(self, node: str) -> ValueError:
        return ValueError(
            f"another team is in ROS domain {self.domain_id}: node {node.strip('/')} is there already; "
            "end that team, choose another ROS_DOMAIN_ID, or other names and namespace in the team file"
        )

    def _missing(self) -> list[RobotMonitor]:
        silent = (robot for robot in self._robots.values() if not robot.heard and not robot.is_foreign)
        return sorted(silent, key=lambda robot: _natural(robot.name))

    def _find(self) -> None:
        found = {peer for robot in self.heard for peer in robot.shield.peers} | {*self._speaking()}
        for name in found - self._robots.keys():
            self._robots[name] = RobotMonitor(self._node, name)

    def _speaking(self) -> Iterator[str]:
        """Robots with a status that is published: who waits for one, as another monitor does, makes no robot."""
        for topic, types in self._node.get_topic_names_and_types():
            match = re.fullmatch("/([^/]+)/status", topic)
            if match and STATUS_TYPE in types and self._node.count_publishers(topic):
                yield match[1]


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


def _natural(name: str) -> list[tuple[int, str]]:
    """Orders cf2 before cf10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
