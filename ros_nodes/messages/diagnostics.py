"""A shield's status, by REP-107: level, a short message and key-value pairs; the mode is one of the keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from types import MappingProxyType
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from deploy.shield.authority import State
from deploy.shield.supervisor import Mode, ShieldReport
from hardware.digest import digest_of
from hardware.spec import RobotSpec
from ros_nodes.messages.conversion import base_frame, set_stamp, stamp_ns

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
LEVELS = {State.STOPPED: ERROR, State.FAULT: ERROR, State.LANDING: WARN}
UNDER_POLICY = {"NOMINAL": OK, "FILTERED": OK}

# Keys of a status.
STATE, MODE, REASON, LATCHED, FINGERPRINT = "state", "mode", "reason", "latched", "fingerprint"
MARGIN, INTERVENTIONS, REQUEST_AGE = "margin", "interventions", "request age [ms]"
STATE_AGE, STATE_BOUND = "age of state [ms]", "oldest state [ms]"
SHARES, SEPARATION = "keeps its distance", "separation [m]"
SHARING = "peers that share"  # "cf2": that keep their distance too, and hear this robot
DELAYS, LAST_DELAY = "delays", "last delay"
PEERS = "age of peers [ms]"  # "cf2 12, cf3 -": a dash for one that was never heard
WAITS, REFUSED = "requests nothing", "refused"  # keys of a policy's: why, and which commands and why
SWAP = "swap"  # what became last of a policy that was to take over in flight
TAKES = "commands"  # of the file that flies, by name
AWAITS = "awaits"  # topics of commands without which an arm is held
NEVER_S = 1e6  # an age above means that there has been no request
HEARD = "goal [ns]"  # stamp of the last goal that it took or refused
ROBOT_TYPE, SPEC_DIGEST = "robot type", "specification"  # keys of a driver's, the second as of `hardware.digest`


class ShieldStatus:
    """Gathers what happens between two messages."""

    def __init__(self, robot: str, period_s: float, separation_m: float = 0.0, state_bound_s: float = nan):
        """`separation_m`: the distance that it keeps from others; `state_bound_s`: for so long its state counts."""
        self._separation_m, self._state_bound_s = separation_m, state_bound_s
        self._status = DiagnosticStatus(name=f"{robot}: shield", hardware_id=robot)
        self._array = DiagnosticArray(status=[self._status])
        self._array.header.frame_id = base_frame(robot)
        self._period_s = period_s
        self._next_s = 0.0
        self._last: tuple[State, Mode, bool, bool, int] | None = None
        self._delays = 0
        self._last_delay = ""
        self._interventions = 0
        self._rejected = 0
        self._reason_of_rejection = ""
        self._values: dict[str, Any] = {}

    def reject(self, reason: str) -> None:
        """Count a message that was no request."""
        self._rejected += 1
        self._reason_of_rejection = reason

    def note(self, reason: str) -> None:
        """Count what is no change of state: a time without what the robot needs, or that it has left its fence."""
        self._delays += 1
        self._last_delay = reason

    def update(
        self, now_s: float, state: State, why: str, report: ShieldReport, request_age_s: float, state_age_s: float = nan
    ) -> bool:
        """Take a cycle's report, in `state` and `why` it is; True when to publish. Ages: of measurements.

        That is a new state, mode or delay, or the period. Under a policy the report says why.
        """
        self._interventions += report.mode.name == "FILTERED"
        reason = report.reason if state is State.POLICY else why or report.reason
        now = state, report.mode, report.latched, report.filtered, self._delays
        due = now != self._last or now_s >= self._next_s
        if due:
            self._last = now
            self._next_s = now_s + self._period_s
            short = f"{state.name} ({report.mode.name})"
            self._status.level = LEVELS.get(state, OK)
            if state is State.POLICY:
                self._status.level = UNDER_POLICY.get(report.mode.name, WARN)
            self._status.message = f"{short}: {reason}" if reason else short
            self._values = {
                STATE: state.name,
                MODE: report.mode.name,
                REASON: reason,
                LATCHED: report.latched,
                SHARES: report.filtered,
                SEPARATION: f"{self._separation_m:.3f}",
                MARGIN: f"{report.margin:.3f}",
                "active constraints": ", ".join(report.active),
                "intervention": f"{report.intervention:.3f}",
                INTERVENTIONS: self._interventions,
                REQUEST_AGE: f"{request_age_s * 1e3:.1f}" if request_age_s < NEVER_S else "-",
                STATE_AGE: f"{state_age_s * 1e3:.1f}",
                STATE_BOUND: f"{self._state_bound_s * 1e3:.1f}",
                DELAYS: self._delays,
                LAST_DELAY: self._last_delay,
                "rejected messages": self._rejected,
                "last rejection": self._reason_of_rejection,
            }
        return due

    def summary(self) -> tuple[bytes, str, dict[str, str]]:
        """Level and message where it is not OK, and who has the robot, in which mode and why; empty at first."""
        level = self._status.level
        values = {key: str(self._values[key]) for key in (STATE, MODE, REASON) if key in self._values}
        return level, "" if level == OK else self._status.message, values

    def message(
        self, time_ns: int, peers: Mapping[str, float | None] = MappingProxyType({}), sharing: Sequence[str] = ()
    ) -> DiagnosticArray:
        """The array to publish, stamped `time_ns` (robot time); `peers` by name: age of the last message, s.

        `sharing`: those that do their half of keeping distances.
        """
        self._values[SHARING] = ", ".join(sharing)
        ages = (f"{name} {'-' if age_s is None else f'{age_s * 1e3:.0f}'}" for name, age_s in peers.items())
        self._values[PEERS] = ", ".join(ages)
        self._status.values = [KeyValue(key=key, value=str(value)) for key, value in self._values.items()]
        set_stamp(self._array.header.stamp, time_ns)
        return self._array


@dataclass(frozen=True, slots=True)
class ShieldMode:
    """State of a robot, and mode of its shield."""

    mode: str
    reason: str = ""
    latched: bool = False  # only a reset gives the robot back to the policy
    time_ns: int = 0  # robot time
    state: str = "?"
    margin: float = nan  # to the nearest constraint, see `deploy.shield`
    interventions: int = 0  # cycles in which the request was changed
    request_age_s: float = nan  # since the measurement that the last request answers; NaN before the first
    peers: Mapping[str, float | None] = field(default_factory=dict)  # name -> age of its last message, s, or None
    shares: bool = False  # whether its filter has the last word, so that it does its half of keeping distances
    separation_m: float = nan  # that it keeps from others
    sharing: tuple[str, ...] = ()  # peers that do their half, as it knows
    delays: int = 0  # times in which it was without commands, measurements or requests
    last_delay: str = ""  # for how long, and who was late
    state_age_s: float = nan  # since the robot's state was measured; infinite before the first
    state_bound_s: float = nan  # from which on the shield does not act on it

    @property
    def label(self) -> str:
        """The state, with the mode where a policy has the robot and its shield does not let it."""
        return (
            f"{self.state} ({self.mode})" if self.state == State.POLICY.name and not self.policy_flies else self.state
        )

    @property
    def policy_flies(self) -> bool:
        """Whether the robot does what its policy wants, as far as the shield lets it."""
        return self.mode in UNDER_POLICY and self.state in (State.POLICY.name, "?")


def read_status(message: DiagnosticArray) -> ShieldMode:
    """The mode in a message of `ShieldStatus`; "?" where it has none."""
    values = {pair.key: pair.value for status in message.status for pair in status.values}
    return ShieldMode(
        values.get(MODE, "?"),
        values.get(REASON, ""),
        values.get(LATCHED) == str(True),
        stamp_ns(message.header.stamp),
        values.get(STATE, "?"),
        _number(values.get(MARGIN)),
        _count(values.get(INTERVENTIONS)),
        _number(values.get(REQUEST_AGE)) * 1e-3,
        {name: None if age == "-" else _number(age) * 1e-3 for name, age in _pairs(values.get(PEERS, ""))},
        values.get(SHARES) == str(True),
        _number(values.get(SEPARATION)),
        tuple(filter(None, values.get(SHARING, "").split(", "))),
        _count(values.get(DELAYS)),
        values.get(LAST_DELAY, ""),
        _number(values.get(STATE_AGE)) * 1e-3,
        _number(values.get(STATE_BOUND)) * 1e-3,
    )


def _pairs(text: str) -> list[list[str]]:
    return [words for part in text.split(", ") if len(words := part.rsplit(" ", 1)) == 2]


def _count(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else 0


def _number(text: str | None, otherwise: float = nan) -> float:
    try:
        return otherwise if text is None else float(text)
    except ValueError:
        return otherwise


def policy_status(robot: str, waits: str, values: Mapping[str, str], time_ns: int) -> DiagnosticArray:
    """What a policy node says of the file that it flies, and why it requests nothing; `waits` is empty where it may."""
    status = DiagnosticStatus(name=f"{robot}: policy", hardware_id=robot, message=waits or "loaded")
    status.level = WARN if waits else OK
    return _array(status, {WAITS: waits, **values}, time_ns)


def driver_status(robot: str, spec: RobotSpec, fingerprint: str, time_ns: int) -> DiagnosticArray:
    """What a driver node says of the robot that it takes its device for, and of the policy file that it was set up for.

    `fingerprint` is empty where it was set up for none.
    """
    status = DiagnosticStatus(name=f"{robot}: driver", hardware_id=robot, message="connected")
    values = {ROBOT_TYPE: spec.name, SPEC_DIGEST: digest_of(spec), FINGERPRINT: fingerprint}
    return _array(status, values, time_ns)


def _array(status: DiagnosticStatus, values: Mapping[str, str], time_ns: int) -> DiagnosticArray:
    status.values = [KeyValue(key=key, value=value) for key, value in values.items()]
    message = DiagnosticArray(status=[status])
    set_stamp(message.header.stamp, time_ns)
    return message


def value_of(key: str, message: DiagnosticArray | None) -> str:
    """The value of `key` in `message`; empty where it has none."""
    statuses = message.status if message is not None else ()
    return next((pair.value for status in statuses for pair in status.values if pair.key == key), "")
