"""What a robot's own controller says of itself: `device`, from its driver to its shield."""

from functools import partial

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.duration import Duration

from hardware.types import DeviceStatus
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.log_lines import kind_of
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import set_stamp
from ros_nodes.messages.diagnostics import value_of
from ros_nodes.messages.first_speaker import OneSpeaker

TOPIC = "device"
ARMED, FAULT = "armed", "fault"
EVERY_NS = 1_000_000_000
AGAIN_NS = 10_000_000_000  # between two of a log's lines that differ in their numbers only
LONGEST = 200  # characters of a fault
OWN_FAILSAFE = "by its own failsafe"  # which an emergency stop reaches
TAKEN = "flown in mode "  # in the fault of a drone that obeys somebody else, or its own failsafe
MOTORS_GO_ON = "its motors go on: who took it over keeps it, and the kill switch of its remote control is what is left"


class DevicePublisher:
    """Publishes what is new at once, and the same again once a second."""

    def __init__(self, node: ManagedNode, robot: str):
        self._publisher = node.advertise(DiagnosticArray, TOPIC, qos.LATCHED)
        # Its last word may say why the driver ended.
        node.on_release(partial(self._publisher.wait_for_all_acked, Duration(seconds=qos.ACKED_S)))
        self._status = DiagnosticStatus(name=f"{robot}: device", hardware_id=robot)
        self._message = DiagnosticArray(status=[self._status])
        self._said: DeviceStatus | None = None
        self._last_ns = 0
        self._logged_ns: dict[str, int] = {}  # when a kind of fault was to be logged last

    def update(self, status: DeviceStatus, now_ns: int) -> bool:
        """Publish `status` at `now_ns` (the node's clock) where it is time; whether its fault is to be logged.

        That is a new one; one that differs by its numbers only, or comes and goes, once in `AGAIN_NS`.
        """
        before, self._said = self._said, status
        if status != before or abs(now_ns - self._last_ns) >= EVERY_NS:
            self._last_ns = now_ns
            self._status.level = DiagnosticStatus.ERROR if status.fault else DiagnosticStatus.OK
            self._status.message = status.fault or ("armed" if status.armed else "disarmed")
            values = {ARMED: str(status.armed), FAULT: status.fault}
            self._status.values = [KeyValue(key=key, value=value) for key, value in values.items()]
            set_stamp(self._message.header.stamp, now_ns)
            self._publisher.publish(self._message)
        if not status.fault or (before is not None and status.fault == before.fault):
            return False
        kind = kind_of(status.fault)
        if kind in self._logged_ns and abs(now_ns - self._logged_ns[kind]) < AGAIN_NS:
            return False
        self._logged_ns[kind] = now_ns
        return True

    def health(self) -> tuple[bytes, str, dict[str, str]]:
        """Of what was said last, for `/diagnostics`."""
        return self._status.level, self._status.message, {pair.key: pair.value for pair in self._status.values}


class DeviceTopic:
    """The newest of it, from the one node that publishes it; forgotten with that node."""

    def __init__(self, node: ManagedNode):
        self.mailbox = node.subscribe(DiagnosticArray, TOPIC, qos.LATCHED)
        self._publishers, self._fault, self._is_armed = 0, "", True
        self._speaker = OneSpeaker()
        self._is_unsure = False  # two spoke, or another one did, and since then who is left has said nothing

    def hear(self) -> str:
        """Why the device does not obey, or must not be armed; empty for none, and where no driver says anything."""
        before, self._publishers = self._publishers, self.mailbox.publishers
        taken = self.mailbox.take()
        if max(before, self._publishers) > 1:
            self._is_unsure = True  # whose a message was is not known
        elif not self._publishers:
            self._fault, self._is_armed, self._is_unsure, self._speaker = "", True, False, OneSpeaker()
        elif taken is not None:
            self._is_unsure = not self._speaker.believes(self.mailbox.number)
            if not self._is_unsure:
                fault = value_of(FAULT, taken[0])[:LONGEST]
                self._is_armed = value_of(ARMED, taken[0]) != str(False)
                self._fault = f"device: {fault}" if fault else ""
        return self._fault

    def motors_go_on(self) -> str:
        """That an emergency stop did not reach the motors, for somebody else has the robot; or an empty string."""
        said = self.hear()
        return MOTORS_GO_ON if TAKEN in said and OWN_FAILSAFE not in said else ""

    def waits(self) -> str:
        """Why the device does not act on commands yet; empty where it does, and where no driver says anything."""
        self.hear()
        return "" if self._is_armed else "device: it is not armed yet"

    def missing(self) -> str:
        """Why the robot must not be armed; empty for nothing."""
        return self.hear() or ("device: it has said nothing since two spoke for it" if self._is_unsure else "")
