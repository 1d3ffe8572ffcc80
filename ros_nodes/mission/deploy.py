"""A whole mission in ROS 2 on this machine: simulated robots, policies in some processes, shields in others."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deploy.bundle import load_bundle
from hardware import load_robot
from ros_nodes.lifecycle.bring_up import BringUp, BringUpError, node_names
from ros_nodes.lifecycle.clock import machine_clock
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.executor import LastingExecutor
from ros_nodes.lifecycle.machine_load import MachineLoad, usable_cores
from ros_nodes.lifecycle.processes import ProcessError, Processes, free_domain_id, ros_environment
from ros_nodes.messages.diagnostics import ShieldMode
from ros_nodes.mission.bare_echo import bare_echo
from ros_nodes.mission.failures import events
from ros_nodes.mission.flight_file import save_flight
from ros_nodes.mission.mission_metrics import load_recording, mission_metrics
from ros_nodes.mission.mission_success import Criterion, near_goal
from ros_nodes.operation.arming import ArmError, arm, first_orders, land
from ros_nodes.operation.operator import MissionNode, OrderSender
from ros_nodes.plans.mission import CRAZYFLIE, Mission, Order, plan_swap
from ros_nodes.plans.placement import place_team
from ros_nodes.plans.prepare import PARAMETERS, prepare

CONFIG = Path(__file__).parents[1] / "config" / "team.yaml"
RESULT = "result.json"  # what came of a mission, or of a team
BRING_UP_S = 30.0
NOTHING_ARMED_S, FLOWN_S = 1.0, 5.0  # for processes to end when interrupted; then they are killed
CONDUCT_S = 0.02
PROGRESS_S = 0.2
Progress = Callable[[dict[str, Any]], None]


class DeployError(RuntimeError):
    """The mission could not be flown to its end; one line with the reason."""

    def __init__(self, why: str, robot: str, t_s: float, found: list[dict[str, Any]]):
        """`robot`: whose it was, or empty; `t_s` since the first process was started; `found`: see `events`."""
        super().__init__(why)
        self.failure: dict[str, Any] = {"robot": robot, "t_s": round(t_s, 3), "why": why}
        self.events = found


def run_swap(
    bundle_path: Path | str,
    out_dir: Path | str,
    robots: int = 4,
    duration_s: float = 18.0,
    kill_after_s: float | None = 11.0,
    seed: int = 0,
    on_progress: Progress | None = None,
    echo: bool = False,
) -> dict[str, Any]:
    """Fly the swap with the policy file, see `plan_swap` and `run_mission`.

    One policy is killed `kill_after_s` after the start, None for none.
    """
    load_bundle(bundle_path)  # a bad file is answered before a bad number
    mission = plan_swap(robots, duration_s, kill_after_s, seed)
    return run_mission(mission.flown_by({CRAZYFLIE: bundle_path}), out_dir, on_progress=on_progress, echo=echo)


def run_mission(
    mission: Mission,
    out_dir: Path | str,
    criterion: Criterion = near_goal,
    on_progress: Progress | None = None,
    policy_hosts: int | None = None,
    shield_hosts: int | None = None,
    trusted: Sequence[str] = (),
    echo: bool = False,
) -> dict[str, Any]:
    """Carry out `mission`, each robot with its policy file, and return its metrics (see `mission_metrics`).

    Policies run in `policy_hosts` processes and shields in `shield_hosts`, by default as `place_team` says; a policy
    that is to be killed is alone in one more. `trusted`: see `prepare`. With `echo` the machine is measured before
    and after, while nothing of the mission runs, see `bare_echo`.

    `criterion` evaluates the ground truth. `on_progress` gets a dict with `phase` ("echo", "start", "bring-up",
    "mission", "landing", "evaluate", and "stopping" when interrupted, with the number of `processes`), and in the
    mission `t_s`, `duration_s`, `positions` (N, 3), `modes`, `event`. Leaves in `out_dir`: bag/ (MCAP), flight.npz,
    result.json (metrics), plan.json, params.yaml, logs/ and series/; `unwritten` of the result says which
    could not be written. BundleError or ValueError for a bundle or mission
    that cannot be, DeployError when a process fails.
    """
    out = Path(out_dir).resolve()
    killed = mission.names[mission.kill_robot] if mission.kill_s is not None else ""
    placement = place_team(mission.names, policy_hosts, shield_hosts, killed)
    shields = prepare(mission, out, trusted=trusted)
    report = on_progress or (lambda progress: None)
    rate_hz = max(load_robot(member.robot).control_hz for member in mission.team)
    with bare_echo(out, rate_hz, CONFIG) if echo else nullcontext(lambda: None) as measure_echo:
        if echo:
            report({"phase": "echo"})
        before = measure_echo()
        load = MachineLoad()
        flight = _fly(mission, placement, out, report, load)
        used = {"other_programs_cores": load.others(), "stolen_cores": load.stolen()}
        if echo:
            report({"phase": "echo"})
        after = measure_echo()
    report({"phase": "evaluate"})
    flown = replace(mission, orders=flight.orders)
    recording = load_recording(out / "series", flown, flight.start_ns, flight.killed_ns, flight.changes)
    files = dict.fromkeys(member.bundle for member in mission.team)
    result = {
        **mission_metrics(recording, list(shields.values()), criterion),
        "hosts": placement,
        "cores": {name: round(share, 4) for name, share in flight.cores.items()},
        **{name: None if cores is None else round(cores, 2) for name, cores in used.items()},
        "machine_cores": usable_cores(),
        "bare_echo_ms": {"before": before, "after": after},
        "events": flight.events,
        "armed_after_s": round(flight.armed_after_s, 2),
        "landed": not flight.not_down,
        "lost": flight.lost,
        "seed": mission.seed,
        "fingerprint": ", ".join(load_bundle(file).fingerprint for file in files),
        "bag": str(out / "bag"),
    }
    path, metrics = out / "flight.npz", out / RESULT
    result["unwritten"] = unwritten(path, lambda: save_flight(path, recording))
    result["unwritten"] += unwritten(metrics, lambda: metrics.write_text(json.dumps(result, indent=1)))
    return result


def unwritten(path: Path, write: Callable[[], object]) -> list[str]:
    """`write` the file `path`; why it could not be: what was flown is said also where the disk is full.

    A part of a file does not stay.
    """
    try:
        write()
    except OSError as error:
        with suppress(OSError):
            if path.is_file():
                path.unlink()
        return [f"{path}: {error.strerror or error}"]
    return []


@dataclass(frozen=True, slots=True)
class _Flight:
    start_ns: int  # robot time when the mission began, and when the policy was killed
    killed_ns: int | None
    orders: tuple[Order, ...]  # those of courses too
    changes: dict[str, list[ShieldMode]]  # of each robot's shield, until the mission was over
    events: list[dict[str, Any]]  # of the landing too
    not_down: list[str]  # robots that did not come to rest when asked
    lost: list[str]  # processes that ended and that robots can do without
    cores: dict[str, float]  # how much of a core each process took in the mission
    armed_after_s: float  # from the start of the first process until the last robot was armed


def _fly(
    mission: Mission, placement: Mapping[str, Sequence[str]], out: Path, report: Progress, load: MachineLoad
) -> _Flight:
    """Start all processes, fly, land, end them."""
    domain_id, launched_ns = free_domain_id(), machine_clock().now_ns()
    environment = ros_environment(domain_id)
    report({"phase": "start", "domain_id": domain_id})
    patience_s = NOTHING_ARMED_S  # with processes that are to end
    node: MissionNode | None = None
    with Processes([CONFIG, out / PARAMETERS], out / "logs", environment) as processes, ExitStack() as stack:
        try:
            # At once, and first what takes longest until it can fly: imports are most of the way to it.
            for name, nodes in sorted(placement.items(), key=lambda process: "policy" not in process[1][0]):
                processes.start_host(name, nodes)
            processes.start("simulated_robots", "simulated_robots_node")
            processes.start("recorder", "recorder_node")
            node, executor = stack.enter_context(operator(mission.names, domain_id, environment, mission.command_names))
            report({"phase": "bring-up"})
            watch = first_orders(mission, node, processes.check)
            BringUp(node, executor).up(node_names(mission.names, True, True), BRING_UP_S, watch)
            patience_s = FLOWN_S
            arm(node, executor, watch)
            began_s, before = time.monotonic(), processes.cpu_s()
            start_ns, killed_ns, orders = _conduct(mission, node, processes, report)
            took_s = time.monotonic() - began_s
            cores = {name: (cpu_s - before[name]) / took_s for name, cpu_s in processes.cpu_s().items()}
            node.update()
            changes = {name: list(modes) for name, modes in node.changes.items()}
            report({"phase": "landing"})
            not_down = land(node, executor, processes.check)
            hands = events(node.changes, start_ns)
            armed_s = (_armed_ns(changes) - launched_ns) * 1e-9
            return _Flight(start_ns, killed_ns, orders, changes, hands, not_down, list(processes.lost), cores, armed_s)
        except KeyboardInterrupt:
            report({"phase": "stopping", "processes": len(processes)})
            processes.close(patience_s)  # all robots are simulated: none is left alone
            raise
        except (BringUpError, ArmError, ProcessError) as error:
            why, robot = str(error), getattr(error, "robot", "")
            late = isinstance(error, ArmError)
            if isinstance(error, BringUpError):
                first = error.not_up[0]
                why, robot, late = f"{why}{processes.said_by(first)}", first.robot, first.late
            if late:
                why += load.blame(sum(processes.cpu_s().values()))
            took_s = (machine_clock().now_ns() - launched_ns) * 1e-9
            raise DeployError(why, robot, took_s, events(node.changes, launched_ns) if node else []) from error


def _armed_ns(changes: Mapping[str, Sequence[ShieldMode]]) -> int:
    """When the last robot was armed for the first time."""
    return max(next((m.time_ns for m in modes if m.state == "ARMED"), 0) for modes in changes.values())


def _conduct(
    mission: Mission, node: MissionNode, processes: Processes, report: Progress
) -> tuple[int, int | None, tuple[Order, ...]]:
    """Send orders, kill the policy when it is due, report progress, until the mission is over.

    When that began and the policy was killed, robot time, and all orders that were sent.
    """
    start_ns, killed_ns = machine_clock().now_ns(), None
    begin = time.monotonic()
    conductor, next_report = OrderSender(mission, node), 0.0
    while (now := time.monotonic() - begin) < mission.duration_s:
        if mission.courses or now >= next_report:
            node.update()
        event = "goals" if conductor.step(now) else ""
        if mission.kill_s is not None and killed_ns is None and now >= mission.kill_s:
            killed_ns = processes.kill(f"{mission.names[mission.kill_robot]}_policy")
            event = f"policy of {mission.names[mission.kill_robot]} killed"
        processes.check()
        if event or now >= next_report:
            next_report = now + PROGRESS_S
            report(
                {
                    "phase": "mission",
                    "t_s": now,
                    "duration_s": mission.duration_s,
                    "positions": node.positions.copy(),
                    "modes": list(node.modes),
                    "event": event,
                }
            )
        time.sleep(CONDUCT_S)
    processes.check()  # the last report may have taken its time
    return start_ns, killed_ns, tuple(conductor.sent)


@contextmanager
def operator(
    team: Sequence[str], domain_id: int, environment: Mapping[str, str], commands: Sequence[str] = ("goal_pos",)
) -> Iterator[tuple[MissionNode, LastingExecutor]]:
    """The mission node in this process, and the executor that spins it."""
    with quiet_context(domain_id, environment) as context:
        node = MissionNode(team, commands, context=context)
        executor = LastingExecutor(context=context)
        executor.add_node(node)
        yield node, executor
        executor.shutdown()
        node.destroy_node()
