"""Robots on emulated devices fly, reach and walk in ROS 2, from policy file to device: how often, and what came.

Devices are those of `tests/devices`, over real sockets and in real time; the Franka has `benchmarks.franka`.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.franka import begin
from benchmarks.turns import Progress
from hardware import load_robot

ROOT = Path(__file__).parents[1]
HOLD_S = 1.0  # at the end of an episode, in which a drone has to be at its goal all the time
LOOK_S = 0.02
DRONE = ("goal_pos",)
ARM = ("goal_pos", "goal_quat")


class Flight(NamedTuple):
    """One episode, and what came of it."""

    succeeded: bool
    taken: str  # why the policy does not have the robot any more
    ages_ms: Sequence[float]  # from sensor to what was sent
    off_m: float = np.nan  # from its goal, where it has one
    missed: str = ""  # what was not as the task asks


class Case(NamedTuple):
    """A driver, what flies it, its emulated device, and what that counts that must not be."""

    driver: str
    robot: str
    bundle: str
    device: Callable[[str], tuple[str, ...]]  # from the ROS domain
    options: Callable[[str], dict[str, Any]]  # of the driver, from the address of the device
    commands: tuple[str, ...]
    broken: Callable[[dict[str, Any]], int]  # limits, by what the device says
    cycles: int = 0  # of an episode, where the device counts them; else of the task's time


def _none_of(*names: str) -> Callable[[dict[str, Any]], int]:
    return lambda said: sum(int(said[name]) for name in names)


def _crazyflie(said: dict[str, Any]) -> int:
    """Crashed, locked or on its back; or without a set-point for so long that its firmware acted."""
    return int(bool(said["info"] & 0b1110_0000)) + int(said["longest_gap_s"] >= 0.5)


DDS_DOMAIN = 172
G1 = (
    lambda _: ("unitree_g1", "--domain", str(DDS_DOMAIN)),
    lambda _: {"interface": "lo", "domain": DDS_DOMAIN},
    ("velocity",),
    _none_of("out_of_range", "dropped"),
)
CASES = {
    "crazyflie": Case(
        "crazyflie",
        "crazyflie",
        "hover",
        lambda _: ("crazyflie",),
        lambda port: {"uri": f"udp://127.0.0.1:{port}"},
        DRONE,
        _crazyflie,
    ),
    "px4": Case(
        "px4",
        "x500",
        "hover-x500",
        lambda _: ("px4",),
        lambda port: {"link": f"udpout:127.0.0.1:{port}"},
        DRONE,
        lambda said: said["beyond"] + int(said["failed_after_s"] > 0.0),
    ),
    "ur": Case(
        "ur",
        "ur5e",
        "reach-ur5e",
        lambda _: ("ur",),
        lambda host: {"host": host, "payload_kg": 0.5},
        ARM,
        _none_of("speed", "acceleration", "range", "jump"),
        1500,
    ),
    "ros2_control": Case(
        "ros2_control",
        "ur5e",
        "reach-ur5e",
        lambda domain: ("ros2_control", "--domain", domain),
        lambda _: {"controller": "arm_controller"},
        ARM,
        _none_of("range", "jump", "garbage"),
    ),
    "unitree_g1": Case("unitree_g1", "g1", "stand", *G1),
    "unitree_g1-velocity": Case("unitree_g1", "g1", "velocity", *G1),
}
SWARM = "crazyflie-swarm"  # four by one radio, see `benchmarks.flights_swarm`


def bench_flights(drivers: tuple[str, ...] = (), worlds: int = 64, *, on_progress: Progress) -> dict[str, Any]:
    """How often robots on emulated devices reach their goals in ROS 2, behind their shields.

    With the way from sensor to device, and what the device counted. The Franka has a benchmark of its own. ValueError
    for one of `drivers` that has no emulated device here.

    Args:
        drivers: See `phalanx robots`; all that have an emulated device when not given.
        worlds: Goals of each.
    """
    known = [*CASES, SWARM]
    if unknown := [name for name in drivers if name not in known]:
        raise ValueError(f"driver {unknown[0]!r}: choose from {', '.join(known)}")
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    chosen, found = list(drivers or known), {}
    for name in chosen:
        advance = partial(on_progress, worlds * len(chosen))
        if name == SWARM:
            from benchmarks.flights_swarm import swap

            found[name] = swap(worlds, advance)
        else:
            found[name] = _fly(name, CASES[name], worlds, advance)
        found[name]["load"] = round(os.getloadavg()[0], 1)
    return found


def _fly(name: str, case: Case, worlds: int, advance: Callable[[], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        team, device = _rig(case, Path(folder), stack)
        robot = team.names[0]
        team.start(f"{robot}/driver", f"{robot}/policy", f"{robot}/shield", armed=False)
        if case.driver == "unitree_g1":
            from benchmarks.flights_humanoid import episodes

            flown = episodes(team, device, case.bundle, worlds)
        else:
            flown = _goals(team, device, case, worlds)
        flights = []
        for flight in flown:
            flights.append(flight)
            advance()
            if flight.taken or not flight.succeeded:
                print(f"benchmarks: {name}: {flight.taken or flight.missed}", file=sys.stderr)
        said = device.order()
    return summary(flights, case.bundle) | {"beyond limits, by the device": case.broken(said)}


def summary(flights: Sequence[Flight], bundle: str, team: str = "1") -> dict[str, Any]:
    """What came of all flights; `team` is the number of robots in the record beside the policy file."""
    ages_ms = np.concatenate([flight.ages_ms for flight in flights])
    off_mm = [1e3 * flight.off_m for flight in flights]
    median, late = np.percentile(ages_ms, [50, 99])
    record = json.loads((ROOT / "zoo" / f"{bundle}.json").read_text())["teams"][team]
    off = {"off by, median mm": round(float(np.median(off_mm)), 1), "off by, most mm": round(max(off_mm), 1)}
    return {
        "flights": len(flights),
        "succeeded": sum(flight.succeeded for flight in flights),
        "in simulation, with shield": round(record["shielded_success_rate"], 3),
        **(off if np.isfinite(off_mm).all() else {}),
        "taken from the policy": sum(bool(flight.taken) for flight in flights),
        "sensor to sent, median ms": round(float(median), 1),
        "sensor to sent, p99 ms": round(float(late), 1),
    }


def _goals(team: Any, device: Any, case: Case, worlds: int) -> Iterator[Flight]:
    """One flight or reach to each goal."""
    robot, is_arm = team.names[0], load_robot(case.robot).fixed_base
    for goal, within_m in goals_of(case, worlds):
        if is_arm:
            begin(team, goal, robot)
        else:
            _keep(team, robot, goal)
        ages_ms, off_m = _episode(team, device, case, robot, goal["goal_pos"])
        taken = "" if team.authority(robot) == "POLICY" else team.node.shields[0].reason
        place = ", ".join(f"{x:.2f}" for x in goal["goal_pos"])
        yield Flight(off_m <= within_m, taken, ages_ms, off_m, f"off by {1e3 * off_m:.0f} mm at {place}")


def _rig(case: Case, folder: Path, stack: ExitStack) -> tuple[Any, Any]:
    """Nodes and device, up; the device first, but for one that is in the ROS domain of the nodes.

    A drone's fence is that of its task, as in simulation and as an owner would state it.
    """
    ros_rig, emulated = import_module("ros_rig"), import_module("emulated").Emulated
    spec, bundle = load_robot(case.robot), ROOT / "zoo" / f"{case.bundle}.onnx"
    device = None if case.driver == "ros2_control" else stack.enter_context(emulated(*case.device("")))
    options = json.dumps(case.options(device.address if device else ""))
    driver = {"driver": case.driver, "options": options, "bundle": str(bundle)}
    shield: dict[str, Any] = {"home_first": True} if spec.fixed_base else {}
    if spec.flight is not None:
        shield = {f"shield.{name}": list(corner) for name, corner in fence_of(case.bundle).items()}
    height_m = 0.0 if spec.fixed_base else spec.home_height_m
    team = stack.enter_context(
        ros_rig.Rig(
            folder,
            bundle=bundle,
            parameters={"/**/driver": driver, "/**/shield": shield},
            mission=ros_rig.standing([[0.0, 0.0, height_m, 0.0]], spec),
            commands=list(case.commands),
        )
    )
    return team, device or stack.enter_context(emulated(*case.device(str(team.node.context.get_domain_id()))))


def fence_of(bundle: str) -> dict[str, tuple[float, ...]]:
    """Corners of the fence of a task of drones, m."""
    from sim.tasks import load_task

    task = load_task(bundle)
    return {name: value for name, value in task.groups[task.group_name].shield.items() if name.startswith("geofence")}


def goals_of(case: Case, count: int) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    """Goals as the task draws them, and how near is near enough, m.

    A drone's are as far from each other as the task puts starts from goals: where one episode ends the next begins.
    """
    import torch

    from sim.task import Draw
    from sim.tasks import load_task

    task = load_task(case.bundle)
    draw = Draw(torch.Generator().manual_seed(7), count, 1, torch.ones(count))
    start = task.starts(draw)[task.group_name]
    commands = {name: values[:, 0].numpy() for name, values in start.command.items()}
    within_m = float(task.groups[task.group_name].success.params["distance_m"])
    if case.commands == DRONE:
        assert start.pos is not None
        offsets = start.pos[:, 0].numpy() - commands["goal_pos"]
        low, high = commands["goal_pos"].min(0), commands["goal_pos"].max(0)
        for step in range(1, count):
            commands["goal_pos"][step] = np.clip(commands["goal_pos"][step - 1] + offsets[step], low, high)
    for step in range(count):
        yield {name: values[step] for name, values in commands.items()}, within_m


def _keep(team: Any, robot: str, goal: dict[str, np.ndarray]) -> None:
    """Have the policy of a drone fly it to `goal`, whether it flies already or not; again where it was landed."""
    for _ in range(3):
        team.node.send(robot, goal)
        if team.authority(robot) == "POLICY":
            return
        team.watch_until(robot, lambda: team.authority(robot) not in ("LANDING", "STARTING"), 30.0)
        team.restart(robot)
        team.node.send(robot, goal)
        team.watch_until(robot, lambda: team.authority(robot) in ("POLICY", "FAULT"), 30.0)


def _episode(team: Any, device: Any, case: Case, robot: str, goal: np.ndarray) -> tuple[list[float], float]:
    """Delays from sensor to what was sent, ms, and how far off it was: at the end, or of a drone in its last second."""
    from sim.tasks import load_task

    episode_s = load_task(case.bundle).episode_s
    until = device.order().get("setpoints", 0) + case.cycles
    ages_ms = team.sent_ages_ms(robot, episode_s - HOLD_S)
    if case.commands == ARM:
        team.watch_until(robot, lambda: not case.cycles or device.order()["setpoints"] >= until, 30.0)
        if not case.cycles:
            team.watch(robot, HOLD_S)
        return list(ages_ms), float(np.linalg.norm(np.array(device.order()["tool"]) - goal))
    missed_m, end_s = 0.0, time.monotonic() + HOLD_S
    while time.monotonic() < end_s:
        team.watch(robot, LOOK_S)
        missed_m = max(missed_m, float(np.linalg.norm(np.array(device.order()["position"]) - goal)))
    return list(ages_ms), missed_m
