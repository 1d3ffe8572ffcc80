"""A drill: faults on a simulated team in flight, what must happen, and what did. Every row is a flight of its own."""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deploy.bundle import load_bundle
from deploy.contract import Contract
from hardware import load_robot
from hardware.names import nearest
from hardware.spec import RobotSpec
from ros_nodes.drill.faults import POLICY_FILE, ROWS, Row
from ros_nodes.drill.flight import GROUND, OTHER, POLICY, STRUCK, simulated, team_in_flight
from ros_nodes.lifecycle.bring_up import BringUpError
from ros_nodes.lifecycle.clock import machine_clock
from ros_nodes.lifecycle.processes import ProcessError
from ros_nodes.lifecycle.series import read_series
from ros_nodes.mission.failures import events
from ros_nodes.mission.ground_truth import GroundTruth, read_ground_truth
from ros_nodes.operation.arming import ArmError, land
from ros_nodes.plans.mission import CRAZYFLIE, Mission, plan_swap
from ros_nodes.plans.prepare import check_policy
from ros_nodes.plans.team import Team
from ros_nodes.plans.team_file import load_team
from ros_nodes.plans.team_mission import team_mission

AFTER_S, DOWN_S = 2.5, 2.0
FALL_ROWS = 10  # of the ground truth before the touch-down
IN_AIR_M, ON_GROUND_M = 0.15, 0.05
MOTORS_OFF = 1.05  # of the least thrust
STAYS_M = 0.3  # a robot that its policy keeps leaves its place by less
TEAM_FILES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a row."""

    name: str
    must: str
    passed: bool
    state: str  # of the struck robot in the end
    other_state: str = ""  # of its neighbour; empty without one
    reaction_periods: float | None = None  # from the fault to the first command that is not the policy's
    least_distance_m: float | None = None
    moved_m: float | None = None  # the farthest that its base was from where it was struck; None for one that is fixed
    down_s: float | None = None  # from the fault until it was on the ground, and how fast it came down last
    down_m_s: float | None = None
    cut_in_air: int = 0  # control periods with motors off above the ground
    reason: str = ""  # of the end, or what was wrong with it
    lost: tuple[str, ...] = ()  # processes that ended and that robots can do without


def drill(
    path: Path, out: Path, on_row: Callable[[Outcome], None] = lambda outcome: None, rows: Sequence[str] = ()
) -> list[Outcome]:
    """Fly all rows, or those named: two robots with a Crazyflie's policy file, or those of a team file, simulated.

    The fault is for the first robot. Logs and series of each row are in a folder of its own below `out`. ValueError for
    a name or file that cannot be.
    """
    team, mission = plan_drill(path)
    outcomes = []
    for number, row in enumerate(rows_for(mission, rows)):
        folder = out / f"{number + 1:02d}_{row.title.replace(' ', '_').replace(',', '')}"
        try:
            outcome = _fly_row(row, mission, team, folder)
        except (ArmError, BringUpError, ProcessError, TimeoutError) as error:
            outcome = Outcome(row.title, row.must, False, "NOT FLOWN", reason=str(error))
        outcomes.append(outcome)
        on_row(outcome)
    return outcomes


def plan_drill(path: Path) -> tuple[Team | None, Mission]:
    """The team of a team file, simulated, and where it stands; two Crazyflies for a policy file. ValueError."""
    if path.suffix in TEAM_FILES:
        team = simulated(load_team(path))
        mission = team_mission(team)
    else:
        if (robot := load_bundle(path).contract.robot.name) != CRAZYFLIE:
            raise ValueError(f"{path}: is for {robot!r}; robots other than {CRAZYFLIE!r} need a team file (.yaml)")
        team, mission = None, replace(plan_swap(2, 60.0, None, seed=0), orders=(), checks_s=(60.0,))
        mission = replace(mission, team=tuple(replace(member, bundle=str(path)) for member in mission.team))
    for member in mission.team:
        contract = load_bundle(member.bundle).contract
        check_policy(contract, mission, member)
        if awaited := _awaited(contract, mission, member.name):
            raise ValueError(
                f"{path}: {member.name} waits for {' and '.join(awaited)}, and moves for no row before: give the team "
                "file a `mission: FILE` whose first order has them, such as plan.json of a `phalanx deploy` of its task"
            )
        if absent := [name for name in contract.objects if name not in mission.objects]:
            raise ValueError(f"{member.bundle}: observes {absent[0]!r}, which the mission of a team file has to have")
    return team, mission if team else mission.flown_by({CRAZYFLIE: path})


def _awaited(contract: Contract, mission: Mission, name: str) -> list[str]:
    """Commands without which the arm `name` stays where it is, and which a drill would not send; none of other robots.

    A drill sends the first order of a task's mission, see `first_orders`.
    """
    if load_robot(contract.robot.name).kind != "manipulator":
        return []
    given = mission.orders[0].commands.get(name, {}) if mission.task and mission.orders else {}
    return [command.name for command in contract.commands if command.name not in given]


def rows_for(mission: Mission, names: Sequence[str] = ()) -> list[Row]:
    """The rows that its robots can have, or those named; ValueError for a name that is none of theirs."""
    known = {row.title: row for row in ROWS}
    for name in names:
        if name not in known:
            raise ValueError(f"unknown row {name!r}{nearest(name, known)}; known: {'; '.join(known)}")
        if not known[name].strikes(mission):
            raise ValueError(f"row {name!r} is for drones, and for two of them where one has to hear the other")
    return [known[name] for name in names] or [row for row in ROWS if row.strikes(mission)]


def _fly_row(row: Row, mission: Mission, team: Team | None, out: Path) -> Outcome:
    out.mkdir(parents=True)
    file = shutil.copy(mission.team[STRUCK].bundle, out / POLICY_FILE)
    mission = replace(mission, team=(replace(mission.team[STRUCK], bundle=str(file)), *mission.team[OTHER:]))
    with team_in_flight(mission, out, team, row.phase, row.through, row.edit) as flight:
        struck_ns = machine_clock().now_ns()
        row.strike(flight)
        flight.watch(AFTER_S)
        until = time.monotonic() + row.patience_s
        while time.monotonic() < until:
            with suppress(ProcessError):  # some were killed
                flight.processes.check()
            reported = [*flight.processes.lost, *flight.refusals, flight.node.shields[STRUCK].reason]
            if flight.state() in row.ends and any(row.says in reason for reason in reported):
                break
            flight.watch(0.1)
        flight.watch(DOWN_S if flight.state() == "SILENT" else 0.3)
        end = _End(
            [flight.state(robot) for robot in range(len(mission.names))],
            [shield.reason for shield in flight.node.shields],
            [event for event in events(flight.node.changes, struck_ns) if event["robot"] == flight.name],
            flight.refusals,
            list(flight.processes.lost),
        )
        land(flight.node, flight.executor, lambda: None, flight.others)
    truth = read_ground_truth(read_series(out / "series" / "simulated_robots_state.npy"), mission)
    return _outcome(row, mission, truth, struck_ns * 1e-9, end)


@dataclass(frozen=True, slots=True)
class _End:
    states: list[str]  # of all robots, in their order
    reasons: list[str]  # what the shield of each said last
    changes: list[dict[str, Any]]  # of the struck robot's shield, `t_s` since the fault
    refusals: list[str]
    lost: list[str]


def _outcome(row: Row, mission: Mission, truth: GroundTruth, struck_s: float, end: _End) -> Outcome:
    specs, own = [load_robot(member.robot) for member in mission.team], truth.robots[STRUCK].base_pos
    spec, after = specs[STRUCK], truth.time_s > struck_s
    drones = [robot.base_pos for robot, each in zip(truth.robots, specs, strict=True) if each.flight and spec.flight]
    least_m = min((_distance(own, other) for other in drones[OTHER:]), default=None)
    cut, down = (0, None) if spec.flight is None else _descent(truth, after, spec)
    moved_m = None if spec.fixed_base else _moved(own[after])
    taken = [event for event in end.changes if event["t_s"] > 0.0 and event["from"] != event["to"]]
    periods = taken[0]["t_s"] * spec.control_hz if taken and row.phase != GROUND else None
    reasons = [*(event["reason"] for event in taken), *end.refusals, *end.lost]
    reported = [reason for reason in reasons if row.says and row.says in reason]
    if {"STOPPED", "SILENT"} & {*row.ends}:  # a person stopped it, or its own watchdog did
        cut = 0
    late = row.within is not None and (periods is None or periods > row.within)
    stays = row.ends == ("POLICY",) and row.phase == POLICY
    wrong = [
        *_not_as_due(row, mission, end),
        *["it was not held, or not in time"] * late,
        *["it touched another robot"] * (least_m is not None and least_m <= 2 * spec.radius_m),
        *["its motors were off in the air"] * bool(cut),
        *[f"it left its place by {moved_m} m"] * (stays and moved_m is not None and moved_m >= STAYS_M),
        *[f"nothing said {row.says!r}"] * (bool(row.says) and not reported),
    ]
    why = reported[0] if reported else taken[-1]["reason"] if taken else end.reasons[STRUCK]
    return Outcome(
        row.title,
        row.must,
        not wrong,
        end.states[STRUCK],
        end.states[OTHER] if len(end.states) > OTHER else "",
        None if periods is None else round(periods, 1),
        None if least_m is None else round(least_m, 3),
        None if moved_m is None else round(moved_m, 2),
        None if down is None else round(down[0] - struck_s, 2),
        None if down is None else round(down[1], 2),
        cut,
        "; ".join([*wrong, *[why] * (not any(why in each for each in wrong))]),
        tuple(end.lost),
    )


def _not_as_due(row: Row, mission: Mission, end: _End) -> list[str]:
    """The robots that are in the end where they must not be, and why."""
    ends = [row.ends, *[("POLICY",)] * len(mission.names[OTHER:])]
    return [
        f"{name} is {state}: {reason or 'nothing is said of why'}"
        for name, state, reason, due in zip(mission.names, end.states, end.reasons, ends, strict=True)
        if state not in due
    ]


def _distance(first: np.ndarray, other: np.ndarray) -> float:
    """The least, m, of two ways (T, 3)."""
    return float(np.linalg.norm(first - other, axis=-1).min())


def _moved(way: np.ndarray) -> float:
    """How far, m, the way (T, 3) leads from its beginning."""
    return float(np.linalg.norm(way - way[0], axis=-1).max()) if len(way) else 0.0


def _descent(truth: GroundTruth, after: np.ndarray, spec: RobotSpec) -> tuple[int, tuple[float, float] | None]:
    """Control periods with motors off above the ground; when a drone in the air came down, s, and how fast, m/s."""
    height = truth.robots[STRUCK].base_pos[:, 2] - spec.home_height_m
    off = truth.target[STRUCK][:, spec.channel_names.index("thrust")] < MOTORS_OFF * spec.command_low[0]
    in_air = height > IN_AIR_M
    cut = int((after & off & in_air).sum())
    landed = after & (height < ON_GROUND_M) & (np.maximum.accumulate(after & in_air))
    if not landed.any():
        return cut, None
    row = int(np.argmax(landed))
    before = slice(max(row - FALL_ROWS, 0), row + 1)
    fastest = float((-np.diff(height[before]) / np.diff(truth.time_s[before])).max())
    return cut, (float(truth.time_s[row]), fastest)


def as_json(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The outcomes as plain values."""
    return [asdict(outcome) for outcome in outcomes]
