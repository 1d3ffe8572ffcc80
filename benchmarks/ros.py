"""The robot side beside a bare echo of the same minute: delays, lost cycles, processor time of a robot."""

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.turns import Progress
from hardware.ranges import check_range
from phalanx.options import Rate
from ros_nodes.mission.deploy import DeployError, run_mission, run_swap

DURATION_S = 14.0
COUNTED = ("flights", "flown", "missed_cycles", "cycles")  # in all repeats together
PR_CAPBSET_DROP, CAP_SYS_NICE = 24, 23
Fly = Callable[[Path, int], dict[str, Any]]  # (folder, seed) -> figures of a mission


def bench_ros(
    policy: Path = Path("zoo/swarm-swap.onnx"),
    teams: tuple[int, ...] = (1, 4, 8),
    tasks: tuple[str, ...] = ("reach", "stand"),
    hz: Rate = None,
    held: bool = False,
    repeats: int = 5,
    *,
    on_progress: Progress,
) -> dict[str, Any]:
    """The swap in ROS 2: delays beside a bare echo, lost cycles and processor time a robot.

    A flight that cannot begin is printed to stderr and counts as one that was not flown; SystemExit where none begins.

    Args:
        policy: Policy file of swarm-swap.
        teams: Drones in a swap; each size is flown.
        tasks: With --hz, what untrained policies are flown of.
        hz: In place of the swap, fly untrained policies at this control rate, or the next that their models allow.
        held: While another program holds a core and the system refuses niceness.
        repeats: Flights of each, with other seeds; medians, and counts of all.
    """
    if hz is not None:
        check_range("hz", hz, 1.0)
    with tempfile.TemporaryDirectory() as folder, held_core() if held else nullcontext():
        missions = (
            {name: fly for task in tasks for name, fly in [_raised(task, hz, Path(folder))]}
            if hz
            else {f"swap of {size}": partial(_fly_swap, policy, size) for size in teams}
        )
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in missions}
        for seed in range(repeats):
            for name, fly in missions.items():
                try:
                    rows[name].append(_figures(fly(Path(folder) / f"{name} {seed}", seed)))
                except DeployError as error:
                    print(f"benchmarks: {name}, seed {seed}: {error}", file=sys.stderr)
                    rows[name].append({"flights": 1.0, "flown": 0.0})
            on_progress(repeats)
    if none := [name for name, of in rows.items() if not any("cycles" in row for row in of)]:
        raise SystemExit(f"benchmarks: {none[0]}: no flight began")
    of_all = {name: _together(of) for name, of in rows.items()}
    return {"policy": "untrained" if hz else str(policy), "held": held, "missions": of_all}


@contextmanager
def held_core() -> Iterator[None]:
    """Another program holds a core, and niceness below 0 is refused, as it is to an ordinary user."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)  # for what is started from here on
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            yield
        finally:
            program.kill()


def _fly_swap(policy: Path, size: int, out: Path, seed: int) -> dict[str, Any]:
    return run_swap(policy, out, size, DURATION_S, None, seed, echo=True)


def _raised(task: str, hz: float, folder: Path) -> tuple[str, Fly]:
    """What it is called, and the mission of a task at the next rate of which the model's time step is a part."""
    import mujoco

    from hardware import load_robot
    from phalanx.missions.plan import plan_mission
    from policies.export.export import export_policy
    from policies.training.train import CollectionCfg, TrainCfg, train
    from sim.tasks import load_task

    step_s = mujoco.MjModel.from_xml_path(str(load_robot(load_task(task).group.robot).mjcf)).opt.timestep
    steps = int(1 / (hz * step_s) + 1e-9)
    if not steps:
        raise ValueError(f"hz = {hz:g}: {task} is simulated in steps of {1e3 * step_s:g} ms, at most {1 / step_s:g} Hz")
    rate = round(1 / (steps * step_s))
    run = folder / f"{task}_{rate}"
    train(TrainCfg(task=f"benchmarks.raised:{run.name}", out=run, collection=CollectionCfg(16), total_steps=1))
    file = export_policy(run, run.with_suffix(".onnx"))

    def fly(out: Path, seed: int) -> dict[str, Any]:
        from deploy.bundle import load_bundle

        mission, criterion = plan_mission({str(file): load_bundle(file).contract}, None, DURATION_S, None, seed)
        return run_mission(mission, out, criterion, echo=True)

    return f"{task} at {rate} Hz", fly


def _together(rows: list[dict[str, float]]) -> dict[str, float]:
    """Medians and counts of several flights, of what each has measured."""
    of_each = {key: [row[key] for row in rows if key in row] for row in rows for key in row}
    return {key: sum(values) if key in COUNTED else median(values) for key, values in of_each.items()}


def _figures(result: dict[str, Any]) -> dict[str, float]:
    """Of one mission; what a policy or a shield takes is that of its process, divided by its robots."""
    command, echo = result["sensor_to_command_ms"], result["bare_echo_ms"]["before"]
    percent = {"policy": 0.0, "shield": 0.0}
    for process, nodes in result["hosts"].items():
        percent[nodes[0].rpartition("/")[2]] += 100 * result["cores"][process] / result["robots"]
    return {
        "flights": 1.0,
        "flown": float(result["mission_success"]),
        "control_hz": result["control_hz"],
        "missed_cycles": result["missed_cycles"],
        "cycles": result["cycles"],
        "sensor_to_command_p50_ms": command["p50"],
        "sensor_to_command_p99_ms": command["p99"],
        "echo_p50_ms": echo["p50"],
        "echo_p99_ms": echo["p99"],
        "p50_of_echo": command["p50"] / echo["p50"],
        "p99_of_echo": command["p99"] / echo["p99"],
        **{f"{kind}_percent_of_a_core_a_robot": share for kind, share in percent.items()},
        "simulator_cores": result["cores"]["simulated_robots"],
        "all_cores": sum(result["cores"].values()),
        "other_programs_cores": result["other_programs_cores"] or 0.0,
        "stolen_cores": result["stolen_cores"] or 0.0,
        "armed_after_s": result["armed_after_s"],
    }
