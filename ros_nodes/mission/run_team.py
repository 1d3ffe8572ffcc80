"""The nodes of a team file as processes of this program, where there is no `ros2 launch`, and what came of it."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deploy.shield.authority import State
from ros_nodes.lifecycle.bring_up import NotUp
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.lifecycle.processes import Processes
from ros_nodes.lifecycle.transport import transport_settings
from ros_nodes.mission.deploy import CONFIG, unwritten
from ros_nodes.mission.launch_plan import NOT_UP, Node, plan
from ros_nodes.mission.team_log import TeamLog
from ros_nodes.operation.arming import ARM_S
from ros_nodes.operation.monitor import SILENT, monitoring
from ros_nodes.plans.prepare import PARAMETERS
from ros_nodes.plans.team_file import load_team
from ros_nodes.plans.team_mission import team_mission

RESULT = "result.json"
WATCH_S = 0.1
SILENCE_S = 10.0  # after the end of a process in which its robots are found to be silent
WAITS_S = 5.0  # after all nodes are up, what keeps a simulated robot from being armed is said
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


def run_team(
    file: Path,
    out: Path,
    watch: Callable[[], None] = lambda: None,
    on_start: Callable[[], None] = lambda: None,
    on_failure: Callable[[str], None] = lambda why: None,
    on_stop: Callable[[int], None] = lambda processes: None,
    on_up: Callable[[float, bool], None] = lambda after_s, by_a_person: None,
    on_wait: Callable[[str, str], None] = lambda robot, why: None,
) -> dict[str, Any]:
    """Start the nodes of the team file and watch them until Ctrl-C; then shields end first, all others after them.

    ROS is that of the environment: domain, discovery range, middleware. `on_start` is called once all is checked,
    `watch` again and again. Returns what `TeamLog` heard, with the share of a core that each process took; it is in
    `RESULT` in `out` too. A process that ends by itself, a recorder too, is a failure, of which `on_failure` hears at
    once, and the others go on, as long as there is a shield and all nodes could be brought up. One with policies or
    shields is started again, once, as by launch files: robots of its own are DISARMED then, or STOPPED. `on_stop` hears
    of Ctrl-C, and of a team that could not be brought up: how many processes are waited for. `on_up` hears once
    how many seconds after the start all nodes are up, `armable_after_s` of the result, and whether a person arms;
    `on_wait`, a little later, of each robot that arms itself and could not be armed, and why.

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
        waits: dict[str, str] | None = None  # why of the robots that could not be armed in `WAITS_S`
        ordered = {name for order in team_mission(given).orders for name in order.commands}

        def carried_by(name: str) -> str:
            return ", ".join(processes.robots_of(name, team))

        def fail(robot: str, why: str) -> None:
            failures.append({"robot": robot, "t_s": round(time.monotonic() - began_s, 3), "why": why})
            on_failure(f"{robot}: {why}" if robot else why)

        again = {name: node for name, node in zip(names, nodes, strict=True) if node.get("respawn")}
        try:
            while True:
                for name in processes.ended():  # the others go on: a robot without its policy is landed by its shield
                    brings_up = name in operators and armable_s is None
                    not_up = _not_up(processes, out / NOT_UP, load) if brings_up else []
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
                down = _read_not_up(out / NOT_UP)
                if armable_s is None and down == []:
                    armable_s = round(time.monotonic() - began_s, 2)
                    on_up(armable_s, not simulated)
                for gone in [gone for gone in down or [] if armable_s is not None and gone.node not in refused]:
                    refused.add(gone.node)
                    why = f"{gone.why} after it was started again: {processes.last_line_of(gone.node)}"
                    fail(gone.robot, why)
                log.listen()
                if simulated and waits is None and armable_s and time.monotonic() - began_s > armable_s + WAITS_S:
                    waits = {each["robot"]: each["why"] for each in log.idle()}
                    for robot, why in waits.items():
                        on_wait(robot, why)
                watch()
                time.sleep(WATCH_S)
        except KeyboardInterrupt:
            log.end()
            on_stop(len(processes))
        ctrl_c.raises = False
        pressed = min(ctrl_c.count, 1)  # that of now
        took_s = time.monotonic() - began_s
        if simulated and (waits or took_s > ARM_S):  # with a real robot among them a person arms all of them
            busy = load.blame(sum(processes.cpu_s().values()))
            for each in log.idle(ordered):  # what was so all the time is not the machine's doing
                stands = waits is not None and waits.get(each["robot"]) == each["why"]
                each["why"] += "" if stands else busy
                failures.append({**each, "t_s": round(took_s, 3)})
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


def _is_of_one(silence: dict[str, Any], failures: list[dict[str, Any]]) -> bool:
    """Whether a robot is silent for its process ended: that is one of `failures` already."""
    ends = [each["t_s"] for each in failures if silence["robot"] in each["robot"].split(", ")]
    return silence["why"].startswith(SILENT) and any(0.0 <= silence["t_s"] - t_s < SILENCE_S for t_s in ends)


def _not_up(processes: Processes, file: Path, load: MachineLoad) -> list[tuple[str, str]]:
    """Of each node of an operator's `file` of those that could not be brought up: its robot's name, and why."""
    found = _read_not_up(file) or []
    busy = load.blame(sum(processes.cpu_s().values()))
    return [(n.robot, f"{n.why}: {processes.last_line_of(n.node)}{busy if n.late else ''}") for n in found]


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
