"""The status of a robot's shield, for nodes that act on it."""

from diagnostic_msgs.msg import DiagnosticArray

from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos
from ros_nodes.messages.diagnostics import ShieldMode, read_status


class ShieldSays:
    """`status`, polled. While somebody else publishes there too nothing new is believed."""

    def __init__(self, node: ManagedNode, topic: str = "status"):
        self._mailbox = node.subscribe(DiagnosticArray, topic, qos.LATCHED)
        self._logger = node.get_logger()
        self._doubled = ""

    @property
    def alone(self) -> bool:
        """Whether one publisher was there when it was last looked at."""
        return not self._doubled

    def take(self) -> ShieldMode | None:
        """What the shield said since the last call."""
        topic, publishers, taken = self._mailbox.topic, self._mailbox.publishers, self._mailbox.take()
        before, self._doubled = self._doubled, ""
        if publishers > 1:
            self._doubled = f"{topic} has {publishers} publishers where one is due: what was heard before stays"
        if self._doubled != before:
            self._logger.warning(self._doubled or f"{topic} has one publisher again")
        # Whose the last message is that was waiting is not known.
        return None if taken is None or before or self._doubled else read_status(taken[0])
