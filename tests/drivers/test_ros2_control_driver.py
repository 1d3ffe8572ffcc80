"""The driver of robots behind ros2_control, over real topics, against an emulated controller and broadcaster."""

import os
import time
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("rclpy")
from drones import wait_until
from emulated import Emulated

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment

pytestmark = [pytest.mark.ros]
UR5E = load_robot("ur5e")
HOME = np.array(UR5E.home)


@contextmanager
def pair(monkeypatch, *arguments: str, **options):
    domain = free_domain_id()
    for name, value in ros_environment(domain).items():
        monkeypatch.setenv(name, value)
    with Emulated("ros2_control", "--domain", str(domain), *arguments) as device:
        driver = load_driver("ros2_control", UR5E, controller="arm_controller", **{"connect_s": 20.0} | options)
        try:
            driver.connect()
            yield device, driver
        finally:
            driver.stop()


def move(driver, offset, seconds: float):
    """Towards home and `offset` (6,) rad, as a policy would."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        driver.read()
        driver.read_status()
        driver.write(ActuatorCommand(np.float32(HOME + offset)))
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["forward", "trajectory"])
def test_joints_go_where_they_are_asked_to_each_by_its_name(monkeypatch, kind):
    offset = np.array([0.1, 0.2, -0.2, 0.15, -0.1, 0.25])
    with pair(monkeypatch, "--kind", kind, "--prefix", "left_", prefix="left_") as (device, driver):
        np.testing.assert_allclose(driver.read().joint_pos, HOME, atol=0.02)
        move(driver, offset, 0.3)
        assert device.order()["setpoints"] == 0, "it moves without being armed"
        driver.arm()
        assert driver.read_status().armed, driver.read_status()
        move(driver, offset, 2.0)
        said = device.order()
        np.testing.assert_allclose(said["q"], HOME + offset, atol=0.02)
        np.testing.assert_allclose(driver.read().joint_pos, said["q"], atol=0.01)
        assert driver.read().age < 0.1
        topic = {"forward": "commands", "trajectory": "joint_trajectory"}[kind]
        assert driver.read_firmware() == f"ros2_control: set-points go to /arm_controller/{topic}"
        assert not (said["jump"] or said["range"] or said["garbage"])
        move(driver, np.zeros(6), 0.2)
        driver.disarm()
        wait_until(lambda: device.order()["fastest"] < 0.02, "it goes on")

        def is_left_alone() -> bool:
            count = device.order()["setpoints"]
            time.sleep(0.2)
            return device.order()["setpoints"] == count

        wait_until(is_left_alone, "a controller that holds is left alone")


@pytest.mark.parametrize(
    ("order", "fault"),
    [
        ({"silent": True}, "/joint_states says nothing new any more"),
        ({"frozen": True}, "/joint_states says nothing new any more"),
        ({"lacks_velocity": True}, "0 velocities"),
        ({"off_rad": float("nan")}, "shoulder_pan_joint is measured as no finite number"),
        ({"behind_s": 1.5}, "/joint_states is stamped 1.5 s late: was its clock set?"),
        ({"is_active": False}, "does not follow: is arm_controller active?"),
    ],
)
def test_what_a_robot_does_not_do_any_more_is_a_fault_until_a_person_acts(monkeypatch, order, fault):
    with pair(monkeypatch) as (device, driver):
        driver.arm()
        move(driver, np.zeros(6), 0.2)
        assert driver.read_status().armed
        device.order(**order)
        far = np.array([0.8, 0.0, 0.0, 0.0, 0.0, 0.0])

        def says() -> bool:
            move(driver, far, 0.02)
            return fault in driver.read_status().fault

        wait_until(says, driver.read_status, 4.0)
        assert not driver.read_status().armed
        device.order(**{name: 0.0 if isinstance(value, float) else not value for name, value in order.items()})
        wait_until(lambda: driver.read().age < 0.1, driver.read, 3.0)
        wait_until(lambda: driver.read_status().fault and not driver.read_status().armed, driver.read_status)
        driver.disarm()
        wait_until(lambda: (driver.read(), not driver.read_status().fault)[1], driver.read_status)


def test_an_arm_is_not_armed_where_its_joints_cannot_be(monkeypatch):
    """Its first set-point would be there, and the controller would go there at once."""
    with pair(monkeypatch) as (device, driver):
        device.order(off_rad=50.0)
        wait_until(lambda: driver.read().joint_pos[0] > 40.0, "it is measured elsewhere")
        driver.arm()
        status = driver.read_status()
        assert not status.armed and status.fault.startswith("shoulder_pan_joint is measured at 50 rad, outside -6.28")
        time.sleep(0.3)
        said = device.order()
        assert said["setpoints"] == said["range"] == 0
        device.order(off_rad=0.0)
        wait_until(lambda: abs(driver.read().joint_pos[0]) < 1.0, "it is measured where it is again")
        time.sleep(0.3)  # it has jumped
        driver.arm()
        assert driver.read_status().armed, driver.read_status()


def test_an_arm_is_not_armed_by_a_measurement_that_jumps(monkeypatch):
    with pair(monkeypatch) as (device, driver):
        before = float(driver.read().joint_pos[0])
        device.order(off_rad=0.8)
        wait_until(lambda: driver.read().joint_pos[0] > before + 0.5, "it is measured elsewhere")
        driver.arm()
        assert "was measured to jump by 0.80 rad" in driver.read_status().fault, driver.read_status()
        device.order(off_rad=0.0)
        wait_until(lambda: driver.read().joint_pos[0] < before + 0.1, "it is measured where it is again")
        time.sleep(0.3)
        driver.read()
        driver.arm()
        assert driver.read_status().armed, driver.read_status()
        move(driver, np.zeros(6), 0.2)
        assert not device.order()["jump"]


def test_a_second_commander_is_named(monkeypatch):
    with pair(monkeypatch) as (_, driver):
        other = load_driver("ros2_control", UR5E, controller="arm_controller", connect_s=20.0)
        other.connect()
        wait_until(lambda: (driver.read(), "one commander" in driver.read_status().fault)[1], driver.read_status)
        driver.arm()
        assert not driver.read_status().armed
        other.stop()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("--interface", "velocity"), {}, "controller /arm_controller takes velocity; expected position"),
        (("--prefix", "left_"), {}, "takes the joints left_elbow_joint, .*; expected shoulder_pan_joint"),
        (("--kind", "trajectory", "--measured"), {}, "where the joints are: set interpolate_from_desired_state: true"),
        ((), {"joint_states": "/other"}, "nothing on /other within 3 s"),
    ],
)
def test_a_controller_of_something_else_is_refused_in_one_line(monkeypatch, arguments, options, message):
    with pytest.raises(DriverError, match=message), pair(monkeypatch, *arguments, **{"connect_s": 3.0}, **options):
        pass


def test_robots_that_it_cannot_move_and_rates_that_cannot_be_are_refused():
    for robot, options, message in (
        ("crazyflie", {}, "on a fixed base by joint positions, not 'crazyflie'"),
        ("ur5e", {"command_hz": 5.0}, "command_hz is 5: expected 20 to 1000"),
    ):
        with pytest.raises(DriverError, match=message):
            load_driver("ros2_control", load_robot(robot), controller="arm_controller", **options)


@pytest.mark.parametrize("kind", ["forward", "trajectory"])
def test_a_controller_that_is_not_there_is_answered_with_those_that_are(monkeypatch, kind):
    domain = free_domain_id()
    for name, value in ros_environment(domain).items():
        monkeypatch.setenv(name, value)
    with Emulated("ros2_control", "--domain", str(domain), "--kind", kind):
        driver = load_driver("ros2_control", UR5E, controller="forward_position_controller", connect_s=5.0)
        with pytest.raises(DriverError, match=r"within 5 s: there are the controllers arm_controller$"):
            driver.connect()


def test_a_controller_that_is_not_there_is_said_after_its_time(monkeypatch):
    for name, value in ros_environment(free_domain_id()).items():
        monkeypatch.setenv(name, value)
    driver = load_driver("ros2_control", UR5E, controller="none", connect_s=0.3)
    with pytest.raises(DriverError, match=r"controller /none does not answer within 0.3 s: is it loaded\?"):
        driver.connect()
    assert os.environ["ROS_DOMAIN_ID"]


def test_without_commands_of_a_shield_the_arm_comes_to_rest_on_its_way(monkeypatch):
    with pair(monkeypatch) as (device, driver):
        driver.arm()
        far = np.array([1.5, 0.0, 0.0, 0.0, 0.0, 0.0])
        wait_until(lambda: (move(driver, far, 0.05), device.order()["fastest"] > 0.3)[1], "it does not move")
        wait_until(lambda: (driver.read(), device.order()["fastest"] < 0.01)[1], "it goes on without commands", 3.0)
        rest = device.order()["q"][0] - HOME[0]
        assert 0.0 < rest < 1.2, "it stopped where it had been sent"
        count = device.order()["setpoints"]
        wait_until(lambda: device.order()["setpoints"] > count + 10, "set-points, which stand still, go on")
        assert device.order()["q"][0] - HOME[0] == pytest.approx(rest, abs=0.01)


def test_an_arm_that_is_armed_again_on_its_way_goes_on_without_a_jump(monkeypatch):
    """Its set-point brakes still, and is ahead of where the joints were measured."""
    with pair(monkeypatch) as (device, driver):
        far = np.array([2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        for there in (far, -far, far):
            driver.arm()
            wait_until(
                lambda there=there: (move(driver, there, 0.02), device.order()["fastest"] > 2.2)[1], "it is slow"
            )
            driver.disarm()
            driver.arm()
            move(driver, there, 0.1)
        assert driver.read_status().armed and device.order()["jump"] == 0
