"""The nodes of a team file as processes of this program, where there is no `ros2 launch`, and what came of it."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from deploy.shield.authority import State
from hardware import load_robot
from hardware.drivers import last_resort_of
from ros_nodes.lifecycle.bring_up import NotUp
from ros_nodes.lifecycle.log_lines import kind_of
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.lifecycle.processes import Processes
from ros_nodes.lifecycle.transport import transport_settings
from ros_nodes.mission.deploy import CONFIG, RESULT, unwritten
from ros_nodes.mission.launch_plan import NOT_UP, Node, plan
from ros_nodes.mission.team_log import NOT_DOWN, TeamLog
from ros_nodes.operation.arming import ARM_S
from ros_nodes.operation.monitor import Monitor, monitoring
from ros_nodes.operation.robot_monitor import SILENT
from ros_nodes.plans.prepare import PARAMETERS
from ros_nodes.plans.team import Team
from ros_nodes.plans.team_file import load_team
from ros_nodes.plans.team_mission import team_mission

WATCH_S = 0.1
SILENCE_S = 10.0  # after the end of a process in which its robots are found to be silent
WAITS_S = 5.0  # after all nodes are up, what keeps a simulated robot from being armed is said
LAND_IT = "nothing here stops its motors; land it by its remote control, whose kill switch stops them"
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


@dataclass(frozen=True)
class Listener:
    """Who hears of a team while it runs. `starts`: all is checked. `watch`: again and again. `fails`: why, at once.

    `up`: how many seconds after the start all nodes are up, whether a person arms, and who is STOPPED. `waits`: a
    little later, each robot that arms itself and could not be armed, and why. `troubles`: each that lands or was
    stopped, and why, and each whose device has a fault, is lost, or is well again. `stops`: at Ctrl-C, and where the
    team could not be brought up, how many processes are waited for, and the robots that are left as they are, with how.
    """

    starts: Callable[[], None] = lambda: None
    watch: Callable[[], None] = lambda: None
    fails: Callable[[str], None] = lambda why: None
    up: Callable[[float, bool, Sequence[str]], None] = lambda after_s, by_a_person, stopped: None
    waits: Callable[[str, str], None] = lambda robot, why: None
    troubles: Callable[[str, str], None] = lambda robot, why: None
    stops: Callable[[int, Mapping[str, str]], None] = lambda processes, left: None


def run_team(file: Path, out: Path, listener: Listener | None = None) -> dict[str, Any]:
    """Start the nodes of the team file and watch them until Ctrl-C or SIGTERM; then shields end first, then all others.

    ROS is that of the environment: domain, discovery range, middleware. Returns what `TeamLog` heard, with the share of
    a core that each process took, `armable_after_s`, when all nodes were up, and `left`, why robots could not be
    brought down and what a person can do; it is in `RESULT` in `out` too. A
    process that ends by itself, a recorder too, is a failure, and the others go on, as long as there is a shield and
    all nodes could be brought up. One with policies or shields is started again, once, as by launch files: robots of
    its own are DISARMED then, or STOPPED.

    TeamError for a bad file, ValueError where another team has nodes of these names.
    """
    given, listener = load_team(file), listener or Listener()
    # A shell gives what it starts in the background an ignored SIGINT; here that is how robots are landed.
    ctrl_c = CtrlC()
    signal.signal(signal.SIGINT, ctrl_c)
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGINT, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGTERM, before)
        monitor = stack.enter_context(monitoring([robot.name for robot in given.robots]))
        nodes = plan({"team": str(file), "only": "", "out": str(out)}, monitor.refuse_taken)
        settings = transport_settings(os.environ)
        processes = stack.enter_context(Processes([CONFIG, out / PARAMETERS], out / "logs", settings, lands=True))
        listener.starts()
        team = _RunningTeam(given, nodes, processes, monitor, out / NOT_UP, listener, file)
        with suppress(KeyboardInterrupt):
            while team.goes_on():
                listener.watch()
                time.sleep(WATCH_S)
        ctrl_c.raises = False
        result = team.end(ctrl_c)
    if _read_not_up(out / NOT_UP) == []:
        (out / NOT_UP).unlink()
    result["unwritten"] = []
    result["unwritten"] += unwritten(out / RESULT, lambda: (out / RESULT).write_text(json.dumps(result, indent=1)))
    return result


class _RunningTeam:
    """The processes of a team, and what came of them so far."""

    def __init__(
        self,
        given: Team,
        nodes: Sequence[Node],
        processes: Processes,
        monitor: Monitor,
        file: Path,
        listener: Listener,
        given_file: Path,
    ):
        """Start the `nodes`. Their operator writes to `file` which of them are not up; `given_file`: of the team."""
        self._processes, self._file, self._listener, self._given_file = processes, file, listener, given_file
        self._team = [robot.name for robot in given.robots]
        self._simulated_robots = given.simulated
        specs = {robot.name: load_robot(robot.type) for robot in given.robots}
        self._drivers = {robot.name: robot.driver for robot in given.robots}
        self._on_feet = [name for name, spec in specs.items() if not (spec.flight or spec.fixed_base)]
        self._simulated = list(given.simulated) == self._team  # with a real robot among them a person arms all of them
        self._ordered = {name for order in team_mission(given).orders for name in order.commands}
        self._load = MachineLoad()
        self._names = [_start(processes, node) for node in nodes]
        self._again = {name: node for name, node in zip(self._names, nodes, strict=True) if node.get("respawn")}
        self._log, self._began_s = TeamLog(monitor, self._team), time.monotonic()
        self._operators = [name for name in self._names if name.endswith("operator")]
        self._failures: list[dict[str, Any]] = []
        self._armable_s: float | None = None  # when all nodes were up
        self._refused: set[str] = set()  # nodes that were up, and refused when they were started again
        self._waits: dict[str, str] | None = None  # why of the robots that could not be armed in `WAITS_S`

    def goes_on(self) -> bool:
        """Look at all of it once; False where there is no shield left, or a node that could not be brought up."""
        if not all([self._replace(name) for name in self._processes.ended()]):  # the others go on
            return False
        if not self._shields:
            return False
        self._see_who_is_up()
        self._listen()
        if self._simulated and self._waits is None and self._armable_s and self._age_s > self._armable_s + WAITS_S:
            self._waits = {each["robot"]: each["why"] for each in self._log.idle()}
            for robot, why in self._waits.items():
                self._listener.waits(robot, why)
        return True

    def _listen(self) -> None:
        for robot, trouble in self._log.listen():
            self._listener.troubles(robot, trouble)

    def end(self, ctrl_c: CtrlC) -> dict[str, Any]:
        """Land, end all processes, and return the result; `ctrl_c` counts how often that is asked for."""
        pressed = min(ctrl_c.count, 1)  # that of now
        if self._shields:
            self._log.end()
            self._listen()
            self._listener.stops(len(self._processes), self._log.left_alone(self._armable_s is not None))
        took_s = self._age_s
        used = self._processes.cpu_s()
        if self._simulated and (self._waits or took_s > ARM_S):
            self._failures += self._idle(took_s, self._load.blame(sum(used.values())))
        # A real robot on its feet would fall where its shield was killed: it waits for a person.
        patience_s = inf if {*self._on_feet} - {*self._simulated_robots} else LANDING_S
        wrong = self._processes.end_all(
            self._shields, patience_s, signal.SIGINT, self._listen, lambda: ctrl_c.count - pressed
        )
        ended_s = round(self._age_s, 3)
        for name, why in wrong.items():
            robots = self._carried(name)
            stood = [robot for robot in self._on_feet if robot in robots.split(", ")]
            asks = f"; {' and '.join(stood)} stood, and waited for: phalanx operate disarm {' '.join(stood)}"
            self._failures.append({"robot": robots, "t_s": ended_s, "why": why + (asks if stood else "")})
        time.sleep(WATCH_S)
        self._listen()  # to what shields said last
        cores = {name: round(cpu_s / took_s, 4) for name, cpu_s in used.items()}
        result = {"team": self._team, **self._log.result(), "armable_after_s": self._armable_s, "cores": cores}
        seen = [each for each in result["failures"] if not _is_of_one(each, self._failures)]
        for each in seen:
            if ctrl_c.count > pressed and each["why"].startswith(State.STOPPED.name):
                each["why"] += "; Ctrl-C was pressed a second time"
        result["failures"] = sorted([*seen, *self._failures], key=lambda failure: failure["t_s"])
        left = self._not_held(result["events"])
        left |= {each["robot"]: each["why"] for each in seen if each["why"].startswith(NOT_DOWN)}
        result["left"] = {name: f"{why}; {self._last_resort(name)}" for name, why in left.items()}
        result["left"] |= {name: f"{why}; {LAND_IT}" for name, why in self._log.taken().items()}
        return result

    def _not_held(self, events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Real robots on their feet that ended in a trouble, and in which: a person has to hold and look at them."""
        last = {each["robot"]: each for each in events if not each["to"].startswith(SILENT)}
        real = [name for name in self._on_feet if name not in self._simulated_robots and name in last]
        ended = {name: f"{last[name]['to']}: {last[name]['reason']}" for name in real}
        return {name: why for name, why in ended.items() if why.startswith((State.FAULT.name, State.STOPPED.name))}

    def _last_resort(self, robot: str) -> str:
        """What is left to a person where a robot could not be brought down."""
        driver = self._drivers[robot]
        return (last_resort_of(driver) if driver else "") or "stop it by its own switch, and look at it"

    @property
    def _age_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def _shields(self) -> list[str]:
        return [name for name in self._names if "shield" in name]

    def _carried(self, name: str) -> str:
        """Whose process it is, by name; empty for one of the whole team."""
        simulates = name.endswith("simulated_robots")
        return ", ".join(self._simulated_robots if simulates else self._processes.robots_of(name, self._team))

    def _fail(self, robot: str, why: str) -> None:
        self._failures.append({"robot": robot, "t_s": round(self._age_s, 3), "why": why})
        self._listener.fails(f"{robot}: {why}" if robot else why)

    def _replace(self, name: str) -> bool:
        """Start the process `name`, which has ended, again if that is due; False where it could not bring nodes up."""
        brings_up = name in self._operators and self._armable_s is None
        not_up = _not_up(self._processes, self._file, self._load) if brings_up else []
        starts = "; it is started again, once: its robots are a person's to arm" if name in self._again else ""
        carried = self._carried(name)
        for robot, why in not_up or [(carried, self._processes.why_ended(name) + starts)]:
            looks = f"; what is wrong: phalanx doctor {self._given_file}" if not_up and self._drivers.get(robot) else ""
            self._fail(robot if robot in (*self._team, carried) else "", why + looks)
        self._processes.forget(name)
        if name in self._again:
            _start(self._processes, self._again.pop(name))
        else:
            self._names.remove(name)
        return not not_up

    def _see_who_is_up(self) -> None:
        """Whether all nodes are up for the first time, and which refused after they had been."""
        down = _read_not_up(self._file)
        if self._armable_s is None and down == []:
            self._armable_s = round(self._age_s, 2)
            self._listen()
            self._listener.up(self._armable_s, not self._simulated, self._log.stopped())
        if self._armable_s is None:
            return
        for gone in down or []:
            if gone.node not in self._refused:
                self._refused.add(gone.node)
                why = f"{gone.why} after it was started again: {self._processes.last_line_of(gone.node)}"
                self._fail(gone.robot, why)

    def _idle(self, t_s: float, busy: str) -> list[dict[str, Any]]:
        """The failures of robots that nothing was done with; `busy`: of those that may wait for the machine only."""
        found = self._log.idle(self._ordered)
        for each in found:  # what was so all the time is not the machine's doing
            stands = self._waits is not None and kind_of(self._waits.get(each["robot"], "")) == kind_of(each["why"])
            each["why"] += "" if stands else busy
        return [{**each, "t_s": round(t_s, 3)} for each in found]


def _is_of_one(silence: dict[str, Any], failures: list[dict[str, Any]]) -> bool:
    """Whether a robot is silent for its process ended: that is one of `failures` already."""
    ends = [each["t_s"] for each in failures if silence["robot"] in each["robot"].split(", ")]
    return silence["why"].startswith(SILENT) and any(0.0 <= silence["t_s"] - t_s < SILENCE_S for t_s in ends)


def _not_up(processes: Processes, file: Path, load: MachineLoad) -> list[tuple[str, str]]:
    """Of each node of an operator's `file` of those that could not be brought up: its robot's name, and why."""
    found = _read_not_up(file) or []
    busy = load.blame(sum(processes.cpu_s().values()))
    return [(n.robot, f"{n.why}{processes.said_by(n)}{busy if n.late else ''}") for n in found]


def _read_not_up(file: Path) -> list[NotUp] | None:
    """The nodes of an operator's `file` of those that are not up; None while it has not brought up what it could."""
    return [NotUp(**each) for each in json.loads(file.read_text())] if file.exists() else None


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
