"""What the doctor says of a robot's link: which one it is and what to do, and whether this computer is the reason."""

import json
import os
import subprocess
import sys

import pytest
from emulated import Emulated
from places import ROOT, ZOO

from hardware import load_robot
from hardware.drivers import DRIVERS, driver_class, needed_hz
from hardware.types import DeviceStatus
from phalanx.doctor.links import link_hint, rate_hint, shared_domain
from phalanx.doctor.robots import Seen, _measurements, _said

LINKS = [  # driver, options, and what its hint has to name
    ("crazyflie", {"uri": "radio://0/80/2M/E7E7E7E7E7"}, ("radio", "radio://0/80/2M/E7E7E7E7E7", "channel")),
    ("crazyflie", {"uri": "usb://0"}, ("usb", "usb://0")),
    ("crazyflie", {"uri": "udp://127.0.0.1:19850"}, ("udp", "127.0.0.1:19850", "firewall")),
    ("px4", {"link": "/dev/ttyTHS1", "baud": 57600}, ("serial", "/dev/ttyTHS1", "57600", "MAV_SYS_ID 1")),
    ("px4", {"link": "udpin:0.0.0.0:14540", "system": 3}, ("udp", "14540", "MAV_SYS_ID 3")),
    ("px4", {"link": "udpout:192.168.0.4:14580"}, ("udp", "192.168.0.4:14580", "ping 192.168.0.4")),
    ("px4", {"link": "udpout:192.168.0.4"}, ("udp", "ping 192.168.0.4;")),
    ("px4", {"link": "tcp:192.168.0.4:5760"}, ("tcp", "192.168.0.4:5760")),
    ("ur", {"host": "192.168.56.2"}, ("tcp", "ping 192.168.56.2", "30004")),
    ("franka", {"host": "172.16.0.2"}, ("ping 172.16.0.2", "FCI")),
    ("unitree_g1", {"interface": "eth7", "domain": 4}, ("dds domain 4", "eth7")),
    ("ros2_control", {"controller": "/l/arm", "prefix": "l_"}, ("/l/arm", '"l_"', "/joint_states")),
]


@pytest.mark.parametrize(("driver", "options", "names"), LINKS, ids=lambda value: str(value)[:40])
def test_a_link_that_fails_has_the_hint_of_its_kind_and_is_named(driver, options, names):
    said = link_hint(driver, options)
    assert all(name in said for name in names) and "\n" not in said, said
    assert rate_hint(driver, options) != said


def test_a_g1_whose_own_dds_domain_our_nodes_share_is_warned_of_and_no_other_robot(monkeypatch):
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    found, hint = shared_domain("unitree_g1", {"interface": "eth0"})
    assert "ROS domain 0 is the DDS domain of the robot" in found and "export ROS_DOMAIN_ID=1" in hint
    assert shared_domain("unitree_g1", {"interface": "lo", "domain": 42}) is None
    assert shared_domain("px4", {"link": "udpin:0.0.0.0:14540"}) is None
    monkeypatch.setenv("ROS_DOMAIN_ID", "42")
    assert shared_domain("unitree_g1", {"interface": "eth0"}) is None
    assert "ROS domain 42" in shared_domain("unitree_g1", {"interface": "lo", "domain": 42})[0]


def test_each_driver_that_ships_has_a_hint_of_its_own():
    assert {driver for driver, _, _ in LINKS} == set(DRIVERS)


@pytest.mark.parametrize(
    ("driver", "robot", "hz", "status", "found"),
    [
        ("ur", "ur5e", 147, "warn", "147.0 Hz of 500, 450 needed"),
        ("ur", "ur5e", 490, "ok", "490.0 Hz of 500, 450 needed"),
        ("ros2_control", "ur5e", 94, "ok", "94.0 Hz of 100, 90 needed"),
        ("ros2_control", "ur5e", 47, "warn", "47.0 Hz of 100, 90 needed"),
    ],
)
def test_a_rate_is_held_against_what_the_driver_needs(driver, robot, hz, status, found):
    if driver == "ros2_control":
        pytest.importorskip("rclpy")
    needed = needed_hz(driver_class(driver))
    for busy, hint in (("", "its link"), ("this computer is busy: it was", "this computer is busy: it was")):
        seen = Seen(ages_s=[0.001] * hz, seconds=1.0, busy=busy)
        checks = {
            name: rest for name, *rest in _measurements(seen, load_robot(robot), needed, 0.9 * needed, 50.0, "its link")
        }
        assert checks["rate"] == [status, found, "" if status == "ok" else hint]


class Faulty:
    """A device that says what is wrong with it."""

    def __init__(self, fault: str):
        self.fault = fault

    def read_status(self) -> DeviceStatus:
        return DeviceStatus(False, self.fault)


@pytest.mark.parametrize(
    ("fault", "is_of_time"),
    [
        ("link lost: nothing heard since 12:00:00", True),
        ("the link's round trip takes 120 ms, 100 at most", True),
        ("no target for 0.2 s", True),
        ("flown in mode POSCTL by its remote control or another program: Manual control lost", False),
        ("position known to 0.50 m only, needs 0.3", False),
        ("freedrive button pressed", False),
    ],
)
def test_a_fault_is_blamed_on_a_busy_computer_only_where_it_is_one_of_time(fault, is_of_time):
    ((name, status, found, hint),) = _said(Faulty(fault), 0.2, "this computer is busy")
    assert (name, status, found) == ("device", "fail", fault)
    assert hint.startswith("this computer is busy; else ") == is_of_time and "put that right first" in hint


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="needs two cores")
def test_a_computer_that_is_busy_is_named_in_place_of_the_link(tmp_path):
    """The doctor shares one core with programs that compute; the arm has another one."""
    pytest.importorskip("rclpy")
    here, there = sorted(os.sched_getaffinity(0))[:2]
    with Emulated("ur") as device:
        os.sched_setaffinity(device._process.pid, {there})
        robot = {"name": "arm", "bundle": str(ZOO / "reach-ur5e.onnx"), "driver": "ur"}
        (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot | {"options": {"host": device.address}}]}))
        burn = f"import os; os.sched_setaffinity(0, {{{here}}})\nwhile True: pass"
        burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(8)]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "phalanx", "doctor", "team.yaml", "--json"],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                preexec_fn=lambda: os.sched_setaffinity(0, {here}),
                timeout=300,
            )
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    print(checks)
    assert checks["rate"]["status"] != "ok" and checks["rate"]["hint"].startswith("this computer is busy: "), checks
