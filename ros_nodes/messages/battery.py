"""The battery of a robot: `battery_state`, by sensor_msgs, and what keeps a robot with an empty one on the ground."""

from math import isfinite, nan

from sensor_msgs.msg import BatteryState

from hardware.types import Battery
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import set_stamp

TOPIC = "battery_state"
FULL = 1.05  # gauges overshoot; what says 12 means percent
EVERY_NS = 1_000_000_000


class BatteryPublisher:
    """Publishes once a second."""

    def __init__(self, node: ManagedNode, namespace: str = ""):
        """`namespace` ends in a slash; empty for the node's own."""
        self._publisher = node.advertise(BatteryState, namespace + TOPIC, qos.LATCHED)
        self._message = BatteryState(temperature=nan, current=nan, charge=nan, capacity=nan, design_capacity=nan)
        self._message.power_supply_status = BatteryState.POWER_SUPPLY_STATUS_DISCHARGING
        self._message.present = True
        self._last_ns = 0

    def due(self, now_ns: int) -> bool:
        """Whether it is time for the next message."""
        return abs(now_ns - self._last_ns) >= EVERY_NS

    def publish(self, battery: Battery, now_ns: int) -> None:
        """Publish `battery`, as it is at `now_ns` (the node's clock)."""
        self._last_ns = now_ns
        self._message.percentage, self._message.voltage = battery.charge, battery.voltage_v
        set_stamp(self._message.header.stamp, now_ns)
        self._publisher.publish(self._message)


class BatteryTopic:
    """What a robot's battery said last."""

    def __init__(self, node: ManagedNode, least: float):
        """`least`: charge below which the robot is not armed, from 0 to 1."""
        self._node, self._least = node, least
        self._mailbox = node.subscribe(BatteryState, TOPIC, qos.LATCHED)
        self._newest: BatteryState | None = None

    def hear(self) -> None:
        """Take what has arrived."""
        self._newest = (self._mailbox.take() or (self._newest,))[0]

    def too_empty(self) -> str:
        """As the function of this name."""
        return too_empty(self._newest, self._least)

    def missing(self) -> list[str]:
        """What keeps the robot from being armed."""
        self.hear()
        silent = self._newest is None and self._node.count_publishers(TOPIC)
        why_not = "no word of the battery yet" if silent else self.too_empty()
        return [why_not] if why_not else []

    def values(self) -> dict[str, str]:
        """What is known of it, for `/diagnostics`."""
        return {} if self._newest is None else values(self._newest)


def values(message: BatteryState) -> dict[str, str]:
    """What is known of it, for `/diagnostics`."""
    share = message.percentage if 0.0 <= message.percentage <= FULL else nan
    found = {"battery [%]": 100 * share, "battery [V]": message.voltage}
    return {key: f"{value:.4g}" for key, value in found.items() if isfinite(value)}


def too_empty(message: BatteryState | None, least: float) -> str:
    """Why a robot with this battery should stay where it is, below the charge `least`; empty where that is unknown."""
    if message is None or not isfinite(message.percentage):
        return ""
    if not 0.0 <= message.percentage <= FULL:
        return f"battery_state says {message.percentage:g} where a share from 0 to 1 is due"
    if message.percentage >= least:
        return ""
    return f"battery at {100 * message.percentage:.0f} %, needs {100 * least:.0f} %"
