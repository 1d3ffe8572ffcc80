"""Subscriptions that a control loop polls itself.

An executor that wakes for each of 400 messages a second costs more than the control. A loop that needs only the newest
message of a topic takes it from the middleware when it needs it: one microsecond when there is none.
"""

import weakref
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.context import Context
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message

from ros_nodes.lifecycle.clock import machine_clock

SAID_EVERY_S = 5.0
interrupts = 0  # how often this program was interrupted: its handler counts, where it raises KeyboardInterrupt


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
        self.qos = qos
        self.number: int | None = None  # of the message taken last: its publisher counts, where the middleware does
        self.sent_ns = 0  # when the message taken last was published, by its publisher's system clock
        self.subscription = self._subscribe(qos)

    def take(self) -> tuple[Any, int] | None:
        """The oldest message of the queue and when it arrived (ns, the system's clock); None when it is empty.

        One that is no such message counts as none: a log line says so.
        """
        for _ in range(self.qos.depth):  # not as long as there are any: who floods a topic would keep the loop here
            if (taken := self._take(self.subscription)) is None:
                return None
            self.number, self.sent_ns = taken[1]["publication_sequence_number"], taken[1]["source_timestamp"]
            if (message := self._read(taken[0])) is not None:
                return message, taken[1]["received_timestamp"]
        return None

    def drain(self) -> Iterator[tuple[Any, int]]:
        """What has come, oldest first; no more than the queue holds, as fast as they may come."""
        for _ in range(self.qos.depth):
            if (taken := self.take()) is None:
                return
            yield taken

    @property
    def publishers(self) -> int:
        """How many publishers are heard, known before their first message is; half a microsecond."""
        return int(self.subscription.handle.get_publisher_count())

    def close(self) -> None:
        """Leave the topic."""
        self._node.destroy_subscription(self.subscription)

    def _take(self, subscription: Any) -> Any:
        return subscription.handle.take_message(self.message_type, True)

    def _read(self, serialised: bytes) -> Any | None:
        """The message, serialised where such are wanted; None for what cannot be read."""
        if self._raw:
            return serialised
        before = interrupts
        try:
            return deserialize_message(serialised, self.message_type)
        except (RuntimeError, TypeError) as error:
            # A TypeError is what rclpy makes of a Ctrl-C, and of any other error, while it makes the message.
            if interrupts != before:
                raise KeyboardInterrupt from error
            if not isinstance(error, _rclpy.RMWError):
                raise
            what = f"{len(serialised)} bytes that are no {self.message_type.__name__} were ignored"
            self._node.get_logger().warning(f"{self.topic}: {what}", throttle_duration_sec=SAID_EVERY_S)
            return None

    def _subscribe(self, qos: QoSProfile) -> Any:
        return self._node.create_subscription(
            self.message_type,
            self.topic,
            _never_called,
            qos,
            callback_group=PolledGroup(),
            raw=self._raw,
            # An executor that waits for a subscription's events wakes for each of its messages: see `health` instead.
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )


class DurableMailbox(Mailbox):
    """A topic whose publishers are transient-local or volatile: late joiners get the last message of the former.

    A single subscription hears either the volatile ones or the past ones: so there are two, and most come twice.
    """

    def __init__(self, node: Node, message_type: type, topic: str, qos: QoSProfile, raw: bool = False):
        volatile = QoSProfile(depth=qos.depth, reliability=qos.reliability)
        super().__init__(node, message_type, topic, volatile, raw)
        self._past = self._subscribe(qos)
        self._newest_ns = 0  # when the newest message was sent
        self._taken: deque[int] = deque(maxlen=2 * qos.depth)  # when those were sent that may come again

    def take(self) -> tuple[Any, int] | None:
        for subscription in (self.subscription, self._past):
            for _ in range(2 * self.qos.depth):  # what comes twice is decoded once
                if (taken := self._take(subscription)) is None:
                    break
                sent_ns = taken[1]["source_timestamp"]
                # What is past must not undo what was said since.
                if sent_ns in self._taken or (subscription is self._past and sent_ns < self._newest_ns):
                    continue
                self._taken.append(sent_ns)
                self.sent_ns, self.number = sent_ns, taken[1]["publication_sequence_number"]
                self._newest_ns = max(self._newest_ns, sent_ns)
                if (message := self._read(taken[0])) is not None:
                    return message, taken[1]["received_timestamp"]
        return None

    def close(self) -> None:
        super().close()
        self._node.destroy_subscription(self._past)


def make_mailbox(node: Node, message_type: type, topic: str, qos: QoSProfile, raw: bool = False) -> Mailbox:
    """The mailbox for `qos`: one that is to receive past messages receives volatile publishers too."""
    kind = DurableMailbox if qos.durability == DurabilityPolicy.TRANSIENT_LOCAL else Mailbox
    return kind(node, message_type, topic, qos, raw)


class Waiter:
    """Sleeps until one of several mailboxes has a message.

    The middleware waits for a time of the system's clock: when that is set back, a wait goes on for as much longer. So
    a step ends it.
    """

    def __init__(self, context: Context):
        self._context = context
        self._interrupt = _rclpy.GuardCondition(context.handle)
        self._make_room(1)
        machine_clock().on_step(weakref.WeakMethod(self._end_wait))

    def wait(self, mailboxes: Collection[Mailbox], timeout_s: float) -> set[Mailbox]:
        """Those that have something; none after `timeout_s`, on `wake`, or as the system's clock steps."""
        if len(mailboxes) > self._capacity:
            self._make_room(len(mailboxes))
        self._wait_set.clear_entities()
        for mailbox in mailboxes:
            self._wait_set.add_subscription(mailbox.subscription.handle)
        self._wait_set.add_guard_condition(self._interrupt)
        self._wait_set.wait(max(0, int(timeout_s * 1e9)))
        ready = self._wait_set.get_ready_entities("subscription")
        return {mailbox for mailbox in mailboxes if mailbox.subscription.handle.pointer in ready} if ready else set()

    def wake(self) -> None:
        """End a wait of another thread, or the next one."""
        self._interrupt.trigger_guard_condition()

    def _make_room(self, mailboxes: int) -> None:
        self._capacity = mailboxes
        self._wait_set = _rclpy.WaitSet(mailboxes, 1, 0, 0, 0, 0, self._context.handle)

    def _end_wait(self, step_ns: int) -> None:
        self.wake()


def _never_called(message: Any) -> None:
    raise AssertionError("a polled subscription was given to an executor")
