"""Odometry that several nodes of a process use: each topic is subscribed and decoded once there."""

import threading
import time
from functools import partial
from weakref import WeakKeyDictionary

from nav_msgs.msg import Odometry
from rclpy.node import Node

from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MessageError, Motion, Vector, read_motion, world_motion
from ros_nodes.messages.first_speaker import FirstSpeaker

# A robot's peers need it as often as they control themselves, not as often as it is measured.
PEER_NS = 10_000_000
# Where the robot itself is in this process its own loop takes its measurements, one of which may just be awaited there;
# others take one only when that loop has been silent for so many of its periods.
SILENT_PERIODS = 1.5


class Heard:
    """A decoded message, and when it was taken, in the time of the nodes, ns."""

    def __init__(self, motion: Motion, taken_ns: int):
        self.motion, self.taken_ns = motion, taken_ns
        self._in_world: tuple[tuple[Vector, Vector] | None] | None = None
        self.wrong = ""  # why it is nowhere in the world

    @property
    def world(self) -> tuple[Vector, Vector] | None:
        """Position and velocity in the world; None where one is not finite, or too far away to be."""
        if self._in_world is None:  # two threads may both work it out: none waits
            try:
                self._in_world = (world_motion(self.motion),)
            except MessageError as error:
                self._in_world, self.wrong = (None,), str(error)
        return self._in_world[0]


class OdometryTopic:
    """One topic, of its first publisher. Any thread may ask, and none ever waits for another."""

    def __init__(self, hub: Node, name: str):
        """`hub` subscribes."""
        self.mailbox = Mailbox(hub, Odometry, name, qos.MEASURED_IN, raw=True)
        self._speaker = FirstSpeaker(self.mailbox)
        self._logger = hub.get_logger()
        self._taking = threading.Lock()
        self._looked_ns = 0
        self._patience_ns = PEER_NS
        self._heard: Heard | None = None
        self.users = 0

    def owned(self, period_ns: int) -> None:
        """From now on a loop of this period calls `newest`; 0 for no longer."""
        self._patience_ns = round(SILENT_PERIODS * period_ns) or PEER_NS

    def newest(self, now_ns: int) -> Heard | None:
        """The last good message, after a look for newer ones; `now_ns` is the time of the node. None before any."""
        if self._taking.acquire(blocking=False):  # the thread that has it stores what there is
            try:
                self._looked_ns = time.monotonic_ns()
                taken = self._speaker.take()
                if taken is not None:
                    self._heard = Heard(read_motion(taken[0]), now_ns)
            except MessageError as error:  # the last good message stays, and ages
                self._logger.error(str(error), throttle_duration_sec=1.0)
            finally:
                self._taking.release()
        return self._heard

    def overheard(self, now_ns: int) -> Heard | None:
        """As `newest`, for those who are not the robot: without a look where somebody has looked a short time ago."""
        if time.monotonic_ns() - self._looked_ns < self._patience_ns:
            return self._heard
        return self.newest(now_ns)


_TOPICS: WeakKeyDictionary[Node, dict[str, OdometryTopic]] = WeakKeyDictionary()


def listen(node: ManagedNode, topic: str, own_period_ns: int = 0) -> OdometryTopic:
    """The topic, by its name in `node`, until clean-up; `own_period_ns` above 0 for the node of the robot itself.

    To be called in the thread of the executor.
    """
    topics = _TOPICS.setdefault(node.hub, {})
    name = node.resolve_topic_name(topic)
    if name not in topics:
        topics[name] = OdometryTopic(node.hub, name)
    heard = topics[name]
    heard.users += 1
    if own_period_ns:
        heard.owned(own_period_ns)
    node.hear(heard.mailbox, partial(_leave, topics, name, own_period_ns))
    return heard


def _leave(topics: dict[str, OdometryTopic], name: str, own_period_ns: int) -> None:
    heard = topics[name]
    heard.users -= 1
    if own_period_ns:
        heard.owned(0)
    if not heard.users:
        topics.pop(name).mailbox.close()
