"""What the robots of a team did while it ran, as the monitor hears it."""

import re
import time
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from math import inf
from statistics import median
from typing import Any

from deploy.shield.authority import ASKED, ASKED_TO_END, AT_REST, State
from deploy.shield.drone.distance import OUTSIDE
from deploy.shield.fallback import Mode
from ros_nodes.lifecycle.log_lines import kind_of
from ros_nodes.messages.device import MOTORS_GO_ON, OWN_FAILSAFE, TAKEN
from ros_nodes.operation.monitor import Monitor
from ros_nodes.operation.robot_monitor import DRIVER_SILENT, SILENT, STREAMS, Change

RATES_S = 1.0  # between two looks at the rates
BLINK_S = 0.05  # a fault that was over sooner is not said
SHORT_AGAIN_S = 10.0  # between two lines of faults of one kind that come and go
IN_THE_AIR = (State.LANDING.name, State.STARTING.name, State.POLICY.name)  # what a state of such a robot begins with
TROUBLE = tuple(state.name for state in (State.LANDING, State.STOPPED, State.FAULT))
ON_REQUEST = (ASKED, ASKED_TO_END)  # why a robot lands that is in no trouble
NOT_DOWN = "not known to be down"
GONE = re.compile("lost|nothing|new connection")  # in a fault: a device that is not there, or began again
AGAIN = "new connection"  # what its driver says where it does not come back by itself
DAMPED = Mode.DAMP.name
AS_IT_IS = {State.DISARMED.name: "not armed", State.STOPPED.name: "stopped"}
ON_GROUND = (*(state.name for state in AT_REST), SILENT, "")


