"""What a robot's shield commands, to its driver in the same process: no other program comes between the two."""

import time
from collections import deque
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from rclpy.node import Node

from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos

COMMAND = "command"
DEPTH, LIFESPAN_S = qos.COMMANDS_IN.depth, qos.COMMAND_OUT.lifespan.nanoseconds * 1e-9


class OwnCommands:
    """A queue of messages from the thread of the shield to that of the driver, which reads it as a `Mailbox`."""

    publishers = 1

    def __init__(self) -> None:
        self._sent: deque[tuple[bytes, int, float]] = deque(maxlen=DEPTH)

    def put(self, message: bytes) -> None:
        """The shield's."""
        self._sent.append((message, time.time_ns(), time.monotonic()))

    def drain(self) -> Iterator[tuple[bytes, int]]:
        """What has come, oldest first, and when (ns, the system's clock); not what waited while the process stood."""
        while self._sent:
            message, came_ns, came_s = self._sent.popleft()
            if time.monotonic() - came_s < LIFESPAN_S:
                yield message, came_ns


_QUEUES: WeakKeyDictionary[Node, dict[str, OwnCommands]] = WeakKeyDictionary()


def own_commands(node: ManagedNode, other: str) -> OwnCommands | None:
    """The queue of `node`'s robot, where its node `other` is in this process and has not been given another topic.

    To be called in the thread of the executor.
    """
    name, topic = f"{node.get_namespace().rstrip('/')}/{other}", node.resolve_topic_name(COMMAND)
    for there in node.beside:
        if there.get_fully_qualified_name() == name and there.resolve_topic_name(COMMAND) == topic:
            return _QUEUES.setdefault(node.hub, {}).setdefault(topic, OwnCommands())
    return None
