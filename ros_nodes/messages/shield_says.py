"""The status of a robot's shield, for nodes that act on it."""

from functools import partial
from math import inf
from weakref import WeakKeyDictionary

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.polling import Mailbox, make_mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.diagnostics import ShieldMode, read_status
from ros_nodes.messages.first_speaker import OneSpeaker

SAME_S = 0.05  # after a look of one shield others of its process look no further


class ShieldSays:
    """`status`, polled. While somebody else publishes there too nothing new is believed."""

    def __init__(self, node: ManagedNode, mailbox: Mailbox | None = None):
        """`mailbox`: that of another robot's status; by default that of `node`'s own robot."""
        self._mailbox = mailbox or node.subscribe(DiagnosticArray, "status", qos.LATCHED)
        self._logger, self._speaker = node.get_logger(), OneSpeaker()
        self.doubled = ""  # that somebody else publishes there too, in words, when it was last looked at

    @property
    def alone(self) -> bool:
        """Whether one publisher was there when it was last looked at."""
        return not self.doubled

    def take(self) -> ShieldMode | None:
        """What the shield said since the last call."""
        topic, publishers, taken = self._mailbox.topic, self._mailbox.publishers, self._mailbox.take()
        before, self.doubled = self.doubled, ""
        if publishers > 1:
            self.doubled = f"{topic} has {publishers} publishers where one is due: what was heard before stays"
        if self.doubled != before:
            self._logger.warning(self.doubled or f"{topic} has one publisher again")
        # Whose the last message is that was waiting is not known.
        if taken is None or before or self.doubled or not self._speaker.believes(self._mailbox.number):
            return None
        return read_status(taken[0])


class PeerStatus:
    """What a peer's shield said last: taken and read once for all shields of a process, whose loops take turns."""

    def __init__(self, node: ManagedNode, topic: str):
        self.mailbox = make_mailbox(node.hub, DiagnosticArray, topic, qos.LATCHED)
        self.said: ShieldMode | None = None
        self.heard_s = self._looked_s = -inf  # the time of the nodes
        self.users = 0
        self._says = ShieldSays(node, self.mailbox)

    @property
    def alone(self) -> bool:
        """Whether one publisher was there when it was last looked at."""
        return self._says.alone

    def look(self, now_s: float) -> None:
        """Take what has arrived, unless another shield has done so just now; `now_s`: the time of the nodes."""
        if 0.0 <= now_s - self._looked_s < SAME_S:
            return
        self._looked_s = now_s
        if (new := self._says.take()) is not None:
            self.said, self.heard_s = new, now_s


_TOPICS: WeakKeyDictionary[Node, dict[str, PeerStatus]] = WeakKeyDictionary()


def listen_to_peer(node: ManagedNode, name: str) -> PeerStatus:
    """The status of the robot `name`, until clean-up. To be called in the thread of the executor."""
    topics, topic = _TOPICS.setdefault(node.hub, {}), f"/{name}/status"
    if topic not in topics:
        topics[topic] = PeerStatus(node, topic)
    status = topics[topic]
    status.users += 1
    node.hear(status.mailbox, partial(_leave, topics, topic))
    return status


def _leave(topics: dict[str, PeerStatus], topic: str) -> None:
    topics[topic].users -= 1
    if not topics[topic].users:
        topics.pop(topic).mailbox.close()
