"""A Franka Research 3 of franky-sim brings its tool to poses: policy, shield and driver in ROS 2, franky to the arm.

franky-sim speaks the Franka Control Interface and has an environment of its own, see `tests/franka_sim.py`. Time is the
arm's own clock: its simulation is slower than time where the processor is busy.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.turns import Progress
from hardware import load_robot
from hardware.kinematics import load_chain

ROOT = Path(__file__).parents[1]
BUNDLE = ROOT / "zoo" / "reach-fr3.onnx"
ARM = "fr3_1"
EPISODE_STEPS = 3000  # of 1 ms, as long as the task gives it
THERE_M = 0.01


def bench_franka(worlds: int = 64, *, on_progress: Progress) -> dict[str, Any]:
    """How near to its poses a Franka Research 3 of franky-sim comes in ROS 2, behind its shield.

    That is of how many it is within 1 cm after an episode, and what the arm's side counted meanwhile. Poses are drawn
    as the task draws them, each from the arm's home pose, to which its shield brings it before the policy begins. One
    line that says why where franky-sim is not installed.

    Args:
        worlds: Poses.
    """
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    franka_sim = import_module("franka_sim")
    if not franka_sim.PYTHON.is_file():
        return {"skipped": f"no franky-sim at {franka_sim.PYTHON}: {franka_sim.HOW}"}
    with tempfile.TemporaryDirectory() as folder, franka_sim.simulated() as device, rig(folder, device) as team:
        missed_m, interrupted = [], 0
        for missed in reached(team, device, worlds):
            missed_m.append(missed)
            on_progress(worlds)
            if team.authority(ARM) != "POLICY":
                interrupted += 1
                print(f"benchmarks: {team.node.shields[0].reason}", file=sys.stderr)
        said = device.order()
    there = np.array(missed_m) < THERE_M
    return {
        "poses": worlds,
        "within_1_cm": int(there.sum()),
        "missed_mm": {f"p{p}": round(1e3 * float(np.percentile(missed_m, p)), 1) for p in (50, 95, 100)},
        "taken_from_the_policy": interrupted,
        "arm": {name: said[name] for name in ("violations", "reflexes", "fastest")},
    }


def rig(folder: str | Path, device: Any) -> Any:
    """Nodes for the arm at a device's address, a context manager; not started yet."""
    ros_rig = import_module("ros_rig")
    spec = load_robot("fr3")
    parameters = {
        "/**/driver": {"driver": "franka", "options": json.dumps({"host": device.address, "realtime": False})},
        "/**/shield": {"home_first": True},
    }
    mission = ros_rig.standing([[0.0, 0.0, 0.0, 0.0]], spec)
    commands = ["goal_pos", "goal_quat"]
    return ros_rig.Rig(Path(folder), bundle=BUNDLE, parameters=parameters, mission=mission, commands=commands)


def reached(team: Any, device: Any, count: int) -> Iterator[float]:
    """Of `count` poses as the task draws them how far the tool is off after an episode that began at home, m."""
    from sim.tasks.reach_fr3 import REACH_FR3

    chain = load_chain(load_robot("fr3"), "tool")
    team.start(f"{ARM}/driver", f"{ARM}/policy", f"{ARM}/shield", armed=False)
    for goal in import_module("ros_rig").drawn_poses(REACH_FR3, count):
        begin(team, goal)
        until = device.order()["steps"] + EPISODE_STEPS
        team.watch_until(ARM, lambda until=until: device.order()["steps"] >= until, 30.0)
        tool, _ = chain.forward(np.array([*device.order()["q"], 0.04]))
        yield float(np.linalg.norm(tool - goal["goal_pos"]))


def begin(team: Any, goal: dict[str, np.ndarray], arm: str = ARM) -> None:
    """Have the arm go home and its policy bring it to `goal` from there; again where a busy machine was late."""
    for _ in range(3):
        if team.authority(arm) == "POLICY":
            team.ask(arm, "hold")
            team.ask(arm, "start")
        else:
            team.restart(arm)
        team.node.send(arm, goal)  # a policy that begins waits for one
        team.watch_until(arm, lambda: team.authority(arm) not in ("ARMED", "STARTING"), 30.0)
        if team.authority(arm) == "POLICY":
            return
