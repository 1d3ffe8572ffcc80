"""The driver node as a real process: a shield flies a robot through its driver, and dies."""

import json
import threading
import time
from collections.abc import Iterable
from itertools import repeat
from types import SimpleNamespace

import numpy as np
import pytest
from patience import patience
from places import TESTS

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from pd_bundle import pd_contract, save_pd_bundle
from ros_rig import HOVER, SPEC, Rig, standing
from sensor_msgs.msg import JointState
from test_ros_shield_limits import give

from deploy.contract import make_plant
from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.bring_up import CONFIGURE, DEACTIVATE, BringUpError
from ros_nodes.lifecycle.lifecycle_node import LoopEnded
from ros_nodes.lifecycle.polling import Mailbox, make_mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import empty_state
from ros_nodes.messages.joints import CommandConverter, JointConverter
from ros_nodes.nodes import driver_node
from ros_nodes.nodes.driver_node import DriverNode

pytestmark = pytest.mark.ros


def rig(folder, driver: str, **options) -> Rig:
    """A rig whose only robot is behind a driver node."""
    parameters = {"/**/driver": {"driver": driver, "options": json.dumps(options)}}
    return Rig(folder, starts=[[0.0, 0.0, 1.0, 0.0]], parameters=parameters)


def test_a_shield_flies_a_robot_through_its_driver_and_silence_stops_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    log = tmp_path / "stopped"
    with rig(tmp_path, "mujoco_driver:MujocoDriver", log=str(log)) as team:
        team.start("cf1/driver", "cf1/shield")
        publisher, converter = team.publisher("cf1"), CommandConverter(SPEC.channels)

        def request(_: float) -> None:
            publisher.publish(converter.write(ActuatorCommand(HOVER), team.state("cf1")[1]))

        team.watch("cf1", 2.0, request)
        assert team.mode("cf1") in ("NOMINAL", "FILTERED")
        with pytest.raises(BringUpError, match="refused to deactivate"):
            team.transition(DEACTIVATE, "cf1/driver")  # its device would be left alone
        team.fly("cf1", 0.5, request)
        assert abs(team.state("cf1")[0].base_pos[2] - 1.0) < 0.1
        device = make_mailbox(team.node, DiagnosticArray, "/cf1/device", qos.LATCHED)
        team.processes.kill("cf1_shield")
        until, said = time.monotonic() + patience(3.0), None
        while not (log.exists() and said) and time.monotonic() < until:
            said = device.take() or said
            time.sleep(0.05)
        assert log.exists(), "the driver went on flying the last command"
        assert said and said[0].status[0].message == "no command for 0.5 s: its driver stops it"


def test_a_device_is_armed_with_its_shield_and_a_disarmed_one_is_not_stopped_for_silence(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    log = tmp_path / "stopped"
    with rig(tmp_path, "mujoco_driver:MujocoDriver", log=str(log)) as team:
        team.start("cf1/driver", "cf1/shield")
        team.watch("cf1", 0.5)
        team.ask("cf1", "land")
        until = time.monotonic() + patience(8.0)
        while team.authority("cf1") != "DISARMED":
            team.watch("cf1", 0.1)
            assert time.monotonic() < until
        team.watch("cf1", 2.5)
        assert not log.exists() and team.state("cf1")[0].base_pos[2] < 0.05
        team.ask("cf1", "arm")
        # Its device hears of it on `status`, and of nothing any more once there are two who speak there.
        team.watch_until("cf1", lambda: log.with_suffix(".acts").read_text().endswith("disarmed, armed"), 2.0)
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        message = DiagnosticArray(status=[DiagnosticStatus(values=[KeyValue(key="state", value="DISARMED")])])
        team.watch("cf1", 0.3)
        team.watch("cf1", 0.7, lambda _: stranger.publish(message))
        team.node.destroy_publisher(stranger)
        team.watch("cf1", 0.3)
        team.processes.end("cf1_shield")  # SIGTERM: it ends at once
        team.processes.end("cf1_driver")
        assert log.read_text().startswith("disarmed, armed, disarmed, armed; stopped at 0.0")


def test_what_was_really_sent_is_published_and_recorded(tmp_path, monkeypatch):
    """The device has limits of its own: a thrust of 5 N that was not cut before is cut there."""
    from rosbags.highlevel import AnyReader

    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    options = {"driver": "mujoco_driver:MujocoDriver", "options": json.dumps({"log": str(tmp_path / "stopped")})}
    parameters = {"/**/driver": options, "/recorder": {"team": ["cf1"], "bag": str(tmp_path / "bag")}}
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], parameters=parameters) as team:
        team.start("recorder", "cf1/driver")
        publisher = team.node.create_publisher(JointState, "/cf1/command", qos.COMMAND_IN)
        sent, converter = (
            Mailbox(team.node, JointState, "/cf1/sent", qos.SENSOR, raw=True),
            CommandConverter(SPEC.channels),
        )
        asked, stamp_ns = np.float32([5.0, 0.1, 0.2, 0.3]), time.time_ns()
        until, taken = time.monotonic() + patience(5.0), None
        while time.monotonic() < until:
            publisher.publish(converter.write(ActuatorCommand(np.float32([np.nan, 0.0, 0.0, 0.0])), stamp_ns))
            publisher.publish(converter.write(ActuatorCommand(asked), stamp_ns))
            time.sleep(0.02)
            if taken is None and (taken := sent.take()) is not None:
                until = time.monotonic() + patience(1.0)  # the recorder may find the driver later than we
        command, stamp = converter.read(taken[0])
        assert stamp == stamp_ns
        np.testing.assert_array_equal(command.target, np.float32([SPEC.command_high[0], 0.1, 0.2, 0.3]))
        team.processes.end("cf1_driver")  # it would end by itself, without commands
        team.transition(DEACTIVATE, "recorder")
    with AnyReader([tmp_path / "bag"]) as bag:
        counts = {connection.topic: connection.msgcount for connection in bag.connections}
    assert counts["/cf1/sent"] > 0


