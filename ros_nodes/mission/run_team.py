"""The nodes of a team file as processes of this program, where there is no `ros2 launch`, and what came of it."""

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from deploy.shield.authority import ASKED, AT_REST, State
from ros_nodes.lifecycle.bring_up import NOT_UP_AGAIN, NotUp
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.lifecycle.processes import Processes
from ros_nodes.lifecycle.transport import transport_settings
from ros_nodes.mission.deploy import CONFIG, unwritten
from ros_nodes.mission.launch_plan import NOT_UP, Node, plan
from ros_nodes.operation.arming import ARM_S
from ros_nodes.operation.monitor import SILENT, STREAMS, Change, Monitor, monitoring
from ros_nodes.plans.prepare import PARAMETERS
from ros_nodes.plans.team_file import load_team

RESULT = "result.json"
WATCH_S = 0.1
SILENCE_S = 10.0  # after the end of a process in which its robots are found to be silent
RATES_S = 1.0  # between two looks at the rates
IN_THE_AIR = (State.LANDING.name, State.STARTING.name, State.POLICY.name)  # what a state of such a robot begins with
ON_GROUND = (*(state.name for state in AT_REST), SILENT, "")
LANDING_S = 30.0  # for a shield that brings its robot down before it ends


class CtrlC:
    """The handler of SIGINT while a team runs: the first raises KeyboardInterrupt, until the robots land; all count.

    What lands robots cannot be interrupted so, and hears of each of them.
    """

    def __init__(self) -> None:
        self.count, self.raises = 0, True

    def __call__(self, *_: Any) -> None:
        self.count += 1
        if self.raises:
            self.raises = False
            raise KeyboardInterrupt


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
        self._ended_s: float | None = None  # when the robots were asked to land and end

    def end(self) -> None:
        """From now on a shield that falls silent has ended, as it was asked to."""
        self._ended_s = time.monotonic() - self._began_s

    def listen(self) -> None:
        """To be called again and again."""
        self._changes += self._monitor.poll()
        if (now_s := time.monotonic()) < self._rates_s:
            return
        self._rates_s = now_s + RATES_S
        for robot in self._monitor.snapshot()["robots"]:
            if said := robot.get("course"):
                self._courses[robot["robot"]] = said
            if robot["state"] == State.POLICY.name:
                for topic, rate_hz in robot["rates_hz"].items():
                    if rate_hz is not None:
                        self._rates[robot["robot"]][topic].append(rate_hz)

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

    def idle(self) -> list[dict[str, Any]]:
        """The robots that nothing was done with, and why."""
        known = {State.DISARMED.name, SILENT, ""}
        acted = {change.robot for change in self._changes if {change.before, change.after} - known}
        robots = self._monitor.snapshot()["robots"]
        return [
            {"robot": robot["robot"], "why": f"never armed: {robot['reason'] or 'nothing is said of why'}"}
            for robot in robots
            if robot["robot"] not in acted
        ]

    def _failed(self, events: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
        """The events that are failures, and why; a landing that ends in a fault is one, with all that it was for."""
        last = {event["robot"]: event for event in events if event["to"] != SILENT}
        found: list[tuple[dict[str, Any], str]] = []
        landing: dict[str, int] = {}  # which of `found` is that of a robot that has not been armed since
        for event in events:
            before, now, robot, reason = (event[key] for key in ("from", "to", "robot", "reason"))
            ended = self._ended_s is not None and event["t_s"] >= self._ended_s  # as it was asked to
            landed = now == State.LANDING.name != before and reason != ASKED
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
                or landed
                or fell
                or (now == SILENT and before != State.DISARMED.name and not ended)
            ):
                found.append((event, f"{now}: {reason}"))
            if self._ended_s is not None and event is last.get(robot) and now.startswith(IN_THE_AIR):
                waited_s = time.monotonic() - self._began_s - self._ended_s
                found.append(
                    (event, f"not known to be down {waited_s:.0f} s after it was asked to land: last in {now}")
                )
        return found


