"""One robot as it speaks of itself in a ROS domain, heard without disturbing it."""

from collections import deque
from dataclasses import dataclass
from math import isfinite
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import BatteryState, JointState

from deploy.shield.authority import ACKNOWLEDGED, LANDED, PUT_DOWN, State
from ros_nodes.lifecycle.claims import taken_names
from ros_nodes.lifecycle.log_lines import kind_of
from ros_nodes.lifecycle.polling import Mailbox, make_mailbox
from ros_nodes.messages import battery, course, device, qos
from ros_nodes.messages.conversion import stamp_ns
from ros_nodes.messages.diagnostics import FINGERPRINT, REFUSED, SWAP, ShieldMode, read_status, value_of
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.messages.peers_say import SAID_S
from ros_nodes.operation.stream import Stream

SILENT, SILENT_S = "SILENT", 5.0  # a shield says its status twice a second; one that was lost comes again within 3 s
ENDED = "ENDED"  # SILENT, and it has left the domain; a process that was killed is known for some 20 s more
DISARMED_BY = (LANDED, PUT_DOWN, ACKNOWLEDGED)  # reasons; a shield that begins has none, or what it lacks still
DEVICE_SILENT_S = 3.0  # a driver says once a second what its device says
DRIVER_SILENT = "its driver is silent"
KEPT = 20  # changes of each robot
STREAMS = {"odom": Odometry, "requested": JointState, "command": JointState}
SAID_ONCE = {  # latched topics that only some robots have
    battery.TOPIC: BatteryState,
    POLICY_STATUS: DiagnosticArray,
    device.TOPIC: DiagnosticArray,
    course.TOPIC: DiagnosticArray,
}


@dataclass(frozen=True, slots=True)
class Change:
    """A robot went from one state to another, each a `ShieldMode.label` or `SILENT`; `before` is "" at first.

    With the same state twice the reason is a delay, or what became of a swap of its policy.
    """

    time_s: float  # of the robot
    robot: str
    before: str
    after: str
    reason: str


