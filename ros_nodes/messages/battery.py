"""The battery of a robot: `battery_state`, by sensor_msgs, and what keeps a robot with an empty one on the ground."""

from math import isfinite, nan

from sensor_msgs.msg import BatteryState

from hardware.types import Battery
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.parameters import declare, declare_following
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import set_stamp

TOPIC = "battery_state"
FULL = 1.05  # gauges overshoot; what says 12 means percent
EVERY_NS = 1_000_000_000
LEAST_CHARGE, LAND_CHARGE = 0.2, 0.1
RUN_DOWN_S, RUN_DOWN_MESSAGES = 5.0, 4


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


def declare_charges(node: ManagedNode) -> tuple[float, float]:
    """Declare and read the least charge for arming, and the one below which the robot comes down."""
    text = "Charge of the battery, from 0 to 1, below which the robot is not armed."
    arms = declare(node, "least_charge", LEAST_CHARGE, text, 0.0, 1.0)
    text = "Charge below which an armed robot lands, parks or stands; at most least_charge, 0 for never."
    lands = declare_following(node, "land_charge", min(LAND_CHARGE, arms), text, 0.0, 1.0)
    check_charges(arms, lands)
    return arms, lands


def check_charges(least_charge: float = LEAST_CHARGE, land_charge: float = 0.0) -> None:
    """ValueError where a robot would land as soon as it is armed."""
    if land_charge > least_charge:
        raise ValueError(
            f"lands below a charge of {land_charge:g}: at most {least_charge:g}, from which on it is armed"
        )


class BatteryTopic:
    """What a robot's battery said last, and for how long it has said that it is empty."""

    def __init__(self, node: ManagedNode, least: float, lands: float = 0.0):
        """`least`: charge below which the robot is not armed, from 0 to 1; `lands`: below which it comes down."""
        self._node, self._least, self._lands = node, least, lands
        self._mailbox = node.subscribe(BatteryState, TOPIC, qos.LATCHED)
        self._newest: BatteryState | None = None
        self._low_since_s: float | None = None
        self._low = 0  # messages in a row
        self.empty = ""  # that it was so at its last word
        self.run_down = ""  # why the robot has to come down

    def hear(self, now_s: float) -> None:
        """Take what has arrived. A load lets a battery sag: it is empty when it has said so for `RUN_DOWN_S`.

        What says nothing of the charge changes nothing, nor does what one of several publishers says.
        """
        taken = self._mailbox.take()
        if taken is None:
            return
        self._newest = message = taken[0]
        if not 0.0 <= message.percentage <= FULL or self._mailbox.publishers > 1:
            return
        if message.percentage >= self._lands:
            self._low_since_s, self._low, self.empty, self.run_down = None, 0, "", ""
            return
        self.empty = f"battery at {100 * message.percentage:.0f} %, below {100 * self._lands:.0f} %"
        self._low += 1
        self._low_since_s = now_s if self._low_since_s is None else self._low_since_s
        if self._low >= RUN_DOWN_MESSAGES and now_s - self._low_since_s >= RUN_DOWN_S:
            self.run_down = f"{self.empty} for over {RUN_DOWN_S:g} s"

    def too_empty(self) -> str:
        """As the function of this name."""
        return too_empty(self._newest, self._least)

    def missing(self) -> list[str]:
        """What keeps the robot from being armed."""
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
