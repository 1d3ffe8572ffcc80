"""Robots on emulated devices fly and reach in ROS 2, from policy file to device: how often they succeed, and what came.

Devices are those of `tests/devices`, over real sockets and in real time; the Franka has `benchmarks.franka`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.franka import begin
from hardware import load_robot

ROOT = Path(__file__).parents[1]
HOLD_S = 1.0  # at the end of an episode, in which a drone has to be at its goal all the time
LOOK_S = 0.02
DRONE = ("goal_pos",)
ARM = ("goal_pos", "goal_quat")


class Case(NamedTuple):
    """A driver, what flies it, its emulated device, and what that counts that must not be."""

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


CASES = {
    "crazyflie": Case(
        "crazyflie",
        "hover",
        lambda _: ("crazyflie",),
        lambda port: {"uri": f"udp://127.0.0.1:{port}"},
        DRONE,
        _crazyflie,
    ),
    "px4": Case(
        "x500",
        "hover-x500",
        lambda _: ("px4",),
        lambda port: {"link": f"udpout:127.0.0.1:{port}"},
        DRONE,
        lambda said: said["beyond"] + int(said["failed_after_s"] > 0.0),
    ),
    "ur": Case(
        "ur5e",
        "reach-ur5e",
        lambda _: ("ur",),
        lambda host: {"host": host, "payload_kg": 0.5},
        ARM,
        _none_of("speed", "acceleration", "range", "jump"),
        1500,
    ),
    "ros2_control": Case(
        "ur5e",
        "reach-ur5e",
        lambda domain: ("ros2_control", "--domain", domain),
        lambda _: {"controller": "arm_controller"},
        ARM,
        _none_of("range", "jump", "garbage"),
    ),
}


def bench_flights(
    drivers: Sequence[str], worlds: int, repeats: int, on_progress: Callable[..., None]
) -> dict[str, Any]:
    """By driver: how many of `worlds` goals were reached, the way from sensor to device, and what the device counted.

    ValueError for one of `drivers` that has no emulated device here.
    """
    if unknown := [name for name in drivers if name not in CASES]:
        raise ValueError(f"driver {unknown[0]!r}: choose from {', '.join(CASES)}")
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    chosen = {name: CASES[name] for name in drivers or CASES}
    return {name: _fly(name, case, worlds, lambda: on_progress(worlds * len(chosen))) for name, case in chosen.items()}


def _fly(name: str, case: Case, worlds: int, advance: Callable[[], None]) -> dict[str, Any]:
    spec, there, missed_mm, ages_ms, taken = load_robot(case.robot), [], [], [], 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        team, device = _rig(name, case, Path(folder), stack)
        robot = team.names[0]
        team.start(f"{robot}/driver", f"{robot}/policy", f"{robot}/shield", armed=False)
        for goal, within_m in goals_of(case, worlds):
            if spec.fixed_base:
                begin(team, goal, robot)
            else:
                _keep(team, robot, goal)
            ages, missed_m = _episode(team, device, case, robot, goal["goal_pos"])
            ages_ms += ages
            if team.authority(robot) != "POLICY":
                taken += 1
                print(f"benchmarks: {name}: {team.node.shields[0].reason}", file=sys.stderr)
            there.append(missed_m <= within_m)
            missed_mm.append(1e3 * missed_m)
            advance()
        said = device.order()
    sent_ms = [round(float(p), 1) for p in np.percentile(ages_ms, [50, 99])]
    return {
        "goals": worlds,
        "reached": int(np.sum(there)),
        "in simulation": _simulated(case.bundle),
        "off by, median mm": round(float(np.median(missed_mm)), 1),
        "off by, most mm": round(max(missed_mm), 1),
        "taken from the policy": taken,
        "beyond limits, by the device": case.broken(said),
        "sensor to sent, median ms": sent_ms[0],
        "sensor to sent, p99 ms": sent_ms[1],
    }


def _rig(name: str, case: Case, folder: Path, stack: ExitStack) -> tuple[Any, Any]:
    """Nodes and device, up; the device first, but for one that is in the ROS domain of the nodes."""
    ros_rig, emulated = import_module("ros_rig"), import_module("emulated").Emulated
    spec = load_robot(case.robot)
    device = None if name == "ros2_control" else stack.enter_context(emulated(*case.device("")))
    driver = {"driver": name, "options": json.dumps(case.options(device.address if device else ""))}
    height_m = 0.0 if spec.fixed_base else spec.home_height_m
    team = stack.enter_context(
        ros_rig.Rig(
            folder,
            bundle=ROOT / "zoo" / f"{case.bundle}.onnx",
            parameters={"/**/driver": driver, "/**/shield": {"home_first": True} if spec.fixed_base else {}},
            mission=ros_rig.standing([[0.0, 0.0, height_m, 0.0]], spec),
            commands=list(case.commands),
        )
    )
    return team, device or stack.enter_context(emulated(*case.device(str(team.node.context.get_domain_id()))))


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


def _simulated(bundle: str) -> float:
    """Share of episodes that succeeded behind the shield, by the record beside the policy file."""
    record = json.loads((ROOT / "zoo" / f"{bundle}.json").read_text())
    return round(record["teams"]["1"]["shielded_success_rate"], 3)