class RobotMonitor:
    """One robot. Nothing but its status is subscribed to before a shield has spoken there."""

    def __init__(self, node: Node, name: str):
        self.name, self._node = name, node
        self._status = Mailbox(node, DiagnosticArray, f"/{name}/status", qos.HISTORY)
        self._streams: dict[str, Stream] = {}
        self._boxes: dict[str, Mailbox] = {}  # of `SAID_ONCE`, of those with a publisher
        self._said: dict[str, tuple[Any, int]] = {}  # the last message of each, and when it came, ns
        self._heard_ns = 0
        self.shield = ShieldMode("?")
        self.is_foreign = False  # its `status` is of something else
        self._label = ""
        self._device_fault: dict[str, Any] | None = None  # the last one: `fault`, `since_s`, `until_s` None while it is
        self.changes: deque[Change] = deque(maxlen=KEPT)
        self.publishers: dict[str, int] = {}

    @property
    def heard(self) -> bool:
        """Whether a shield has ever spoken."""
        return self._heard_ns > 0

    def look(self) -> None:
        """Count publishers, and listen to what is new."""
        if not self.heard:
            return
        if not self._streams:
            self._streams = {topic: Stream(self._node, kind, self._topic(topic)) for topic, kind in STREAMS.items()}
        self.publishers = {topic: self._node.count_publishers(self._topic(topic)) for topic in STREAMS}
        for topic, kind in SAID_ONCE.items():
            if topic not in self._boxes and self._node.count_publishers(self._topic(topic)):
                self._boxes[topic] = make_mailbox(self._node, kind, self._topic(topic), qos.LATCHED)

    def poll(self, now_ns: int) -> list[Change]:
        """Take what has arrived; changes since the last call. `now_ns`: the system's clock."""
        found = []
        for message, arrived_ns in self._status.drain():
            said = read_status(message)
            self.is_foreign = said.state == "?"
            if not self.is_foreign:
                late = said.last_delay if self._label and said.delays > self.shield.delays else ""
                self.shield, self._heard_ns = said, arrived_ns
                found += self._change(said.time_ns, said.label, said.reason, late)
        if self.heard and (now_ns - self._heard_ns) * 1e-9 > SILENT_S:
            found += self._change(now_ns, SILENT, self._silence(SILENT_S))
        if self.heard and not self._streams:
            self.look()
        for stream in self._streams.values():
            stream.poll()
        before = self._said.get(POLICY_STATUS)
        new = {topic: taken for topic, box in self._boxes.items() if (taken := box.take()) is not None}
        self._said |= new
        if device.TOPIC in new:
            self._hear_device(new[device.TOPIC][0])
        if before and (swap := _news_of_swap(before[0], now := self._said[POLICY_STATUS][0])):
            found += self._change(stamp_ns(now.header.stamp), self._label, "", swap)
        return found

    def snapshot(self, now_ns: int) -> dict[str, Any]:
        """All that is known, for JSON: None where something is not. Seconds, Hz, V; charge from 0 to 1."""
        silent, shield = self._label == SILENT, self.shield
        silence = ENDED if self._has_ended else SILENT
        status_age_s = max(0.0, (now_ns - self._heard_ns) * 1e-9)
        last = {topic: message for topic, (message, _) in self._said.items()}
        charge: BatteryState | None = last.get(battery.TOPIC)
        return {
            "robot": self.name,
            "state": silence if silent else shield.state,
            "mode": shield.mode,
            "reason": self._silence(status_age_s) if silent else shield.reason,
            "device": self._of_device(now_ns),
            "last_device_fault": self._device_fault,
            "latched": shield.latched,
            "course": course.read(last[course.TOPIC]) if course.TOPIC in last else None,
            "refused": value_of(REFUSED, last.get(POLICY_STATUS)),
            "margin": _finite(shield.margin),
            "keeps_distance": shield.shares,
            "peers_sharing": list(shield.sharing),
            "interventions": shield.interventions,
            "request_age_s": _finite(shield.request_age_s),
            "state_age_s": _finite(shield.state_age_s + (status_age_s if status_age_s > SAID_S else 0.0)),
            "state_bound_s": _finite(shield.state_bound_s),
            "peers_age_s": {name: None if age_s is None else _finite(age_s) for name, age_s in shield.peers.items()},
            "status_age_s": status_age_s,
            "rates_hz": {name: self._rate_hz(name, now_ns) for name in self._streams},
            "publishers": self.publishers,
            "battery": charge and {"charge": _finite(charge.percentage), "voltage": _finite(charge.voltage)},
            "changes": [
                {"time_s": c.time_s, "from": c.before, "to": c.after, "reason": c.reason} for c in self.changes
            ],
        }

    @property
    def stands_still(self) -> bool:
        """Of one that says nothing: whether its process is on this computer all the same."""
        return bool(taken_names(self._node.context.get_domain_id(), [f"/{self.name}/shield"]))

    @property
    def _has_ended(self) -> bool:
        """Whether its shield, which was heard, is in the domain no more."""
        return self._node.count_publishers(self._topic("status")) == 0

    def _silence(self, seconds: float) -> str:
        gone = ": its shield has ended" if self._has_ended else ""
        why = ": its process stands still" if self.stands_still else gone
        return f"silent for {seconds:.0f} s{why}; it was {self.shield.label}"

    def _of_device(self, now_ns: int) -> str:
        """What its own controller says is wrong now, which its shield's reason may have from longer ago."""
        if device.TOPIC not in self._said:
            return ""
        message, heard_ns = self._said[device.TOPIC]
        silent_s = (now_ns - heard_ns) * 1e-9
        silent = silent_s > DEVICE_SILENT_S
        return f"{DRIVER_SILENT} for {silent_s:.0f} s" if silent else value_of(device.FAULT, message)

    def _hear_device(self, message: DiagnosticArray) -> None:
        """Keep its last fault, also one that is over by the next look."""
        time_s, fault, last = stamp_ns(message.header.stamp) * 1e-9, value_of(device.FAULT, message), self._device_fault
        lasts = last is not None and last["until_s"] is None
        if fault:
            since_s = last["since_s"] if lasts and last and kind_of(last["fault"]) == kind_of(fault) else time_s
            self._device_fault = {"fault": fault, "since_s": since_s, "until_s": None}
        elif last is not None and lasts:
            self._device_fault = last | {"until_s": time_s}

    def _rate_hz(self, topic: str, now_ns: int) -> float | None:
        """None where it is not known: each of several publishers numbers its own messages."""
        count = self.publishers[topic]
        return 0.0 if count == 0 else self._streams[topic].rate_hz(now_ns) if count == 1 else None

    def _change(self, time_ns: int, label: str, reason: str, late: str = "") -> list[Change]:
        known = self._label not in ("", SILENT, State.DISARMED.name)
        if known and label == State.DISARMED.name and reason not in DISARMED_BY:
            reason = f"its shield was started again{': ' if reason else ''}{reason}"
        said = [(self._label, late)] * bool(late) + [(label, reason)] * (label != self._label)
        found = [Change(time_ns * 1e-9, self.name, self._label, now, why) for now, why in said]
        self._label = label
        self.changes += [change for change in found if change.before]  # the first state is no change that was seen
        return found

    def _topic(self, name: str) -> str:
        return f"/{self.name}/{name}"


def _news_of_swap(before: DiagnosticArray, now: DiagnosticArray) -> str:
    """What has become of a swap of policies between two messages on `policy/status`; empty for nothing."""
    swap, fingerprint = value_of(SWAP, now), value_of(FINGERPRINT, now)
    if swap in ("", value_of(SWAP, before)):
        return ""
    return f"{swap}; fingerprint {fingerprint}" if fingerprint != value_of(FINGERPRINT, before) else swap


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
