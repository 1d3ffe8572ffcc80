"""What every node says about itself once a second on `/diagnostics`, by REP-107: its state, and whom it cannot hear."""

from collections.abc import Callable, Iterator, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSCompatibility, qos_check_compatible

from ros_nodes.lifecycle.clock import RobotClock
from ros_nodes.lifecycle.polling import Mailbox

PERIOD_S = 1.0
REFUSAL = "refused"  # key of why a node's last transition failed
CHECK_EVERY = 5  # periods between two looks at who publishes


class Health:
    """Publishes from the executor's thread, from the node's beginning to its end."""

    def __init__(
        self,
        node: LifecycleNode,
        clock: RobotClock,
        mailboxes: Sequence[Mailbox],
        failed: Callable[[], bool],
        more: Callable[[], tuple[bytes, str, dict[str, str]]],
    ):
        """`mailboxes`: what the node listens to, a list that changes; `failed`: its loop has ended by an exception;
        `more`: see `ManagedNode.health`.
        """
        self._more = more
        self._node, self._clock, self._mailboxes, self._failed = node, clock, mailboxes, failed
        name = node.get_fully_qualified_name().strip("/")
        self._status = DiagnosticStatus(name=f"{name}: node", hardware_id=name.rpartition("/")[0])
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._unheard: list[str] = []
        self._count = 0
        self._counts: dict[Mailbox, int] = {}  # of publishers
        self._timer = node.create_timer(PERIOD_S, self.say, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def hand_over(self) -> Callable[[], None]:
        """`say`, for one who calls it every `PERIOD_S` from now on in place of the node's own timer."""
        self._node.destroy_timer(self._timer)
        return self.say

    def say(self) -> None:
        """Publish how the node is."""
        if self._count % CHECK_EVERY == 0:
            self._check_publishers()
        self._count += 1
        state = self._node._state_machine.current_state[1]
        level, message, more = self._more()
        message = message or state
        if self._unheard and level == DiagnosticStatus.OK:
            level, message = DiagnosticStatus.WARN, self._unheard[0]
        if self._failed():
            level, message = DiagnosticStatus.ERROR, "its loop has ended, see the log"
        self._status.level, self._status.message = level, message
        values = {"state": state, "publishers not heard": "; ".join(self._unheard)} | more | self._clock.diagnostics()
        self._status.values = [KeyValue(key=key, value=value) for key, value in values.items()]
        array = DiagnosticArray(status=[self._status])
        array.header.stamp.sec, array.header.stamp.nanosec = divmod(self._clock.now_ns(), 1_000_000_000)
        self._publisher.publish(array)

    def _check_publishers(self) -> None:
        """Name the publishers of another type or of a quality that cannot be heard, once.

        Only where their number has changed: the question is expensive while robots move.
        """
        counts = {mailbox: self._node.count_publishers(mailbox.subscription.topic_name) for mailbox in self._mailboxes}
        if counts == self._counts:
            return
        self._counts = counts
        unheard = [text for mailbox in counts for text in self._cannot_hear(mailbox)]
        for text in unheard:
            if text not in self._unheard:
                self._node.get_logger().warning(text)
        self._unheard = unheard

    def _cannot_hear(self, mailbox: Mailbox) -> Iterator[str]:
        topic = mailbox.subscription.topic_name
        package, kind = mailbox.message_type.__module__.split(".")[0], mailbox.message_type.__name__
        expected = f"{package}/msg/{kind}"
        for info in self._node.get_publishers_info_by_topic(topic):
            who = f"{topic} of {info.node_namespace.rstrip('/')}/{info.node_name}"
            if info.topic_type != expected:
                yield f"{who} has type {info.topic_type}; expected {expected}"
                continue
            level, reason = qos_check_compatible(info.qos_profile, mailbox.qos)
            if level == QoSCompatibility.ERROR:
                yield f"{who} cannot be heard, incompatible QoS: {reason}"
