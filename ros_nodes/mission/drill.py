"""A drill: faults on a simulated team in flight, what must happen, and what did. Every row is a flight of its own."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState

from deploy.bundle import load_bundle
from hardware import load_robot
from ros_nodes.lifecycle.bring_up import node_names
from ros_nodes.lifecycle.clock import machine_clock
from ros_nodes.lifecycle.processes import Processes, free_domain_id, ros_environment
from ros_nodes.lifecycle.series import read_series
from ros_nodes.messages import qos
from ros_nodes.mission.arming import arm, land
from ros_nodes.mission.deploy import BRING_UP_S, CONFIG, operator
from ros_nodes.mission.failures import events
from ros_nodes.mission.ground_truth import read_ground_truth
from ros_nodes.mission.mission import CRAZYFLIE, Mission, plan_swap
from ros_nodes.mission.operator import MissionNode, bring_up
from ros_nodes.mission.placement import place_team
from ros_nodes.mission.prepare import PARAMETERS, prepare

STRUCK, OTHER = 0, 1  # rows of the robot that the fault is for, and of its neighbour
WITHIN_PERIODS = 8  # five until the shield acts, one of its own, and two for the machine
CALM_S, AFTER_S, DOWN_S = 1.0, 2.5, 8.0
IN_AIR_M = 0.15
MOTORS_OFF = 1.05  # of the least thrust


@dataclass
class Flight:
    """A team of two that hovers under its policies."""

    mission: Mission
    processes: Processes
    node: MissionNode
    executor: SingleThreadedExecutor
    out: Path

    @property
    def policy(self) -> str:
        """The process of the struck robot's policy."""
        return self.processes.process_of(f"{self.mission.names[STRUCK]}/policy")

    @property
    def shield(self) -> str:
        """The process of its shield."""
        return self.processes.process_of(f"{self.mission.names[STRUCK]}/shield")

    def watch(self, duration_s: float, act: Callable[[], None] = lambda: None) -> None:
        """Let time pass; `act` is called at 50 Hz."""
        until = time.monotonic() + duration_s
        while time.monotonic() < until:
            act()
            self.node.update()
            self.executor.spin_once(timeout_sec=0.02)

    def signal(self, process: str, number: int) -> None:
        """Send a signal to one of the processes."""
        os.kill(self.processes.pid(process), number)


