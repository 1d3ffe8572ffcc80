"""State of a node's own robot, of peers and of objects, from polled subscriptions."""

from collections.abc import Callable, Sequence
from functools import partial
from math import cos, inf, sin

from sensor_msgs.msg import JointState

from hardware.spec import RobotSpec
from hardware.types import ObjectState, Peers, RobotState
from ros_nodes.lifecycle.clock import AHEAD_NS, SenderClock
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import (
    MessageError,
    empty_object,
    empty_peers,
    empty_state,
    read_object,
    read_odometry,
)
from ros_nodes.messages.first_speaker import FirstSpeaker
from ros_nodes.messages.heard import Heard, OdometryTopic, listen
from ros_nodes.messages.joints import JointConverter
from ros_nodes.messages.topics import object_topic


class OwnState:
    """The newest measurement of this robot: `odom` unless its base is fixed, and `joint_states` where it has joints.

    The age is that of its oldest part, or below zero while a part is stamped in the future. A second publisher of one
    counts as nothing.
    """

    def __init__(self, node: ManagedNode, spec: RobotSpec, base_pose: Sequence[float]):
        """`base_pose`: x, y, z m and yaw rad of a fixed base in the world; not used for a free one."""
        self._logger = node.get_logger()
        self.state: RobotState = empty_state(len(spec.joints))
        self.mailboxes: list[Mailbox] = []  # where the parts arrive
        self._parts: list[Callable[[int], int]] = []  # time of the node -> stamp of a new message, 0 for none
        if spec.fixed_base:
            place(self.state, *base_pose)
        else:
            odometry = listen(node, "odom", round(1e9 / spec.control_hz))
            self.mailboxes.append(odometry.mailbox)
            self._parts.append(partial(self._take_odometry, odometry))
        if spec.joints:
            self.mailboxes.append(node.subscribe(JointState, "joint_states", qos.JOINTS_IN, raw=True))
            speaker = FirstSpeaker(self.mailboxes[-1])
            self._parts.append(partial(self._take_joints, speaker, JointConverter(spec.joint_names)))
        self._heard: Heard | None = None
        self._senders = [SenderClock(node.clock) for _ in self._parts]
        self._stamps_ns = [0] * len(self._parts)
        self.stamp_ns = 0  # time of the node, of the oldest part; 0 while one has never been received

    @property
    def topics(self) -> list[str]:
        """Where the parts come from."""
        return [mailbox.topic for mailbox in self.mailboxes]

    def update(self, now_ns: int) -> bool:
        """Take what has arrived; the age becomes that at `now_ns` (the node's clock). True for a newer oldest part."""
        for part, take in enumerate(self._parts):
            if stamp_ns := take(now_ns):
                self._stamps_ns[part] = self._senders[part].to_own(stamp_ns, now_ns)
        before, self.stamp_ns = self.stamp_ns, min(self._stamps_ns)
        if self.stamp_ns:
            # A part of the future would hide its own silence behind the age of the others until then.
            newest_ns = max(self._stamps_ns)
            self.state.age[()] = (now_ns - (newest_ns if newest_ns > now_ns + AHEAD_NS else self.stamp_ns)) * 1e-9
        return self.stamp_ns != before

    def _take_odometry(self, topic: OdometryTopic, now_ns: int) -> int:
        heard = topic.newest(now_ns)
        if heard is None or heard is self._heard:
            return 0
        self._heard = heard
        return read_odometry(heard.motion, self.state)

    def _take_joints(self, speaker: FirstSpeaker, converter: JointConverter, now_ns: int) -> int:
        taken = speaker.take()
        try:
            return 0 if taken is None else converter.read(taken[0], self.state)
        except MessageError as error:  # the last good message stays, and ages
            self._logger.error(str(error), throttle_duration_sec=1.0)
            return 0


class PeerTable:
    """The newest state of every other robot; those never received are not valid."""

    def __init__(self, node: ManagedNode, names: Sequence[str]):
        self._names, self._logger = names, node.get_logger()
        self._topics = [listen(node, f"/{name}/odom") for name in names]
        self._heard: list[Heard | None] = [None] * len(names)
        self._senders = [SenderClock(node.clock) for _ in names]
        self.peers: Peers = empty_peers(len(names))
        self._stamps_ns: list[int | None] = [None] * len(names)

    def update(self, now_ns: int) -> Peers:
        """Take what has arrived and let ages be those at `now_ns` (the node's clock)."""
        peers = self.peers
        for slot, topic in enumerate(self._topics):
            heard = topic.overheard(now_ns)
            if heard is self._heard[slot] or heard is None:
                continue
            self._heard[slot] = heard
            if heard.world is None:  # as if it had said nothing: what was heard before ages
                self._logger.error(heard.wrong, throttle_duration_sec=1.0)
            else:
                peers.pos[slot], peers.lin_vel[slot] = heard.world
                # A peer whose clock is ahead is valid all the same, but ages from now on, not from later.
                stamp_ns = self._senders[slot].to_own(heard.motion.stamp_ns, heard.taken_ns)
                self._stamps_ns[slot] = min(stamp_ns, heard.taken_ns)
                peers.valid[slot] = True
        peers.age[:] = [inf if stamp_ns is None else (now_ns - stamp_ns) * 1e-9 for stamp_ns in self._stamps_ns]
        return peers

    def ages(self) -> dict[str, float | None]:
        """Age of the last message of each as of the last update, s; None for one that was never heard."""
        heard = zip(self._names, self.peers.valid.tolist(), self.peers.age.tolist(), strict=True)
        return {name: age_s if valid else None for name, valid, age_s in heard}


class ObjectTable:
    """The newest state of every object that a policy observes; not finite before the first message."""

    def __init__(self, node: ManagedNode, names: Sequence[str]):
        self._logger = node.get_logger()
        self._topics = {name: listen(node, object_topic(name)) for name in names}
        self._heard: dict[str, Heard | None] = dict.fromkeys(names)
        self.objects: dict[str, ObjectState] = {name: empty_object() for name in names}
        self._stamps_ns = dict.fromkeys(names, 0)
        self._senders = {name: SenderClock(node.clock) for name in names}

    def update(self, now_ns: int) -> dict[str, ObjectState]:
        """Take what has arrived and let ages be those at `now_ns` (the node's clock)."""
        for name, topic in self._topics.items():
            heard = topic.newest(now_ns)
            if heard is not None and heard is not self._heard[name]:
                self._heard[name] = heard
                if heard.world is None:
                    self._logger.error(heard.wrong, throttle_duration_sec=1.0)
                else:
                    stamp_ns = read_object(heard.motion, self.objects[name])
                    self._stamps_ns[name] = self._senders[name].to_own(stamp_ns, heard.taken_ns)
            if self._stamps_ns[name]:
                self.objects[name].age[()] = (now_ns - self._stamps_ns[name]) * 1e-9
        return self.objects

    def not_current(self, limit_s: float, ahead_s: float) -> list[str]:
        """Objects last received more than `limit_s` ago, never, or stamped more than `ahead_s` in the future.

        What is stamped in the future would otherwise not age until then.
        """
        return [name for name, state in self.objects.items() if not -ahead_s <= state.age <= limit_s]


def place(state: RobotState, x: float, y: float, z: float, yaw: float) -> None:
    """A base that does not move."""
    state.base_pos[:] = x, y, z
    state.base_quat[:] = cos(yaw / 2), 0.0, 0.0, sin(yaw / 2)
    state.base_lin_vel[:] = state.base_ang_vel[:] = 0.0
