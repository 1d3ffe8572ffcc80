"""`phalanx monitor` beside a robot that is armed and stopped, in a terminal and in a pipe."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, nullcontext
from math import inf
from types import SimpleNamespace
from typing import IO

import pytest
from patience import patience

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rich.console import Console
from ros_rig import SPEC, Rig

from deploy.shield.authority import State
from deploy.shield.supervisor import Mode, ShieldReport
from phalanx.commands.monitor import monitor, rate_of, render
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.messages.diagnostics import ShieldStatus
from ros_nodes.operation.monitor import Monitor
from ros_nodes.operation.robot_monitor import RobotMonitor

pytestmark = pytest.mark.ros


def command(domain_id: int, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "phalanx", "monitor", "--domain", str(domain_id), *arguments]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(60))


def next_change(lines: IO[str]) -> str:
    """The next line of a change: others are of delays, which a busy machine has."""
    return next(line for line in lines if " -> " in line)


def test_what_a_robot_does_is_seen_as_json_as_lines_and_in_a_terminal(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0], [2.0, 0.0, 1.0, 0.0]]) as rig, ExitStack() as running:
        rig.start("simulated_robots", "cf1/shield", armed=False)
        domain_id = rig.node.context.get_domain_id()
        lines = subprocess.Popen(command(domain_id), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        screen, screen_end = pty.openpty()
        terminal = subprocess.Popen(
            command(domain_id),
            stdout=screen_end,
            stderr=screen_end,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "160"},
        )
        os.close(screen_end)
        for watching in (lines, terminal):
            running.callback(watching.kill)
        shown = bytearray()
        threading.Thread(target=keep, args=(screen, shown), daemon=True).start()
        assert "DISARMED" in lines.stdout.readline()
        rig.ask("cf1", "arm")
        assert "cf1  DISARMED -> ARMED" in next_change(lines.stdout)

        until = time.monotonic() + patience(20.0)
        publishers = {"odom": 1, "requested": 0, "command": 1}
        robot = {"publishers": None}
        while robot["publishers"] != publishers:  # one look may come before the middleware has found them all
            assert time.monotonic() < until, robot
            done = run(command(domain_id, "cf1", "--json", "--once"))
            assert done.returncode == 0, done.stderr
            (robot,) = json.loads(done.stdout)["robots"]
        assert (robot["robot"], robot["state"], robot["latched"]) == ("cf1", "ARMED", False)
        changes = [change["to"] for change in robot["changes"] if change["from"] != change["to"]]  # others are delays
        assert changes == ["ARMED"], "also before it was started, but not since when it had been DISARMED"
        assert robot["rates_hz"]["command"] == pytest.approx(SPEC.control_hz, rel=0.2)
        assert robot["rates_hz"]["requested"] == 0.0 and robot["rates_hz"]["odom"] > 10
        assert robot["state_age_s"] < robot["state_bound_s"] == pytest.approx(0.1)
        assert list(robot["peers_age_s"]) == ["cf2"] and robot["peers_age_s"]["cf2"] < 0.5

        assert robot["keeps_distance"] and robot["peers_sharing"] == []  # cf2 has no shield

        rig.ask("cf1", "estop")
        assert "cf1  ARMED -> STOPPED" in next_change(lines.stdout)
        until = time.monotonic() + patience(30.0)
        while b"STOPPED" not in shown:
            assert time.monotonic() < until, bytes(shown)
            time.sleep(0.1)
        rig.processes.kill("simulated_robots")
        while b"0/1" not in shown:
            assert time.monotonic() < until, bytes(shown)
            time.sleep(0.1)
        assert b"1/1" in shown and b"does not hear" in shown
        while not re.search(rb"\d{3,}!", shown):  # its measurement grows old, though its shield speaks
            assert time.monotonic() < until, bytes(shown)
            time.sleep(0.1)
        os.kill(rig.processes.pid("cf1_shield"), signal.SIGSTOP)
        silent = "cf1  STOPPED -> SILENT: silent for 5 s: its process stands still; it was STOPPED"
        assert silent in next_change(lines.stdout)
        while b"silent for 7 s" not in shown:
            assert time.monotonic() < until, bytes(shown)
            time.sleep(0.1)
        done = run(command(domain_id, "cf1", "--once", "--wait-s", "1"))
        assert done.returncode == 1
        assert "nothing was heard of cf1 within 1 s; the process of cf1 stands still" in done.stderr
        rig.processes.kill("cf1_shield")
        for watching in (lines, terminal):
            watching.send_signal(signal.SIGINT)
            assert watching.wait(patience(10)) == 0
        assert lines.stdout.read() == ""
        assert lines.stderr.read() == f"a line for each change in ROS domain {domain_id}\n"
        assert b"last changes" in shown and b"Traceback" not in shown


@pytest.mark.parametrize("width", [60, 80, 200])
def test_nothing_is_cut_on_a_narrow_screen(width):
    reason = "no current estimate: 1234 ms old; never heard of cf1, cf2; battery at 10 %, needs 20 %"
    robots = [
        {
            "robot": f"drone_{number}",
            "latched": True,
            "refused": f"goal refused by {number}: command goal_pos[0] is 9, outside its range",
            "margin": 0.123,
            "interventions": 12345,
            "request_age_s": None,
            "state_age_s": 0.2,
            "state_bound_s": 0.1,
            "device": f"motor {number} reports error 0x40",
            "state": "DISARMED",
            "mode": "FILTERED",
            "reason": f"{number} {reason}",
            "rates_hz": {"odom": 100.0, "requested": 50.0, "command": 51.0 + number},
            "publishers": {"odom": 1, "requested": 1, "command": 2},
            "peers_age_s": {f"drone_{other}": None for other in range(8) if other != number},
            "battery": {"charge": 0.11 + 0.01 * number, "voltage": 3.7},
            "changes": [{"time_s": 2e9, "from": "ARMED", "to": "DISARMED", "reason": f"{number} {reason}"}],
        }
        for number in range(8)
    ]
    screen = Console(width=width, file=io.StringIO(), soft_wrap=True)
    screen.print(render({"time_s": 2e9, "robots": robots}, width))
    text = screen.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for robot in robots:
        rates = "/".join(f"{rate:.0f}" for rate in robot["rates_hz"].values())
        assert rates in words and f"{robot['battery']['charge']:.0%}"[:-1] in words
        assert text.count(robot["reason"][:20]) == 2 and " ".join(robot["reason"].split()) in " ".join(words)
    assert all(robot["refused"] in " ".join(words) and robot["device"] in " ".join(words) for robot in robots)
    assert words.count("200!") == len(robots)
    assert "drone_1, drone_2, drone_3" in " ".join(words)


def test_no_robot_to_watch_is_said_in_one_line():
    done = run(command(free_domain_id(), "--once", "--json", "--wait-s", "0.5"))
    assert done.returncode == 1 and json.loads(done.stdout)["robots"] == []
    assert "nothing was heard of any robot within 0.5 s" in done.stderr


def test_once_waits_for_those_who_come_later_and_says_who_is_not_heard():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = Node("shields", context=context)

        def speak(name: str, peers: list[str]) -> None:
            status = ShieldStatus(name, 0.5)
            status.update(0.0, State.DISARMED, "", ShieldReport(Mode.OFF, "", 1.0, (), 0.0), 0.0)
            publisher = node.create_publisher(DiagnosticArray, f"/{name}/status", qos.HISTORY)
            publisher.publish(status.message(time.time_ns(), dict.fromkeys(peers)))

        speak("cf1", ["cf2", "cf3"])
        fault = DiagnosticStatus(values=[KeyValue(key="fault", value="no state for 2.0 s")])
        device = node.create_publisher(DiagnosticArray, "/cf1/device", qos.LATCHED)
        device.publish(DiagnosticArray(status=[DiagnosticStatus(), fault]))
        watching = subprocess.Popen(
            command(domain_id, "--once", "--json", "--wait-s", "9"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        until = time.monotonic() + patience(20.0)
        while node.count_subscribers("/cf1/status") == 0:
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(1.0)
        speak("cf2", [])
        shown, said = watching.communicate(timeout=patience(30))
        node.destroy_node()
    assert [robot["robot"] for robot in json.loads(shown)["robots"]] == ["cf1", "cf2"]
    of_driver, nothing = (robot["device"] for robot in json.loads(shown)["robots"])
    assert re.fullmatch(r"its driver is silent for \d+ s", of_driver) and nothing == ""
    assert watching.returncode == 1 and b"nothing was heard of cf3 within 9 s" in said


class Passing:
    """Time that passes by itself, robots that are heard when it is theirs, and a process that stalls at `stalls_s`."""

    standing_still: tuple[str, ...] = ()
    is_named, domain_id, in_domain = False, 7, ("cf1",)

    def __init__(self, heard_s: dict[str, float], stalls_s: float = inf, is_whole: bool = False):
        self.now_s, self._heard_s, self._stalls_s, self.is_whole = 0.0, heard_s, stalls_s, is_whole
        self.missing: list[str] = []
        self.heard: list[SimpleNamespace] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        stands_still_s = 30.0 if self.now_s < self._stalls_s <= self.now_s + seconds else 0.0
        self.now_s += seconds + stands_still_s

    def poll(self) -> None:
        self.heard = [SimpleNamespace(name=name) for name, at_s in self._heard_s.items() if at_s <= self.now_s]

    def snapshot(self) -> dict:
        return {"robots": [robot.name for robot in self.heard]}


@pytest.mark.parametrize("robots", [{"cf1": 0.3, "cf2": 3.5}, {"cf1": 0.3, "cf2": 31.0}], ids=["late", "stalled"])
def test_once_does_not_end_before_a_robot_that_was_not_heard_at_first_announces_itself_again(
    robots, monkeypatch, capsys
):
    watched = Passing(robots, 1.0 if robots["cf2"] > 30.0 else inf)
    monkeypatch.setattr(sys.modules["phalanx.commands.monitor"], "time", watched)
    monkeypatch.setattr("ros_nodes.operation.monitor.slowness", lambda: 1.0)
    monkeypatch.setattr("ros_nodes.operation.monitor.monitoring", lambda *_: nullcontext(watched))
    assert monitor(json=True, once=True, wait_s=40.0) == 0
    assert json.loads(capsys.readouterr().out) == {"robots": ["cf1", "cf2"]}
    assert watched.now_s < robots["cf2"] + 8.0


@pytest.fixture
def on_a_busy_machine(monkeypatch):
    """Has `phalanx monitor` watch a `Passing`, where three times as many threads want to run as there are cores."""

    def watch(watched: Passing) -> Passing:
        monkeypatch.setattr(sys.modules["phalanx.commands.monitor"], "time", watched)
        monkeypatch.setattr("ros_nodes.operation.monitor.slowness", lambda: 3.0)
        monkeypatch.setattr("ros_nodes.operation.monitor.monitoring", lambda *_: nullcontext(watched))
        return watched

    return watch


def test_once_does_not_wait_for_others_where_all_of_a_team_are_heard(on_a_busy_machine):
    watched = on_a_busy_machine(Passing({"cf1": 0.3, "cf2": 0.5}, is_whole=True))
    assert monitor(json=True, once=True, wait_s=40.0) == 0
    assert watched.now_s < 3.0


def test_once_shows_soon_who_is_heard_where_another_is_waited_for(on_a_busy_machine, monkeypatch, capsys):
    watched = on_a_busy_machine(Passing({"cf1": 0.3}))
    watched.missing = ["cf3"]
    shown = []
    monkeypatch.setattr(sys.modules["phalanx.commands.monitor"], "render", lambda said: shown.append(watched.now_s))
    assert monitor(once=True, wait_s=20.0) == 1
    assert len(shown) == 2 and shown[0] < 3.0 and shown[1] > 20.0, "at the end with what was measured since"
    assert capsys.readouterr().err.splitlines() == [
        "heard cf1; waiting for cf3",
        "phalanx: nothing was heard of cf3 within 20 s; 1 of 2 were heard: do the others run?",
    ]


def test_a_mistyped_name_is_answered_with_the_robots_that_are_there(on_a_busy_machine, capsys):
    watched = on_a_busy_machine(Passing({}))
    watched.missing, watched.is_named, watched.in_domain = ["cf11"], True, ["cf1", "drone_2"]
    assert monitor(("cf11",), once=True, wait_s=1.0) == 1
    said = capsys.readouterr().err
    assert "cf11 is not heard in ROS domain 7: there is cf1, drone_2; did you mean 'cf1'?" in " ".join(said.split())


def test_what_is_only_waited_for_is_no_robot_and_a_shield_that_left_has_ended():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = Node("shields", context=context)
        robots, waits = Monitor(node), RobotMonitor(node, "cf9")  # such as by a mistyped name
        status = ShieldStatus("cf1", 0.5)
        status.update(0.0, State.DISARMED, "", ShieldReport(Mode.OFF, "", 1.0, (), 0.0), 0.0)
        publisher = node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        publisher.publish(status.message(time.time_ns()))
        until = time.monotonic() + patience(20.0)
        while not robots.heard:
            assert time.monotonic() < until
            robots.poll()
            time.sleep(0.05)
        assert (robots.missing, robots.in_domain, waits.heard) == ([], ["cf1"], False)
        node.destroy_publisher(publisher)
        (cf1,), late_ns = robots.heard, time.time_ns() + 60_000_000_000
        while (shown := cf1.snapshot(late_ns))["state"] != "ENDED":
            assert time.monotonic() < until, shown
            cf1.poll(late_ns)
        node.destroy_node()
    assert re.fullmatch(r"silent for \d+ s: its shield has ended; it was DISARMED", shown["reason"])


def test_a_rate_of_what_no_robot_sends_is_a_dash():
    robot = {"rates_hz": {"odom": 0.0, "requested": 0.0, "command": 54.2}, "publishers": {"odom": 0, "requested": 1}}
    robot["publishers"]["command"] = 1
    assert "/".join(rate_of(robot, topic) for topic in robot["rates_hz"]) == "-/0/54"


def keep(screen: int, shown: bytearray) -> None:
    while True:
        try:
            shown += os.read(screen, 4096)
        except OSError:  # its other end is closed
            return