def test_an_arm_behind_its_driver_tells_its_joints_and_is_stopped_in_silence(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    log, panda = tmp_path / "stopped", load_robot("panda")
    options = {"driver": "mujoco_driver:MujocoDriver", "options": json.dumps({"log": str(log)})}
    mission = standing([[0.5, -0.3, 0.1, 0.8]], panda)  # where its driver, which has it at the origin, does not know it
    with Rig(tmp_path, mission=mission, parameters={"/**/driver": options}) as team:
        team.start("panda_1/driver", "panda_1/shield")
        base = team.state("panda_1")[0]
        np.testing.assert_allclose(base.base_pos, [0.5, -0.3, 0.1], atol=1e-6)
        np.testing.assert_allclose(base.base_quat, [np.cos(0.4), 0.0, 0.0, np.sin(0.4)], atol=1e-6)
        publisher, converter = team.publisher("panda_1"), CommandConverter(panda.channels)
        joints, state = JointConverter(panda.joint_names), empty_state(len(panda.joints))
        mailbox = Mailbox(team.node, JointState, "/panda_1/joint_states", qos.SENSOR, raw=True)
        target = np.array(panda.home, np.float32)
        target[0] += 0.4

        def request(_: float) -> None:
            if (taken := mailbox.take()) is not None:
                publisher.publish(converter.write(ActuatorCommand(target), joints.read(taken[0], state)))

        team.fly("panda_1", 2.5, request)
        assert state.joint_pos[0] == pytest.approx(0.4, abs=0.02)
        team.processes.kill("panda_1_shield")
        until = time.monotonic() + patience(3.0)
        while not log.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert log.exists(), "the driver went on with the last command"


def test_a_fault_of_a_device_is_forgotten_with_who_said_it(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 0.02, 0.0]]) as team:
        team.start("simulated_robots", "cf1/shield", armed=False)
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/device", qos.LATCHED)
        fault = KeyValue(key="fault", value="mine " * 1000)
        stranger.publish(DiagnosticArray(status=[DiagnosticStatus(values=[fault])]))
        team.watch("cf1", 0.5)
        refused = team.asked("cf1", "arm")
        assert "device: mine" in refused and len(refused) < 500
        another = team.node.create_publisher(DiagnosticArray, "/cf1/device", qos.LATCHED)
        another.publish(DiagnosticArray(status=[DiagnosticStatus()]))
        team.watch("cf1", 0.5)
        team.node.destroy_publisher(stranger)
        team.watch("cf1", 0.5)
        assert "device: mine" in team.asked("cf1", "arm"), "who is left has said nothing since"
        another.publish(DiagnosticArray(status=[DiagnosticStatus()]))
        team.ask("cf1", "arm")
        team.ask("cf1", "disarm")
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/device", qos.LATCHED)
        stranger.publish(DiagnosticArray(status=[DiagnosticStatus(values=[fault])]))
        team.watch("cf1", 0.5)
        team.node.destroy_publisher(another)
        team.watch("cf1", 0.5)
        assert "it has said nothing since two spoke for it" in team.asked("cf1", "arm")
        team.node.destroy_publisher(stranger)
        team.ask("cf1", "arm")


