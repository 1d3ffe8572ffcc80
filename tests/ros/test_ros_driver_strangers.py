"""Somebody else commands a robot behind a driver."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from patience import patience
from places import TESTS

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from ros_rig import HOVER, SPEC, Rig
from sensor_msgs.msg import JointState
from test_ros_driver import rig

from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.bring_up import ACTIVATE, CONFIGURE
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.joints import CommandConverter

pytestmark = pytest.mark.ros
FULL = np.float32([SPEC.command_high[0], 0.0, 0.0, 0.0])


class Stranger:
    """Commands full thrust, five times as often as the shield of cf1, which gets good requests meanwhile."""

    def __init__(self, team: Rig, stamp_ns: Callable[[int], int]):
        """`stamp_ns`: that of the measurement -> that of the command."""
        self._team, self._stamp_ns = team, stamp_ns
        self._requests, self._converter = team.publisher("cf1"), CommandConverter(SPEC.channels)
        self._commands = team.node.create_publisher(JointState, "/cf1/command", qos.COMMAND_IN)
        self._sent = Mailbox(team.node, JointState, "/cf1/sent", qos.recording(500, latched=False), raw=True)

    def thrusts(self, duration_s: float) -> list[float]:
        """What the device was sent while it did so, N."""
        while self._sent.take() is not None:
            pass
        self._team.watch("cf1", duration_s, self._act)
        thrusts = []
        while (taken := self._sent.take()) is not None:
            thrusts.append(float(self._converter.read(taken[0])[0].target[0]))
        return thrusts

    def _act(self, _: float) -> None:
        measured_ns = self._team.state("cf1")[1]
        self._requests.publish(self._converter.write(ActuatorCommand(HOVER), measured_ns))
        for _ in range(5):
            self._commands.publish(self._converter.write(ActuatorCommand(FULL), self._stamp_ns(measured_ns)))


def say_once(team: Rig, state: str, stays_s: float = 0.5) -> None:
    """Be the shield of cf1 for a moment."""
    stranger = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
    stranger.publish(DiagnosticArray(status=[DiagnosticStatus(values=[KeyValue(key="state", value=state)])]))
    time.sleep(stays_s)
    team.node.destroy_publisher(stranger)
    team.watch("cf1", 0.02)


def flies_on(team: Rig) -> bool:
    return team.mode("cf1") in ("NOMINAL", "FILTERED") and abs(team.state("cf1")[0].base_pos[2] - 1.0) < 0.1


def test_a_stranger_that_commands_the_robot_of_a_shield_is_not_obeyed_and_is_reported(tmp_path, monkeypatch):
    """With the time of now, as anybody would."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    with rig(tmp_path, "mujoco_driver:MujocoDriver", log=str(tmp_path / "stopped")) as team:
        team.start("cf1/driver", "cf1/shield")
        thrusts = Stranger(team, lambda measured_ns: time.time_ns()).thrusts(2.0)
        assert len(thrusts) > 50 and max(thrusts) < 0.9 * FULL[0], "it was obeyed"
        assert flies_on(team)
        assert "command has 2 publishers: obeyed is what answers" in team.processes.log_of("cf1_driver").read_text()
        assert "command has 2 publishers where one is due" in team.processes.log_of("cf1_shield").read_text()
        team.ask("cf1", "land")
        until = time.monotonic() + patience(8.0)
        while team.authority("cf1") != "DISARMED" and time.monotonic() < until:
            team.watch("cf1", 0.1)
        assert "command has 2 publishers where one is due" in team.asked("cf1", "arm")


def test_a_driver_beside_its_shield_obeys_no_stranger_who_copies_the_stamps_of_measurements(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    log = tmp_path / "stopped"
    with rig(tmp_path, "mujoco_driver:MujocoDriver", log=str(log)) as team:
        nodes = ["cf1/driver", "cf1/shield"]
        team.processes.start_host("host_1", nodes)
        for transition in (CONFIGURE, ACTIVATE):
            team.transition(transition, "cf1/driver")
        for state in ("DISARMED", "ARMED"):
            say_once(team, state)
        for transition in (CONFIGURE, ACTIVATE):
            team.transition(transition, "cf1/shield")
        team.watch("cf1", 0.3)
        assert log.with_suffix(".acts").read_text() == "disarmed", "by its shield"
        team.ask("cf1", "arm")
        team.ask("cf1", "start")
        stranger = Stranger(team, lambda measured_ns: measured_ns)
        thrusts = stranger.thrusts(2.0)
        assert len(thrusts) > 50 and max(thrusts) < 0.9 * FULL[0], "it was obeyed"
        assert flies_on(team)
        for _ in range(25):  # who comes and goes between two looks is never counted
            say_once(team, "DISARMED", 0.0)
        assert log.with_suffix(".acts").read_text() == "disarmed, armed", "its device was disarmed in flight"
        team.ask("cf1", "estop")
        thrusts = stranger.thrusts(1.0)
        assert thrusts and max(thrusts[5:]) == np.float32(SPEC.command_low[0]), "a stopped robot was moved"