def run_team(
    file: Path,
    out: Path,
    watch: Callable[[], None] = lambda: None,
    on_start: Callable[[], None] = lambda: None,
    on_failure: Callable[[str], None] = lambda why: None,
    on_stop: Callable[[int], None] = lambda processes: None,
    on_up: Callable[[float, bool], None] = lambda after_s, by_a_person: None,
) -> dict[str, Any]:
    """Start the nodes of the team file and watch them until Ctrl-C; then shields end first, all others after them.

    ROS is that of the environment: domain, discovery range, middleware. `on_start` is called once all is checked,
    `watch` again and again. Returns what `TeamLog` heard, with the share of a core that each process took; it is in
    `RESULT` in `out` too. A process that ends by itself, a recorder too, is a failure, of which `on_failure` hears at
    once, and the others go on, as long as there is a shield and all nodes could be brought up. One with policies or
    shields is started again, once, as by launch files: robots of its own are DISARMED then, or STOPPED. `on_stop` hears
    of Ctrl-C, and of a team that could not be brought up: how many processes are waited for. `on_up` hears once
    how many seconds after the start all nodes are up, `armable_after_s` of the result, and whether a person arms.

    TeamError for a bad file, ValueError where another team has nodes of these names.
    """
    given = load_team(file)
    team = [robot.name for robot in given.robots]
    failures: list[dict[str, Any]] = []
    # A shell gives what it starts in the background an ignored SIGINT; here that is how robots are landed.
    ctrl_c = CtrlC()
    signal.signal(signal.SIGINT, ctrl_c)
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGINT, signal.default_int_handler)
        monitor = stack.enter_context(monitoring(team))
        nodes = plan({"team": str(file), "only": "", "out": str(out)}, monitor.refuse_taken)
        settings = transport_settings(os.environ)
        processes = stack.enter_context(Processes([CONFIG, out / PARAMETERS], out / "logs", settings, lands=True))
        on_start()
        load, is_up = MachineLoad(), True
        names, log, began_s = [_start(processes, node) for node in nodes], TeamLog(monitor, team), time.monotonic()
        operators = [name for name in names if name.endswith("operator")]
        simulated, armable_s, refused = list(given.simulated) == team, None, set[str]()

        def carried_by(name: str) -> str:
            return ", ".join(processes.robots_of(name, team))

        def fail(robot: str, why: str) -> None:
            failures.append({"robot": robot, "t_s": round(time.monotonic() - began_s, 3), "why": why})
            on_failure(f"{robot}: {why}" if robot else why)

        again = {name: node for name, node in zip(names, nodes, strict=True) if node.get("respawn")}
        try:
            while True:
                for name in processes.ended():  # the others go on: a robot without its policy is landed by its shield
                    not_up = _not_up(processes, out / NOT_UP, load) if name in operators else []
                    starts = "; it is started again, once: its robots are a person's to arm" if name in again else ""
                    carried = carried_by(name)
                    for robot, why in not_up or [(carried, processes.why_ended(name) + starts)]:
                        robot = robot if robot in (*team, carried) else ""
                        fail(robot, why)
                    is_up = is_up and not not_up
                    processes.forget(name)
                    if name in again:
                        _start(processes, again.pop(name))
                    else:
                        names.remove(name)
                if not is_up:
                    log.end()
                    on_stop(len(processes))
                    break
                if not any("shield" in name for name in names):
                    break
                if armable_s is None and _is_up(out / NOT_UP):
                    armable_s = round(time.monotonic() - began_s, 2)
                    on_up(armable_s, not simulated)
                for each in _refused_again(out / NOT_UP_AGAIN):
                    if each.node not in refused:
                        refused.add(each.node)
                        why = f"{each.why} after it was started again: {processes.last_line_of(each.node)}"
                        fail(each.robot, why)
                log.listen()
                watch()
                time.sleep(WATCH_S)
        except KeyboardInterrupt:
            log.end()
            on_stop(len(processes))
        ctrl_c.raises = False
        pressed = min(ctrl_c.count, 1)  # that of now
        took_s = time.monotonic() - began_s
        if took_s > ARM_S and simulated:  # with a real robot among them a person arms all of them
            busy = load.blame(sum(processes.cpu_s().values()))
            failures += [{**each, "t_s": round(took_s, 3), "why": each["why"] + busy} for each in log.idle()]
        cores = {name: round(cpu_s / took_s, 4) for name, cpu_s in processes.cpu_s().items()}
        shields = [name for name in names if "shield" in name]
        wrong = processes.end_all(shields, LANDING_S, signal.SIGINT, log.listen, lambda: ctrl_c.count - pressed)
        ended_s = round(time.monotonic() - began_s, 3)
        failures += [{"robot": carried_by(name), "t_s": ended_s, "why": why} for name, why in wrong.items()]
        time.sleep(WATCH_S)
        log.listen()  # to what shields said last
        result = {"team": list(team), **log.result(), "armable_after_s": armable_s, "cores": cores}
        seen = [each for each in result["failures"] if not _is_of_one(each, failures)]
        for each in seen:
            if ctrl_c.count > pressed and each["why"].startswith(State.STOPPED.name):
                each["why"] += "; Ctrl-C was pressed a second time"
        result["failures"] = sorted([*seen, *failures], key=lambda failure: failure["t_s"])
    result["unwritten"] = []
    result["unwritten"] += unwritten(out / RESULT, lambda: (out / RESULT).write_text(json.dumps(result, indent=1)))
    return result


def _is_up(file: Path) -> bool:
    """Whether an operator's `file` says that no node is not up."""
    return file.exists() and file.read_text() == "[]"


def _is_of_one(silence: dict[str, Any], failures: list[dict[str, Any]]) -> bool:
    """Whether a robot is silent for its process ended: that is one of `failures` already."""
    ends = [each["t_s"] for each in failures if silence["robot"] in each["robot"].split(", ")]
    return silence["why"].startswith(SILENT) and any(0.0 <= silence["t_s"] - t_s < SILENCE_S for t_s in ends)


def _not_up(processes: Processes, file: Path, load: MachineLoad) -> list[tuple[str, str]]:
    """Of each node of an operator's `file` of those that could not be brought up: its robot's name, and why."""
    found = [NotUp(**each) for each in json.loads(file.read_text())] if file.exists() else []
    busy = load.blame(sum(processes.cpu_s().values()))
    return [(n.robot, f"{n.why}: {processes.last_line_of(n.node)}{busy if n.late else ''}") for n in found]


def _refused_again(file: Path) -> list[NotUp]:
    """The nodes of an operator's `file` of those that refuse since they were started again."""
    return [NotUp(**each) for each in json.loads(file.read_text())] if file.exists() else []


def _start(processes: Processes, node: Node) -> str:
    """Start a node of a plan; returns the name of its process, which is that of its log too."""
    if carried := node.get("arguments"):
        name = f"{carried[0].replace('/', '_')}_host"
        processes.start_host(name, carried)
        return name
    namespace, module = node["namespace"].strip("/"), node["executable"]
    name = f"{namespace}_{module.removesuffix('_node')}".strip("_")
    own = [values for values in node["parameters"] if not isinstance(values, str)]
    parameters = [f"{key}:={json.dumps(value)}" for values in own for key, value in values.items()]
    processes.start(name, module, namespace, parameters)
    return name