class TeamLog:
    """What robots do, as the monitor hears it: who had each of them when, and how often topics were sent."""

    def __init__(self, monitor: Monitor, team: Sequence[str]):
        """`team`: its robots by name."""
        self._monitor, self._team = monitor, team
        self._began_s, self._began_ns = time.monotonic(), time.time_ns()
        self._changes: list[Change] = []
        self._rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._rates_s = 0.0
        self._courses: dict[str, dict[str, Any]] = {}  # of each robot with one, the last that was heard
        self._devices: dict[str, str] = {}  # what was said of each robot's device last
        self._device_seen: dict[str, str] = {}  # ... and seen at the last look: what lasts for less is said once over
        self._short_s: dict[tuple[str, str], float] = {}  # when a fault of a kind that did not last was said
        self._taken: dict[str, str] = {}  # robots that somebody else has, and what their devices said of that last
        self._ended_s: float | None = None  # when the robots were asked to land and end

    def end(self) -> None:
        """From now on a shield that falls silent has ended, as it was asked to."""
        self._ended_s = time.monotonic() - self._began_s

    def listen(self) -> list[tuple[str, str]]:
        """To be called again and again; robots in trouble since, and in which, and what is new of their devices."""
        self._changes += (new := self._monitor.poll())
        return self._look() + [
            (change.robot, f"{change.after}: {change.reason}{self._what_then(change)}")
            for change in new
            if (
                change.after in TROUBLE
                and change.before not in ("", SILENT, change.after)
                and change.reason not in ON_REQUEST
            )
            or (change.before == change.after and change.reason.startswith(OUTSIDE))
        ]

    def _what_then(self, change: Change) -> str:
        """What a person can do about a trouble, where its line would mislead without that."""
        if change.after == State.STOPPED.name and change.robot in self.taken():
            return f"; {MOTORS_GO_ON}"
        is_gone = change.after == State.FAULT.name and GONE.search(change.reason) and "device: " in change.reason
        return _reconnects(change.robot, change.reason) if is_gone and self._ended_s is None else ""

    def taken(self) -> dict[str, str]:
        """Robots that somebody else has, as far as their drivers said last, and in which words."""
        for robot in self._monitor.snapshot()["robots"]:
            said = robot.get("device") or ""
            if TAKEN in said and OWN_FAILSAFE not in said:
                self._taken[robot["robot"]] = said[said.index(TAKEN) :]
            elif not said.startswith(DRIVER_SILENT):
                self._taken.pop(robot["robot"], None)
        return dict(self._taken)

    def left_alone(self, was_up: bool) -> dict[str, str]:
        """Robots that neither Ctrl-C nor an emergency stop moves, and what each is, such as "not armed".

        Of a team that never `was_up` those that were not heard are among them.
        """
        found = {robot: f"{said}, and stays so: nothing here stops its motors" for robot, said in self.taken().items()}
        robots = self._monitor.snapshot()["robots"]
        heard = {robot["robot"] for robot in robots}
        found |= {name: AS_IT_IS[State.DISARMED.name] for name in self._team if not (was_up or name in heard)}
        for robot in robots:
            is_damped = robot["state"] == State.FAULT.name and robot.get("mode") == DAMPED
            if is_damped or robot["state"] in AS_IT_IS:
                found.setdefault(robot["robot"], "damped" if is_damped else AS_IT_IS[robot["state"]])
        return found

    def _look(self) -> list[tuple[str, str]]:
        """Once in `RATES_S`: rates, courses, and what is new of devices, robot and words."""
        if (now_s := time.monotonic()) < self._rates_s:
            return []
        news: list[tuple[str, str]] = []
        self._rates_s = now_s + RATES_S
        self.taken()
        for robot in self._monitor.snapshot()["robots"]:
            if said := robot.get("course"):
                self._courses[robot["robot"]] = said
            if self._ended_s is None:
                fault, last = robot.get("device") or "", robot.get("last_device_fault")
                news += self._news_of_device(robot["robot"], fault) or self._short_fault(robot["robot"], fault, last)
            if robot["state"] == State.POLICY.name:
                for topic, rate_hz in robot["rates_hz"].items():
                    if rate_hz is not None:
                        self._rates[robot["robot"]][topic].append(rate_hz)

        return news

    def _news_of_device(self, robot: str, fault: str) -> list[tuple[str, str]]:
        """A line where its device has come into a fault of another kind, or is well again, and that lasts."""
        lasts = kind_of(self._device_seen.get(robot, "")) == kind_of(fault)
        self._device_seen[robot] = fault
        before = self._devices.get(robot, "")
        if not lasts or kind_of(before) == kind_of(fault):
            return []
        self._devices[robot] = fault
        self._short_s[robot, ""] = time.time()  # what was over by then is said
        if not fault:
            return [(robot, f"device: well again (it was: {before})")]
        return [(robot, f"device: {fault}{_reconnects(robot, fault) if GONE.search(fault) else ''}")]

    def _short_fault(self, robot: str, fault: str, last: Mapping[str, Any] | None) -> list[tuple[str, str]]:
        """A line of a fault that came and went between two looks, once in `SHORT_AGAIN_S` of each kind."""
        if last is None or last["until_s"] is None or fault or self._devices.get(robot):
            return []
        said_s = self._short_s.setdefault((robot, ""), self._began_ns * 1e-9)
        self._short_s[robot, ""] = until_s = last["until_s"]
        kind, now_s = (robot, kind_of(last["fault"])), time.monotonic()
        lasted_s = until_s - last["since_s"]  # what the fault is of may have begun before it was noticed
        if until_s <= said_s or lasted_s < BLINK_S or now_s < self._short_s.get(kind, -inf) + SHORT_AGAIN_S:
            return []
        self._short_s[kind] = now_s
        return [(robot, f"device: {last['fault']}; the fault lasted {lasted_s:.1f} s, it is well again")]

    def result(self) -> dict[str, Any]:
        """`events` and `failures` as of `phalanx deploy`, `rates_hz` while policies had their robots, and `courses`.

        Of every robot there are rates; None where a topic's was not measured, as its policy did not have it so long.
        """
        events = [
            {
                "t_s": round(change.time_s - self._began_ns * 1e-9, 3),
                "robot": change.robot,
                "from": change.before,
                "to": change.after,
                "reason": change.reason,
            }
            for change in sorted(self._changes, key=lambda change: change.time_s)
            if change.time_s * 1e9 >= self._began_ns  # before that it was another team's, with the same names
        ]
        return {
            "duration_s": round(time.monotonic() - self._began_s, 1),
            "failures": [
                {name: event[name] for name in ("robot", "t_s")} | {"why": why} for event, why in self._failed(events)
            ],
            "events": events,
            "courses": {robot: self._course(said) for robot, said in self._courses.items()},
            "rates_hz": {
                robot: {
                    topic: {"median": round(median(r), 1), "min": round(min(r), 1)} if (r := rates.get(topic)) else None
                    for topic in STREAMS
                }
                for robot, rates in ((name, self._rates.get(name, {})) for name in self._team)
            },
        }

    def _course(self, said: dict[str, Any]) -> dict[str, Any]:
        return said | {"passed_s": [round(t_s - self._began_ns * 1e-9, 3) for t_s in said["passed_s"]]}

    def idle(self, ordered: Container[str] = ()) -> list[dict[str, Any]]:
        """The robots that nothing was done with, and why; of those `ordered`, those whose policy never had them.

        One that a person had stopped before is among them: its stop outlives every process.
        """
        states: dict[str, set[str]] = defaultdict(set)
        for change in self._changes:
            states[change.robot] |= {change.before, change.after}
        found = []
        for robot in self._monitor.snapshot()["robots"]:
            name, why = robot["robot"], robot["reason"] or "nothing is said of why"
            if not states[name] - {State.DISARMED.name, State.STOPPED.name, SILENT, ""}:
                stopped = f"{State.STOPPED.name}: " * (State.STOPPED.name in states[name])
                found.append({"robot": name, "why": f"never armed: {stopped}{why}"})
            elif name in ordered and robot["state"] == State.STARTING.name and State.POLICY.name not in states[name]:
                found.append({"robot": name, "why": f"its policy never had it: {why}"})
        return found

    def stopped(self) -> list[str]:
        """Robots that a person has stopped, as far as their shields are heard."""
        robots = self._monitor.snapshot()["robots"]
        return [robot["robot"] for robot in robots if robot["state"] == State.STOPPED.name]

    def _failed(self, events: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
        """The events that are failures, and why; a landing that ends in a fault is one, with all that it was for."""
        last = {event["robot"]: event for event in events if event["to"] != SILENT}
        found: list[tuple[dict[str, Any], str]] = []
        landing: dict[str, int] = {}  # which of `found` is that of a robot that has not been armed since
        for event in events:
            before, now, robot, reason = (event[key] for key in ("from", "to", "robot", "reason"))
            ended = self._ended_s is not None and event["t_s"] >= self._ended_s  # as it was asked to
            landed = now == State.LANDING.name != before and reason not in ON_REQUEST
            fell = ended and now == State.STOPPED.name and before not in ON_GROUND  # a second Ctrl-C
            if now.startswith((State.ARMED.name, State.STARTING.name, State.POLICY.name)):
                landing.pop(robot, None)
            if now == State.FAULT.name and robot in landing:
                first, _ = found[landing[robot]]
                if reason.startswith(first["reason"]):
                    found[landing[robot]] = first, f"{first['to']}: {reason}"
                    continue
            if landed:
                landing[robot] = len(found)
            if (
                now == State.FAULT.name
                or (now == before and reason.startswith(OUTSIDE))
                or landed
                or fell
                or (now == SILENT and before != State.DISARMED.name and not ended)
            ):
                found.append((event, f"{now}: {reason}"))
            if self._ended_s is not None and event is last.get(robot) and now.startswith(IN_THE_AIR):
                waited_s = time.monotonic() - self._began_s - self._ended_s
                why = f": {reason}" if reason and reason not in ON_REQUEST else ""
                found.append((event, f"{NOT_DOWN} {waited_s:.0f} s after it was asked to land: last in {now}{why}"))
        return found


def _reconnects(robot: str, fault: str) -> str:
    """What a person does where the device of a robot is gone, to follow on its fault."""
    order = f"phalanx operate reconnect {robot}"
    return f": {order}" if fault.endswith(AGAIN) else f"; where it does not come back by itself: {order}"
