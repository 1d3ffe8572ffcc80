"""A shield's status, by REP-107: level, a short message and key-value pairs; the mode is one of the keys."""

from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from deploy.shield.supervisor import Mode, ShieldReport
from ros_nodes.messages.conversion import base_frame, set_stamp, stamp_ns

LEVELS = {"NOMINAL": DiagnosticStatus.OK, "FILTERED": DiagnosticStatus.OK, "ESTOP": DiagnosticStatus.ERROR}


MODE, REASON, LATCHED = "mode", "reason", "latched"  # keys of a status


class ShieldStatus:
    """Gathers what happens between two messages."""

    def __init__(self, robot: str, period_s: float):
        self._status = DiagnosticStatus(name=f"{robot}: shield", hardware_id=robot)
        self._array = DiagnosticArray(status=[self._status])
        self._array.header.frame_id = base_frame(robot)
        self._period_s = period_s
        self._next_s = 0.0
        self._last: tuple[Mode, bool] | None = None
        self._interventions = 0
        self._rejected = 0
        self._reason_of_rejection = ""
        self._values: dict[str, Any] = {}

    def reject(self, reason: str) -> None:
        """Count a message that was no request."""
        self._rejected += 1
        self._reason_of_rejection = reason

    def update(self, now_s: float, report: ShieldReport, request_age_s: float) -> bool:
        """Take a cycle's report; True when it is time to publish: a new mode, a hold latched, or the period over."""
        self._interventions += report.mode.name == "FILTERED"
        now = report.mode, report.latched
        due = now != self._last or now_s >= self._next_s
        if due:
            self._last = now
            self._next_s = now_s + self._period_s
            self._status.level = LEVELS.get(report.mode.name, DiagnosticStatus.WARN)
            self._status.message = f"{report.mode.name}: {report.reason}" if report.reason else report.mode.name
            self._values = {
                MODE: report.mode.name,
                REASON: report.reason,
                LATCHED: report.latched,
                "margin": f"{report.margin:.3f}",
                "active constraints": ", ".join(report.active),
                "intervention": f"{report.intervention:.3f}",
                "interventions": self._interventions,
                "request age [ms]": f"{request_age_s * 1e3:.1f}",
                "rejected messages": self._rejected,
                "last rejection": self._reason_of_rejection,
            }
        return due

    def message(self, time_ns: int) -> DiagnosticArray:
        """The array to publish, stamped `time_ns` (robot time)."""
        self._status.values = [KeyValue(key=key, value=str(value)) for key, value in self._values.items()]
        set_stamp(self._array.header.stamp, time_ns)
        return self._array


@dataclass(frozen=True, slots=True)
class ShieldMode:
    """Mode of a robot's shield."""

    mode: str
    reason: str = ""
    latched: bool = False  # only a reset gives the robot back to the policy
    time_ns: int = 0  # robot time


def read_status(message: DiagnosticArray) -> ShieldMode:
    """The mode in a message of `ShieldStatus`; "?" where it has none."""
    values = {pair.key: pair.value for status in message.status for pair in status.values}
    stamp = stamp_ns(message.header.stamp)
    return ShieldMode(values.get(MODE, "?"), values.get(REASON, ""), values.get(LATCHED) == str(True), stamp)
