"""Subscriptions that a control loop polls itself.

An executor that wakes for each of 400 messages a second costs more than the control. A loop that needs only the newest
message of a topic takes it from the middleware when it needs it: one microsecond when there is none.
"""

from collections.abc import Sequence
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile


class PolledGroup(CallbackGroup):
    """Keeps its entities out of every executor."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        """Nothing ever begins."""


class Mailbox:
    """One polled topic. To be used by one thread at a time."""

    def __init__(self, node: Node, message_type: type, topic: str, qos: QoSProfile, raw: bool = False):
        """`raw` leaves messages serialised."""
        self._node = node
        self._raw = raw
        self.topic = topic
        self.message_type = message_type
        self.subscription = node.create_subscription(
            message_type, topic, _never_called, qos, callback_group=PolledGroup(), raw=raw
        )

    def take(self) -> tuple[Any, int] | None:
        """The oldest message of the queue and when it arrived (ns, the system's clock); None when it is empty."""
        taken = self.subscription.handle.take_message(self.message_type, self._raw)
        return None if taken is None else (taken[0], taken[1]["received_timestamp"])

    def close(self) -> None:
        """Leave the topic."""
        self._node.destroy_subscription(self.subscription)


class Waiter:
    """Sleeps until one of several mailboxes has a message."""

    def __init__(self, node: Node, mailboxes: Sequence[Mailbox]):
        self._mailboxes = mailboxes
        self._wait_set = _rclpy.WaitSet(len(mailboxes), 0, 0, 0, 0, 0, node.context.handle)

    def wait(self, timeout_s: float) -> bool:
        """True when a mailbox has something; False after `timeout_s`."""
        self._wait_set.clear_entities()
        for mailbox in self._mailboxes:
            self._wait_set.add_subscription(mailbox.subscription.handle)
        self._wait_set.wait(max(0, int(timeout_s * 1e9)))
        return bool(self._wait_set.get_ready_entities("subscription"))


def _never_called(message: Any) -> None:
    raise AssertionError("a polled subscription was given to an executor")
