"""A real robot that is not armed and loses its device: `phalanx deploy` says so, and a person has it connect again."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from patience import patience
from places import ROOT, ZOO

pytest.importorskip("rclpy")
pytest.importorskip("cflib")
from emulated import Emulated
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.node import Node

from ros_nodes.lifecycle.bring_up import KeepUp
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.mission.team_log import TeamLog
from ros_nodes.operation.reconnect import reconnect

pytestmark = pytest.mark.ros
BUSY_S = 7.0


def test_a_device_that_is_switched_off_and_on_is_said_and_connects_again_when_a_person_asks(tmp_path):
    ros = ros_environment(free_domain_id())
    environment = os.environ | ros | {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}

    def operate(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "phalanx", "operate", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patience(120),
        )
        return done.returncode, done.stdout

    with Emulated("crazyflie") as device:
        port = device.port
        options = {"uri": f"udp://127.0.0.1:{port}"}
        robot = {"name": "cf1", "bundle": str(ZOO / "hover.onnx"), "driver": "crazyflie", "options": options}
        (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot], "recorder": False}))
        deploy = subprocess.Popen(
            [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=lambda: [lines.put(line) for line in deploy.stdout], daemon=True)
        reader.start()

        def says(pattern: str, within_s: float) -> str:
            until_s, heard = time.monotonic() + patience(within_s), []
            while not (heard and re.search(pattern, heard[-1])):
                try:
                    heard.append(lines.get(timeout=max(0.1, until_s - time.monotonic())))
                except queue.Empty:
                    raise AssertionError(heard) from None
            return heard[-1]

        try:
            says("can be armed", 60.0)
            assert operate("arm", "cf1") == (0, "cf1: arm\n")
            code, said = operate("reconnect", "cf1")
            assert code == 1 and "refuses while the robot is armed: land or disarm it first" in said
            assert operate("disarm", "cf1") == (0, "cf1: disarm\n")
            device.kill()
            lost = says("^cf1: device: link lost", 15.0)
            assert lost.rstrip().endswith("phalanx operate reconnect cf1") and lost.count("\n") == 1
            again = subprocess.Popen(
                [sys.executable, "-m", "phalanx", "operate", "reconnect", "cf1"],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            waits = next(line for line in again.stdout if f"udp://127.0.0.1:{port}" in line)
            assert waits.startswith("cf1: reconnect: its device is waited for: Crazyflie at "), waits
            with Emulated("crazyflie", "--port", str(port)):
                said = again.communicate(timeout=patience(120))[0]
                assert again.returncode == 0 and "connected after" in said and "not armed" in said, said
                assert "it was: " in says("^cf1: device: well again", 15.0)
                assert operate("arm", "cf1") == (0, "cf1: arm\n")
                assert operate("disarm", "cf1") == (0, "cf1: disarm\n")
        finally:
            deploy.send_signal(signal.SIGINT)
            deploy.wait(patience(60))
            reader.join(5.0)


class BusyDriver(LifecycleNode):
    """A driver whose process connects another robot for `BUSY_S` at first, and answers nothing meanwhile."""

    def __init__(self, context):
        super().__init__("driver", namespace="/cf1", context=context)
        self.let_go = 0
        self.busy = self.create_timer(0.01, self.connect_another)

    def connect_another(self) -> None:
        if self.count_clients("/cf1/driver/get_state"):
            self.busy.cancel()
            time.sleep(BUSY_S)

    def on_cleanup(self, state) -> TransitionCallbackReturn:
        self.let_go += 1
        return TransitionCallbackReturn.SUCCESS


def test_a_driver_whose_process_is_busy_with_another_robot_lets_go_all_the_same():
    """The robots of one radio share a process: it was called connected, and was as it had been."""
    domain = free_domain_id()
    said: list[str] = []
    with domain_context(domain) as context:
        driver, executor = BusyDriver(context), SingleThreadedExecutor(context=context)
        executor.add_node(driver)
        driver.trigger_configure()
        driver.trigger_activate()
        ended = threading.Event()

        def run() -> None:
            while not ended.is_set():
                executor.spin_once(timeout_sec=0.05)
                if driver.let_go and driver._state_machine.current_state[1] == "unconfigured":
                    driver.trigger_configure()  # as its deployment does
                    driver.trigger_activate()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            outcome = reconnect(["cf1"], domain, lambda robot, what: said.append(what))["cf1"]
        finally:
            ended.set()
            thread.join()
    assert outcome.done and driver.let_go == 1, (outcome, driver.let_go)
    assert said == ["its driver is waited for: its process is busy, such as with a device that it connects"]


class SlowDriver(LifecycleNode):
    """A driver that takes longer to connect than its answer is waited for."""

    def on_configure(self, state) -> TransitionCallbackReturn:
        time.sleep(1.5)
        return TransitionCallbackReturn.SUCCESS


def test_a_driver_that_takes_long_to_connect_again_is_activated_all_the_same(monkeypatch):
    """One of four Crazyflies on a radio waited for the others, and stayed as it was: connected, and not used."""
    monkeypatch.setattr("ros_nodes.lifecycle.bring_up.GIVE_UP_CALL_S", 0.3)
    with domain_context(free_domain_id()) as context:
        driver = SlowDriver("driver", namespace="/cf1", context=context)
        node, ended = Node("operator", context=context), threading.Event()

        def run() -> None:
            executor = SingleThreadedExecutor(context=context)
            executor.add_node(driver)
            while not ended.is_set():
                executor.spin_once(timeout_sec=0.05)

        thread, executor = threading.Thread(target=run), SingleThreadedExecutor(context=context)
        executor.add_node(node)
        thread.start()
        try:
            kept, until_s = KeepUp(node, ["/cf1/driver"]), time.monotonic() + patience(12.0)
            while driver._state_machine.current_state[1] != "active":
                assert time.monotonic() < until_s, driver._state_machine.current_state
                kept.step()
                executor.spin_once(timeout_sec=0.02)
        finally:
            ended.set()
            thread.join()


class Devices:
    """A monitor of one robot, whose device says `fault`."""

    def __init__(self) -> None:
        self.fault, self.last = "", None

    def poll(self) -> list:
        return []

    def snapshot(self) -> dict:
        said = {"device": self.fault, "last_device_fault": self.last}
        return {"robots": [{"robot": "x1", "state": "DISARMED", "reason": "", "rates_hz": {}} | said]}


def test_a_fault_of_a_device_that_does_not_last_is_said_too_once_it_is_over_and_not_again_and_again(monkeypatch):
    monkeypatch.setattr("ros_nodes.mission.team_log.RATES_S", 0.0)
    devices = Devices()
    log, said, now_s = TeamLog(devices, ["x1"]), [], time.time()
    for began_s, fault in enumerate(("link lost at 12:00", "link lost at 12:01", "", "freedrive")):
        if fault:
            since_s = now_s + began_s
            devices.last = {"fault": fault, "since_s": since_s, "until_s": since_s + 0.4}
        time.sleep(0.001)
        said += log.listen()
    assert said == [
        ("x1", "device: link lost at 12:00; the fault lasted 0.4 s, it is well again"),
        ("x1", "device: freedrive; the fault lasted 0.4 s, it is well again"),
    ]


def test_what_a_device_says_is_said_once_for_each_change_that_lasts(monkeypatch):
    monkeypatch.setattr("ros_nodes.mission.team_log.RATES_S", 0.0)
    devices = Devices()
    log, said = TeamLog(devices, ["x1"]), []
    for fault in (
        "",
        "",
        "lost at 1",
        "",
        "known to 0.5 m",
        "known to 0.6 m",
        "known to 0.7 m",
        "lost",
        "lost",
        "",
        "",
    ):
        devices.fault = fault
        time.sleep(0.001)
        said += [what for _, what in log.listen()]
    assert said == [
        "device: known to 0.6 m",
        "device: lost; where it does not come back by itself: phalanx operate reconnect x1",
        "device: well again (it was: lost)",
    ]
    devices.fault = "PX4 has restarted: it needs a new connection"
    assert not log.listen()
    time.sleep(0.001)
    assert log.listen()[0][1].endswith("phalanx operate reconnect x1")
    log.end()
    devices.fault = "lost"
    assert [log.listen() for _ in range(3)] == [[], [], []], "it was asked to end"
