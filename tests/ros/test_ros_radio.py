"""Four Crazyflies by one radio: `phalanx deploy TEAM.yaml`, all of cflib, and an emulated Crazyradio."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from patience import patience
from places import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("cflib")
from emulated import Emulated

from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.mission.deploy import operator
from ros_nodes.operation.arming import ArmError, arm, land

pytestmark = [pytest.mark.ros, pytest.mark.alone]
SWAP = ROOT / "zoo" / "swarm-swap-firmware.onnx"
LEGS = int(os.environ.get("RADIO_LEGS", "1"))
LEG_S, THERE_M, APART_M = 7.0, 0.15, 0.2
ARRIVED_M, ARRIVED_M_S = 0.1, 0.1  # where a leg ends before its time is over
STATE_HZ = float(os.environ.get("RADIO_STATE_HZ", "50"))
STARTS = [[0.9, 0.0, 0.02], [0.0, 0.9, 0.02], [-0.9, 0.0, 0.02], [0.0, -0.9, 0.02]]
NAMES = [f"cf{number}" for number in range(1, 5)]


def team_file(folder: Path, port: int) -> Path:
    robots = [
        {
            "name": name,
            "bundle": str(SWAP),
            "driver": "radio_dongle:CrazyflieByRadio",
            "options": {"uri": f"radio://0/80/2M/E7E7E7E70{number}", "radio_port": port, "state_hz": STATE_HZ},
        }
        for number, name in enumerate(NAMES, start=1)
    ]
    file = folder / "team.yaml"
    file.write_text(json.dumps({"robots": robots, "recorder": False}))
    return file


def test_four_crazyflies_by_one_radio_swap_places(tmp_path):
    domain = free_domain_id()
    ros = ros_environment(domain)
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    with Emulated("crazyradio", "--starts", json.dumps(STARTS)) as radio:
        command = [sys.executable, "-m", "phalanx", "deploy", str(team_file(tmp_path, radio.port))]
        deploy = subprocess.Popen(
            [*command, "--out", str(tmp_path / "out")], env=os.environ | ros | {"PYTHONPATH": path}
        )
        try:
            with operator(NAMES, domain, ros) as (node, executor):
                flies(tmp_path / "out", deploy, radio, node, executor)
        finally:
            deploy.send_signal(signal.SIGINT)
            assert deploy.wait(patience(60.0)) in (0, 1)
    assert not (tmp_path / "out" / "not_up.json").exists()  # nothing was amiss


def flies(out, deploy, radio, node, executor):
    def watch() -> None:
        assert deploy.poll() is None, "it ended"

    until_s = time.monotonic() + patience(60.0)
    while not (out / "not_up.json").exists():
        assert time.monotonic() < until_s and deploy.poll() is None, "it does not come up"
        time.sleep(0.1)
    assert json.loads((out / "not_up.json").read_text()) == []
    goals = [np.array([x, y, 1.0]) for x, y, _ in STARTS]

    def send() -> None:
        for name, goal in zip(NAMES, goals, strict=True):
            node.send(name, {"goal_pos": goal})

    send()
    load = MachineLoad()
    for leg in range(LEGS):
        goals = [goal * [-1.0, -1.0, 1.0] for goal in goals]
        for again in (True, True, False):  # where this machine was too busy and one was landed
            missed_m = fly_leg(radio, node, executor, watch, send, goals)
            print(f"leg {leg + 1}: missed by, m:", missed_m.round(3), [shield.state for shield in node.shields])
            if (missed_m < THERE_M).all():
                break
            if not again and (busy := load.blame()):
                pytest.skip(f"no radio in real time here{busy}")
            assert again, [shield.reason for shield in node.shields]
            radio.order(reset=True)
        assert radio.order()["nearest_m"] > APART_M, "they came too near to each other"
    assert land(node, executor, watch) == []


def fly_leg(radio, node, executor, watch, send, goals) -> np.ndarray:
    """How far each is from its goal, m, when all are there, or one is landed, or its time is over."""
    with suppress(ArmError):
        arm(node, executor, watch)
    before = radio.order(forget=True)
    send()
    until_s = time.monotonic() + LEG_S
    while time.monotonic() < until_s and all(shield.state == "POLICY" for shield in node.shields):
        executor.spin_once(timeout_sec=0.05)
        node.update()
        if (np.linalg.norm(node.positions - goals, axis=1) < ARRIVED_M).all() and node.speeds.max() < ARRIVED_M_S:
            break
    said = radio.order(gaps=True)
    report(before, said)
    return np.linalg.norm(np.array(said["positions"]) - goals, axis=1)


def report(before, said):
    took_s = said["now_s"] - before["now_s"]
    gaps_ms = 1e3 * np.array([gap for gaps in said["gaps_s"] for gap in gaps] or [np.nan])
    for what in ("packets", "useful", "setpoints"):
        rates = (np.array(said[what]) - before[what]) / took_s
        print(f"{what}/s of each robot:", rates.round(1), "of all:", rates.sum().round(0))
    print("gaps, ms, median, p99, largest:", np.percentile(gaps_ms, [50, 99, 100]).round(1))
    print("waiting:", said["waiting"], "dropped:", said["dropped"], "nearest, m:", round(said["nearest_m"], 2))
