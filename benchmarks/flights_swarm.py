"""Four Crazyflies swap places by one emulated radio, from a team file to their rotors: of `benchmarks.flights`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.flights import ROOT, Flight, summary

BUNDLE = "swarm-swap-firmware"
DRIVER = "radio_dongle:CrazyflieByRadio"  # all of ours and of cflib's but the USB device
NAMES = [f"cf{number}" for number in range(1, 5)]
STARTS = [[0.9, 0.0, 0.02], [0.0, 0.9, 0.02], [-0.9, 0.0, 0.02], [0.0, -0.9, 0.02]]
UP_S, END_S, LOOK_S = 90.0, 90.0, 0.05
BROKEN = 0b1110_0000  # bits of supervisor.info: on its back, locked, crashed
SILENT_S = 0.5  # after which the firmware levels the drone


def swap(legs: int, advance: Callable[[], None]) -> dict[str, Any]:
    """What came of so many swaps, each to the opposite places: one flight of the team."""
    with tempfile.TemporaryDirectory() as folder, _deployed(Path(folder)) as (radio, node, executor, watch):
        from ros_nodes.operation.arming import land

        radio.order(forget=True)
        flights, broken = [], 0
        for flight, beyond in _legs(radio, node, executor, watch, legs):
            flights.append(flight)
            broken += beyond
            advance()
            if flight.taken or not flight.succeeded:
                print(f"benchmarks: swarm: {flight.taken or flight.missed}", file=sys.stderr)
        gaps_ms = 1e3 * np.array([gap for gaps in radio.order(gaps=True)["gaps_s"] for gap in gaps])
        land(node, executor, watch)
    beyond = broken + int((gaps_ms >= 1e3 * SILENT_S).sum())
    gaps = {"gap between set-points at the device, p99 ms": round(float(np.percentile(gaps_ms, 99)), 1)}
    return summary(flights, BUNDLE, "4") | gaps | {"beyond limits, by the device": beyond}


@contextmanager
def _deployed(folder: Path) -> Iterator[tuple[Any, ...]]:
    """The emulated radio, and an operator of the team that `phalanx deploy` has brought up."""
    from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
    from ros_nodes.mission.deploy import operator

    domain = free_domain_id()
    ros, path = ros_environment(domain), os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    with ExitStack() as stack:
        radio = stack.enter_context(import_module("emulated").Emulated("crazyradio", "--starts", json.dumps(STARTS)))
        (folder / "team.yaml").write_text(json.dumps(_team(radio.port)))
        command = [sys.executable, "-m", "phalanx", "deploy", str(folder / "team.yaml"), "--out", str(folder / "out")]
        environment = os.environ | ros | {"PYTHONPATH": path, "PHALANX_DRIVERS": DRIVER}
        deploy = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        stack.callback(deploy.wait, END_S)
        stack.callback(deploy.send_signal, signal.SIGINT)

        def watch() -> None:
            if deploy.poll() is not None:
                raise OSError("the deployment has ended")

        node, executor = stack.enter_context(operator(NAMES, domain, ros))
        until_s, up = time.monotonic() + UP_S, folder / "out" / "not_up.json"
        while not up.exists():
            watch()
            if time.monotonic() > until_s:
                raise OSError(f"the team is not up within {UP_S:g} s")
            time.sleep(LOOK_S)
        yield radio, node, executor, watch


def _team(port: int) -> dict[str, Any]:
    robots = [
        {
            "name": name,
            "bundle": str(ROOT / "zoo" / f"{BUNDLE}.onnx"),
            "driver": DRIVER,
            "options": {"uri": f"radio://0/80/2M/E7E7E7E70{number}", "radio_port": port, "state_hz": 50.0},
        }
        for number, name in enumerate(NAMES, start=1)
    ]
    return {"robots": robots, "recorder": False}


def _legs(radio: Any, node: Any, executor: Any, watch: Callable[[], None], legs: int) -> Iterator[tuple[Flight, int]]:
    """Each leg, and how many drones it left locked, crashed or on their back; heights as the task draws them."""
    from ros_nodes.operation.arming import ArmError, arm

    rng = np.random.default_rng(7)
    goals = np.array(STARTS) + np.array([0.0, 0.0, 1.0])
    _send(node, goals)
    with suppress(ArmError):
        arm(node, executor, watch)
    _fly(radio, node, executor, watch, goals)  # to their places, which is no swap
    for _ in range(legs):
        if any(shield.state != "POLICY" for shield in node.shields):
            _send(node, goals)
            with suppress(ArmError):
                arm(node, executor, watch)
            _fly(radio, node, executor, watch, goals)
        goals = np.column_stack([-goals[:, :2], rng.uniform(0.9, 1.5, len(goals))])
        yield _fly(radio, node, executor, watch, goals)


def _send(node: Any, goals: np.ndarray) -> None:
    for name, goal in zip(NAMES, goals, strict=True):
        node.send(name, {"goal_pos": goal})


def _fly(radio: Any, node: Any, executor: Any, watch: Callable[[], None], goals: np.ndarray) -> tuple[Flight, int]:
    """An episode of the task: each within its distance of `goals` in the last second, and no two have met."""
    from sensor_msgs.msg import JointState

    from ros_nodes.lifecycle.polling import Mailbox
    from ros_nodes.messages import qos
    from sim.tasks import load_task
    from sim.tasks.parts.crazyflie import COLLISION_M

    task, age_ms = load_task(BUNDLE), import_module("ros_rig").age_ms
    within_m = float(task.groups[task.group_name].success.params["distance_m"])
    sent = [Mailbox(node, JointState, f"/{name}/sent", qos.SENSOR) for name in NAMES]
    ages_ms: list[float] = []
    radio.order(nearest=True)
    _send(node, goals)
    begin_s = looked_s = time.monotonic()
    off_m = 0.0
    while (now_s := time.monotonic()) < begin_s + task.episode_s:
        ages_ms += [age_ms(node, message[0]) for box in sent if (message := box.take()) is not None]
        if now_s > looked_s + LOOK_S:
            looked_s = now_s
            watch()
            executor.spin_once(timeout_sec=0.0)
            node.update()
            if now_s > begin_s + task.episode_s - task.success_hold_s:
                off_m = max(off_m, _farthest(radio.order(), goals))
        time.sleep(0.001)
    for box in sent:
        box.close()
    said = radio.order()
    taken = "; ".join(
        f"{name}: {shield.reason}" for name, shield in zip(NAMES, node.shields, strict=True) if shield.state != "POLICY"
    )
    missed = f"off by {1e3 * off_m:.0f} mm, nearest {said['nearest_m']:.2f} m"
    succeeded = off_m < within_m and said["nearest_m"] > COLLISION_M
    return Flight(succeeded, taken, ages_ms, off_m, missed), sum(bool(info & BROKEN) for info in said["infos"])


def _farthest(said: dict[str, Any], goals: Sequence[Any] | np.ndarray) -> float:
    return float(np.linalg.norm(np.array(said["positions"]) - goals, axis=1).max())