@dataclass(frozen=True, slots=True)
class Row:
    """A fault, and what must come of it."""

    name: str
    strike: Callable[[Flight], None]
    ends: tuple[str, ...]  # states of the struck robot that are right in the end
    within: int | None = WITHIN_PERIODS  # control periods in which its shield has to take it; None where it need not


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a row."""

    name: str
    must: str
    passed: bool
    reaction_periods: float | None  # from the fault to the first command that is not the policy's
    state: str  # of the struck robot in the end
    other_state: str
    least_distance_m: float
    cut_in_air: int  # control periods with motors off above the ground
    reason: str


def drill(
    bundle: Path, out: Path, on_row: Callable[[Outcome], None] = lambda outcome: None, rows: Sequence[str] = ()
) -> list[Outcome]:
    """Fly all rows, or those named, with a Crazyflie's policy file; ValueError for a name or file that cannot be.

    Logs and series of each are in a folder of its own below `out`.
    """
    known = {row.name: row for row in ROWS}
    if unknown := [name for name in rows if name not in known]:
        raise ValueError(f"unknown row {unknown[0]!r}; known: {', '.join(known)}")
    load_bundle(bundle)
    outcomes = []
    for number, row in enumerate([known[name] for name in rows] or ROWS):
        outcomes.append(_fly_row(row, bundle, out / f"{number + 1}_{row.name.replace(' ', '_')}"))
        on_row(outcomes[-1])
    return outcomes


def _fly_row(row: Row, bundle: Path, out: Path) -> Outcome:
    out.mkdir(parents=True)
    file = Path(shutil.copy(bundle, out / "policy.onnx"))
    mission = replace(plan_swap(2, 60.0, None, seed=0), orders=(), checks_s=(60.0,)).flown_by({CRAZYFLIE: file})
    with _flight(mission, out) as flight:
        flight.watch(CALM_S)
        struck_ns = machine_clock().now_ns()
        row.strike(flight)
        flight.watch(AFTER_S)
        until = time.monotonic() + DOWN_S
        while flight.node.shields[STRUCK].state == "LANDING" and time.monotonic() < until:
            flight.watch(0.1)
        flight.watch(0.3)
        states = [shield.state for shield in flight.node.shields]
        changes = events(flight.node.changes, struck_ns)
        land(flight.node, flight.executor, lambda: None, [mission.names[OTHER]])
    return _outcome(row, mission, out, struck_ns, states, changes)


@contextmanager
def _flight(mission: Mission, out: Path) -> Iterator[Flight]:
    """The team in the air, its policies flying it."""
    prepare(mission, out)
    domain_id = free_domain_id()
    environment = ros_environment(domain_id)
    with (
        Processes([CONFIG, out / PARAMETERS], out / "logs", environment) as processes,
        operator(mission.names, domain_id, environment) as (node, executor),
    ):
        processes.start("recorder", "recorder_node")
        processes.start("simulated_robots", "simulated_robots_node")
        for name, nodes in place_team(mission.names, own_policy=mission.names[STRUCK]).items():
            processes.start_host(name, nodes)
        bring_up(node, executor, node_names(mission.names, True, True), BRING_UP_S, processes.check)
        arm(node, executor, processes.check)
        yield Flight(mission, processes, node, executor, out)


def _outcome(
    row: Row, mission: Mission, out: Path, struck_ns: int, states: list[str], changes: list[dict[str, Any]]
) -> Outcome:
    name, spec = mission.names[STRUCK], load_robot(CRAZYFLIE)
    truth = read_ground_truth(read_series(out / "series" / "simulated_robots_state.npy"), mission)
    first, other = (truth.robots[row].base_pos for row in (STRUCK, OTHER))
    least_m = float(np.linalg.norm(first - other, axis=-1).min())
    after = truth.time_s > struck_ns * 1e-9
    height = first[:, 2] - spec.home_height_m
    off = truth.target[STRUCK][:, spec.channel_names.index("thrust")] < MOTORS_OFF * spec.command_low[0]
    cut = 0 if "STOPPED" in row.ends else int((after & off & (height > IN_AIR_M)).sum())
    taken = [event for event in changes if event["robot"] == name and event["t_s"] > 0.0]
    periods = taken[0]["t_s"] * spec.control_hz if taken else None
    in_time = row.within is None or (periods is not None and periods <= row.within)
    passed = (
        states[STRUCK] in row.ends and states[OTHER] == "POLICY" and in_time and least_m > 2 * spec.radius_m and not cut
    )
    must = " or ".join(row.ends) + ("" if row.within is None else f", held within {row.within} periods")
    reason = taken[-1]["reason"] if taken else ""
    rounded = None if periods is None else round(periods, 1)
    struck, neighbour = states
    return Outcome(row.name, must, passed, rounded, struck, neighbour, round(least_m, 3), cut, reason)


def _kill_policy(flight: Flight) -> None:
    flight.processes.kill(flight.policy)


def _freeze(process: Callable[[Flight], str], duration_s: float) -> Callable[[Flight], None]:
    def strike(flight: Flight) -> None:
        name = process(flight)
        flight.signal(name, signal.SIGSTOP)
        flight.watch(duration_s)
        flight.signal(name, signal.SIGCONT)

    return strike


def _second_policy(flight: Flight) -> None:
    """Somebody else asks for full thrust, as often as the policy."""
    spec = load_robot(CRAZYFLIE)
    publisher = flight.node.create_publisher(JointState, f"/{flight.mission.names[STRUCK]}/requested", qos.COMMAND_IN)
    message = JointState(name=list(spec.channel_names), effort=[spec.command_high[0], *[float("nan")] * 3])

    def ask() -> None:
        message.header.stamp = flight.node.get_clock().now().to_msg()
        publisher.publish(message)

    flight.watch(2.0, ask)


def _kill_recorder(flight: Flight) -> None:
    flight.processes.kill("recorder")


def _replace_bundle(flight: Flight) -> None:
    (flight.out / "policy.onnx").write_bytes(b"something else")


def _stop(flight: Flight) -> None:
    flight.node.ask(flight.mission.names[STRUCK], "estop")


def _interrupt_shield(flight: Flight) -> None:
    flight.signal(flight.shield, signal.SIGINT)


ROWS = (
    Row("policy killed", _kill_policy, ("FAULT",)),
    Row("policy frozen for 0.2 s", _freeze(lambda flight: flight.policy, 0.2), ("POLICY",)),
    Row("policy frozen for 2 s", _freeze(lambda flight: flight.policy, 2.0), ("FAULT",)),
    Row("second policy", _second_policy, ("FAULT",), within=WITHIN_PERIODS + 8),
    Row("shield frozen for 0.2 s", _freeze(lambda flight: flight.shield, 0.2), ("POLICY",), within=WITHIN_PERIODS + 10),
    Row("shield interrupted", _interrupt_shield, ("DISARMED",)),
    Row("emergency stop", _stop, ("STOPPED",)),
    Row("recorder killed", _kill_recorder, ("POLICY",), within=None),
    Row("policy file replaced", _replace_bundle, ("POLICY",), within=None),
)


def as_json(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The outcomes as plain values."""
    return [asdict(outcome) for outcome in outcomes]