def test_a_shield_is_not_armed_with_a_driver_for_another_file_or_another_robot(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    fingerprint = save_pd_bundle(tmp_path / "hover.onnx", pd_contract())
    heavy = tmp_path / "crazyflie@heavy.yaml"
    heavy.write_text("robot: crazyflie\nnumbers: {mass_kg: {value: 0.05, low: 0.04, high: 0.06}}\n")
    options = {"driver": "mujoco_driver:MujocoDriver", "options": json.dumps({"log": str(tmp_path / "stopped")})}
    for own, file, wanted in (
        (
            "crazyflie",
            str(tmp_path / "hover.onnx"),
            f"the driver was set up for file {fingerprint[:12]}, the shield for 000",
        ),
        (str(heavy), "", "the driver's robot type is crazyflie "),
    ):
        driver = {"/cf1/driver": options | {"bundle": file, "robot_type": own}}
        with Rig(tmp_path, starts=[[0.0] * 4], parameters=driver | {"/**/shield": {"fingerprint": "0" * 64}}) as team:
            team.start("cf1/driver", "cf1/shield", armed=False)
            team.watch("cf1", 0.5)
            assert wanted in team.asked("cf1", "arm")


def test_a_driver_that_is_not_there_is_refused_in_one_line(tmp_path):
    with rig(tmp_path, "no_such_module:Driver") as team:
        team.processes.start("cf1_driver", "driver_node", namespace="cf1")
        with pytest.raises(BringUpError, match="/cf1/driver refused to configure"):
            team.transition(CONFIGURE, "cf1/driver")
        assert "no_such_module" in team.processes.last_line("cf1_driver")
        for name in ("driver", "robot_type"):  # no program of the network chooses what is imported here
            assert "read-only" in give(team, "cf1/driver", name, "this:s").reason


def test_a_device_that_reports_another_plant_than_the_policy_was_trained_for_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    save_pd_bundle(tmp_path / "hover.onnx", pd_contract(plant=make_plant(SPEC, {})))
    options = {"log": str(tmp_path / "stopped"), "changed": {"mass_kg": 0.08}}
    parameters = {"driver": "mujoco_driver:PlantDriver", "bundle": str(tmp_path / "hover.onnx")}
    for heavy in (options, options | {"changed": {}}):
        values = {"/**/driver": parameters | {"options": json.dumps(heavy)}}
        with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], parameters=values) as team:
            team.processes.start("cf1_driver", "driver_node", namespace="cf1")
            if not heavy["changed"]:
                team.transition(CONFIGURE, "cf1/driver")
                continue
            with pytest.raises(BringUpError, match="/cf1/driver refused to configure"):
                team.transition(CONFIGURE, "cf1/driver")
            assert "is for mass_kg from 0.04294" in (line := team.processes.last_line("cf1_driver"))
            assert line.endswith("its driver has 0.08")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nonsense", "unknown driver 'nonsense'.* or module:NAME"),
        ("hardware.drivers:Nothing", "has no 'Nothing'"),
        ("mujoco_driver:MujocoDriver", "option log is missing; it takes log"),
    ],
)
def test_errors_name_the_driver(path, message):
    with pytest.raises(DriverError, match=message):
        load_driver(path, SPEC)


def silent_node(monkeypatch, ticks_s: Iterable[float | None], slept_s: Iterable[float]) -> DriverNode:
    """A driver that wakes at `ticks_s`, having gone to sleep at `slept_s`; its one command comes at the first tick."""
    node, woken, slept = DriverNode.__new__(DriverNode), iter(ticks_s), iter(slept_s)

    def wait(stopped: threading.Event) -> SimpleNamespace | None:
        node.woke_s = at_s = next(woken)
        return None if at_s is None else SimpleNamespace(woke_ns=round(at_s * 1e9))

    monkeypatch.setattr(driver_node, "Deadlines", lambda *_: SimpleNamespace(wait=wait))
    nothing = SimpleNamespace(publish=lambda *_: None)
    node._period_s, node._command_timeout_s, node._about = 0.1, 0.5, None
    node._own_status = node._measurements = nothing
    node.clock = SimpleNamespace(now_ns=lambda: round(next(slept) * 1e9))
    node._bolted = node._battery = node._read_status = node._here = None
    node._name, node._device = "cf1", SimpleNamespace(update=lambda *_: None)
    monkeypatch.setattr(node, "get_logger", lambda: SimpleNamespace(error=lambda text: None))
    node._driver = SimpleNamespace(read=lambda: SimpleNamespace(age=0.0), stop=lambda: None)
    heard = iter([True])
    monkeypatch.setattr(node, "_follow_shield", lambda driver: False)
    monkeypatch.setattr(node, "_obey", lambda driver: next(heard, False))
    return node


SILENT = r"no command for 0.5 s: the robot was stopped"


def test_a_clock_that_begins_again_does_not_put_off_the_stop_for_silence(monkeypatch):
    """Of simulated time: of a command that came at 60 s none had been missing until then, a minute later."""
    ticks = [60.0, 60.1, *np.arange(0.1, 2.0, 0.1), None]
    node = silent_node(monkeypatch, ticks, repeat(0.0))
    with pytest.raises(LoopEnded, match=SILENT):
        node.run(threading.Event())


@pytest.mark.parametrize("in_device", [True, False])
def test_a_driver_that_is_slow_or_stands_still_again_and_again_stops_its_robot_all_the_same(monkeypatch, in_device):
    """Once it is excused for not having listened, where its process stood still; never for the time of its device."""
    ticks = [0.3 * number for number in range(1, 100)]
    # The clock is asked for each measurement, too, and at first.
    slept = [0.0, *(at_s + 0.29 * in_device for at_s in ticks for _ in range(2))]
    node = silent_node(monkeypatch, [*ticks, None], slept)
    with pytest.raises(LoopEnded, match=SILENT):
        node.run(threading.Event())
    assert node.woke_s == pytest.approx(0.9 if in_device else 1.2)
