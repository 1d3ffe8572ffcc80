"""What is missing before a robot may be armed, in words."""

import time
from collections.abc import Sequence

from diagnostic_msgs.msg import DiagnosticArray

from hardware.digest import digest_of
from hardware.spec import RobotSpec
from hardware.types import Peers
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.battery import TOPIC as BATTERY
from ros_nodes.messages.device import TOPIC as DEVICE
from ros_nodes.messages.diagnostics import AWAITS, FINGERPRINT, ROBOT_TYPE, SPEC_DIGEST, TAKES, WAITS, value_of
from ros_nodes.messages.names import DRIVER_STATUS, POLICY_STATUS
from ros_nodes.messages.topics import GOAL

POLICY_SILENT_S = 2.0  # a policy says once a second that it is there; the middleware counts a dead one for long


class PreArm:
    """The checks of one robot's shield."""

    def __init__(
        self,
        node: ManagedNode,
        spec: RobotSpec,
        fingerprint: str,
        peers: Sequence[str],
        silent_s: float,
        sources: Sequence[str],
        alone: Sequence[Mailbox],
    ):
        """`spec`, and `fingerprint` of the policy file, that the shield was set up for, the latter empty for any.

        `silent_s`: for how long a peer may be silent; `sources`: the robot's topics that must have one publisher each;
        `alone`: at most one.
        """
        self._node, self._fingerprint = node, fingerprint
        self._peers, self._silent_s, self._sources = list(peers), silent_s, list(sources)
        self._alone = alone
        self._robot, self._digest = spec.name, digest_of(spec)
        self._policy_topic = node.subscribe(DiagnosticArray, POLICY_STATUS, qos.LATCHED)
        self._policy_status: DiagnosticArray | None = None
        self._policy_s = 0.0  # when it was heard, monotonic
        self._driver_topic = node.subscribe(DiagnosticArray, DRIVER_STATUS, qos.LATCHED)
        self._driver_status: DiagnosticArray | None = None
        self.commanders = ""  # that somebody else commands the robot too

    def hear(self) -> None:
        """Take what the policy and the driver said, and look who else commands the robot."""
        before, self.commanders = self.commanders, self._publishers("command", 0)
        if self.commanders != before:
            self._node.get_logger().warning(self.commanders or "command has one publisher again")
        if taken := self._policy_topic.take():
            self._policy_status, self._policy_s = taken[0], time.monotonic()
        self._driver_status = (self._driver_topic.take() or (self._driver_status,))[0]

    def policy_waits(self) -> str:
        """What the policy waits for, or an empty string."""
        return value_of(WAITS, self._policy_status) if self._policy_topic.publishers > 0 else ""

    def awaits(self) -> str:
        """For what an arm is held after a start, and how it is given; an empty string where it moves at once."""
        if self._policy_status is None or not (awaited := value_of(AWAITS, self._policy_status)):
            return ""
        if awaited != GOAL:
            return f"it is held until a message comes on {awaited}"
        quat = " --quat W X Y Z" if "goal_quat" in value_of(TAKES, self._policy_status).split(", ") else ""
        robot = self._node.get_namespace().strip("/")
        return f"it is held until a goal comes: phalanx operate goal {robot} --at X Y Z{quat}"

    def missing(self, peers: Peers) -> list[str]:
        """What keeps the robot from being armed now."""
        self.hear()
        found = [self._publishers(topic, 1) for topic in self._sources]
        found += [self._publishers(topic, 0) for topic in ("requested", DEVICE, BATTERY, DRIVER_STATUS)]
        found += [self._publishers(topic, 1) for topic in ("command", "status")]  # its own shield
        never = [name for name, heard in zip(self._peers, peers.valid, strict=True) if not heard]
        silent = [n for n, age in zip(self._peers, peers.age, strict=True) if n not in never and age > self._silent_s]
        found.append(f"never heard of {', '.join(never)}" if never else "")
        found.append(f"no word from {', '.join(silent)} for over {self._silent_s:g} s" if silent else "")
        found += [self.policy_missing(), self._driver()]
        return [reason for reason in found if reason]

    def strangers(self) -> str:
        """Why no request may be obeyed in flight: somebody else publishes them, measurements, or device faults."""
        counts = [(mailbox.topic, mailbox.publishers) for mailbox in self._alone]
        doubled = [_wrong(topic, count) for topic, count in counts if count > 1]
        return f"{'; '.join(doubled)}: no request is obeyed" if doubled else ""

    def _publishers(self, topic: str, least: int) -> str:
        """Why `topic` has too few publishers, or more than one."""
        count = self._node.count_publishers(topic)
        return "" if least <= count <= 1 else _wrong(topic, count)

    def policy_missing(self) -> str:
        """Why the robot must not be given to its policy; a program of the user's own says nothing, and may have it."""
        if self._policy_status is None or not self._policy_topic.publishers:
            return "no status of the policy" if self._fingerprint else ""
        if (silent_s := time.monotonic() - self._policy_s) > POLICY_SILENT_S:
            return f"the policy is silent for {silent_s:.1f} s"
        if waits := value_of(WAITS, self._policy_status):
            return f"the policy: {waits}"
        if not self._fingerprint:
            return ""
        given = value_of(FINGERPRINT, self._policy_status) or "?"
        if given != self._fingerprint:
            return f"the policy flies file {given[:12]}, the shield was set up for {self._fingerprint[:12]}"
        return ""

    def _driver(self) -> str:
        """In what a driver of ours differs; nothing for a simulated robot, and for a driver node of the user's."""
        if self._driver_status is None or not self._driver_topic.publishers:
            return ""
        robot, digest, file = (value_of(key, self._driver_status) for key in (ROBOT_TYPE, SPEC_DIGEST, FINGERPRINT))
        if digest != self._digest:
            given, own = (
                f"{name or '?'} {short[:12]}" for name, short in ((robot, digest), (self._robot, self._digest))
            )
            return f"the driver's robot type is {given}, the shield's {own}"
        if file and self._fingerprint and file != self._fingerprint:
            return f"the driver was set up for file {file[:12]}, the shield for {self._fingerprint[:12]}"
        return ""


def _wrong(topic: str, publishers: int) -> str:
    return f"{topic} has {publishers or 'no'} publishers where one is due"
