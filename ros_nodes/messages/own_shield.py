"""What a robot's shield says to its driver in the same process: no other program comes between the two."""

import time
from collections import deque
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from rclpy.node import Node

from ros_nodes.lifecycle.lateness import Lateness
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos

COMMAND = "command"
LIFESPAN_S = 0.1  # a driver looks more often; what is older waited while the process stood still


class OwnShield:
    """Commands, from the shield's thread to that of the driver, which reads them as of a `Mailbox`; and its state."""

    publishers = 1
    state = ""  # of the shield, by name; empty while it says nothing

    def __init__(self) -> None:
        self.lateness = Lateness()  # of both loops
        self._sent: deque[tuple[bytes, int, float]] = deque(maxlen=qos.COMMANDS_IN.depth)

    def put(self, message: bytes, from_s: float) -> None:
        """Command the device, from what was known at `from_s`, monotonic."""
        self._sent.append((message, time.time_ns(), from_s))

    def drain(self) -> Iterator[tuple[bytes, int]]:
        """What has come, oldest first, and when (ns, the system's clock)."""
        while self._sent:
            message, came_ns, from_s = self._sent.popleft()
            if time.monotonic() - from_s < LIFESPAN_S:
                yield message, came_ns


_SHIELDS: WeakKeyDictionary[Node, dict[str, OwnShield]] = WeakKeyDictionary()


def own_shield(node: ManagedNode, other: str) -> OwnShield | None:
    """That of `node`'s robot, where its node `other` is in this process and has not been given another topic.

    To be called in the thread of the executor.
    """
    name, topic = f"{node.get_namespace().rstrip('/')}/{other}", node.resolve_topic_name(COMMAND)
    for there in node.beside:
        if there.get_fully_qualified_name() == name and there.resolve_topic_name(COMMAND) == topic:
            return _SHIELDS.setdefault(node.hub, {}).setdefault(topic, OwnShield())
    return None
