"""Drivers of a team file: options, devices, and what they do not measure; refused in one line."""

import re
from dataclasses import replace

import pytest

pytest.importorskip("rclpy")
from pd_bundle import pd_contract, save_pd_bundle
from test_team_file import BALL, HOVER, ZOO, write

from deploy.bundle import BundleError
from deploy.contract import make_plant
from deploy.runtime.compatibility import check_driver
from hardware import load_robot
from ros_nodes.plans.team import TeamError
from ros_nodes.plans.team_file import load_team


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            "{lnk: 'udpin:0.0.0.0:14540'}",
            "unknown option lnk = 'udpin:0.0.0.0:14540'; choose from link (a text), system",
        ),
        ("{lnk: x, link: y}", "connect_s (a number); did you mean 'link'?"),
        ("{link: 14540}", "option link = 14540: expected a text"),
        ("{link: x, system: one}", "option system = 'one': expected a whole number"),
        ("{link: x, connect_s: true}", "option connect_s = True: expected a number"),
        ("{link: x, connect_s: .inf}", "option connect_s = inf: expected a finite number"),
        ("{link: x, connect_s: 0}", "option connect_s = 0: expected above 0 s, and 600 s at most"),
        ("{link: x, connect_s: 1.0e+9}", "option connect_s = 1000000000.0: expected above 0 s, and 600 s at most"),
        ("{}", "option link is missing; it takes link (a text), system (a whole number), baud (a whole number), con"),
    ],
)
def test_options_that_a_driver_does_not_take_are_named_with_what_is_allowed(tmp_path, options, says):
    robot = f"{{name: x1, bundle: {ZOO / 'hover-x500.onnx'}, driver: px4, options: {options}}}"
    with pytest.raises(TeamError) as caught:
        load_team(write(tmp_path, f"robots: [{robot}]"))
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'team.yaml'}: robots[0].options of x1: ")


DEVICES = {  # driver: a policy, and a device that is another one than all below
    "crazyflie": ("hover", "uri: 'radio://0/80/2M/E7E7E7E702'"),
    "px4": ("hover-x500", "link: 'udpin:0.0.0.0:14540', system: 2"),
    "ur": ("reach-ur5e", "host: 10.0.0.3"),
    "franka": ("reach-fr3", "host: 10.0.0.3"),
    "ros2_control": ("reach-ur5e", "controller: right/arm"),
}


@pytest.mark.parametrize(
    ("driver", "first", "second", "device"),
    [
        ("crazyflie", "uri: 'radio://0/80/2M/E7E7E7E701'", "uri: 'radio://1/80/2M/e7e7e7e701?rate_limit=100'", "e701"),
        ("crazyflie", "uri: 'radio://0/80'", "uri: 'radio://0/080/2M/E7E7E7E7E7'", "radio://80/2m/e7e7e7e7e7"),
        ("crazyflie", "uri: 'udp://localhost:19850'", "uri: 'UDP://[::1]:19850'", "udp://localhost:19850"),
        ("px4", "link: 'udpin:0.0.0.0:14540', system: 1", "link: 'udp:localhost:14540'", "udp port 14540, system 1"),
        ("px4", "link: 'udpout:localhost:14580'", "link: 'udpout:127.0.0.1:14580'", "localhost:14580, system 1"),
        ("crazyflie", "uri: 'usb://0'", "uri: 'usb://00'", "usb://0"),
        ("crazyflie", "uri: 'tcp://10.0.0.4:1999'", "uri: 'tcp://10.4:01999'", "tcp://10.0.0.4:1999"),
        ("px4", "link: 'udpin:0.0.0.0:14540'", "link: 'udpin:0.0.0.0:014540'", "udp port 14540, system 1"),
        ("px4", "link: 'tcp:127.0.0.1'", "link: 'tcp:127.1'", "tcp:localhost"),
        ("px4", "link: /dev/fd/1", "link: /dev/stdout", "system 1"),
        ("px4", "link: /dev/ttyACM0", f"link: '{'../' * 20}dev/ttyACM0'", "ttyACM0, system 1"),
        ("ur", "host: 127.0.0.1", "host: localhost", "localhost"),
        ("ur", "host: 192.168.1.10", "host: '192.168.266'", "192.168.1.10"),
        ("ur", "host: 127.0.0.1", "host: 0.0.0.0", "localhost"),
        ("ur", "host: 192.168.1.10", "host: '\uff11\uff19\uff12.168.1.10'", "192.168.1.10"),
        ("px4", "link: 'udpin:0.0.0.0:14540'", "link: 'udpin:0.0.0.0:14_540'", "udp port 14540, system 1"),
        ("ur", "host: 192.168.1.10", "host: '3232235786'", "192.168.1.10"),
        ("ur", "host: 192.168.1.10", "host: '::ffff:192.168.1.10'", "192.168.1.10"),
        ("ur", "host: '[fe80::1]'", "host: 'FE80:0::1'", "fe80::1"),
        ("franka", "host: Arm.local", "host: arm.local.", "arm.local"),
        ("ros2_control", "controller: left/arm", "controller: /left/arm/", "left/arm"),
    ],
)
def test_two_robots_are_not_one_device(tmp_path, driver, first, second, device):
    name, other = DEVICES[driver]
    bundle = ZOO / f"{name}.onnx"

    def load(*options: str) -> None:
        robots = (
            f"{{name: r{n}, bundle: {bundle}, driver: {driver}, base_pose: [{2 * n}, 0, 0, 0], options: {{{each}}}}}"
            for n, each in enumerate(options)
        )
        load_team(write(tmp_path, f"robots: [{', '.join(robots)}]"))

    for one in (first, second):
        load(one, other)
    with pytest.raises(TeamError, match=r"robots: r0 and r1 are one device \(") as caught:
        load(first, second)
    assert device in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("driver", "option", "says"),
    [
        (
            "ur",
            "host: '10.0.0.3:30004'",
            "expected an address alone, 10.0.0.3, without the port 30004",
        ),
        ("franka", "host: '[fe80::1]:1337'", "expected an address alone, fe80::1, without the port 1337"),
        ("px4", "link: 'udpout:127.0.0.1'", "link udpout:127.0.0.1: at which port? Such as udpout:127.0.0.1:14540"),
        ("px4", "link: '10.0.0.3:14580'", "udpout:10.0.0.3:14580 calls it there, udpin:0.0.0.0:14580 waits for it"),
    ],
)
def test_an_address_that_is_not_one_is_refused_with_how_it_is_written(tmp_path, driver, option, says):
    robot = f"name: r1, bundle: {ZOO / DEVICES[driver][0]}.onnx, driver: {driver}, options: {{{option}}}"
    with pytest.raises(TeamError, match=re.escape(says)):
        load_team(write(tmp_path, f"robots: [{{{robot}}}]"))


def test_a_drone_with_px4_is_an_x500_where_nothing_else_is_said(tmp_path):
    """PX4 does not say what it flies: a policy for a Crazyflie gives an X500 a fiftieth of the thrust that it needs."""
    robot = f"name: x1, bundle: {ZOO / 'hover.onnx'}, driver: px4, options: {{link: 'udpin:0.0.0.0:14540'}}"
    with pytest.raises(TeamError, match=r"is for robot 'crazyflie', this robot has 'x500'"):
        load_team(write(tmp_path, f"robots: [{{{robot}}}]"))
    (given,) = load_team(write(tmp_path, f"robots: [{{{robot}, type: crazyflie}}]")).robots
    assert given.type == "crazyflie"


def arms(tmp_path, *hosts: str):
    each = f"bundle: {ZOO / 'reach-ur5e.onnx'}, driver: ur"
    robots = [
        f"{{name: r{n}, {each}, base_pose: [{2 * n}, 0, 0, 0], options: {{host: '{host}'}}}}"
        for n, host in enumerate(hosts)
    ]
    return load_team(write(tmp_path, f"robots: [{', '.join(robots)}]"))


def test_other_addresses_of_this_machine_are_other_devices_for_each_may_have_its_server(tmp_path):
    assert len(arms(tmp_path, "127.0.0.1", "127.0.1.1", "127.0.0.2").robots) == 3


@pytest.mark.parametrize("host", ["192.168.1.010", "192.168.1.08:30004"])
def test_a_number_that_programs_read_in_two_ways_is_no_address(tmp_path, host):
    with pytest.raises(
        TeamError, match=r"robots\[1\].options of r1: host 192.168.1.0\d+: 0\d+ is octal to some"
    ) as caught:
        arms(tmp_path, "192.168.1.10", host)
    assert "\n" not in str(caught.value)


def test_what_a_driver_does_not_measure_is_refused_to_who_needs_it(tmp_path):
    """A G1 does not know its place; nor its velocity. Its shipped policies need neither."""
    g1 = "{name: %s, bundle: STAND, driver: unitree_g1, options: {interface: lo}}"

    def load(text: str) -> None:
        load_team(write(tmp_path, text.replace("STAND", str(ZOO / "stand.onnx"))))

    load(f"robots: [{g1 % 'g1'}]")
    with pytest.raises(TeamError, match=r"driver of g1: does not measure base_pos, which its shield needs for 'ball0'"):
        load(f"robots: [{g1 % 'g1'}]\nscene: {{obstacles: [{BALL % 0}]}}")
    with pytest.raises(TeamError, match="driver of g1: does not measure base_pos, which team mates need; there are 2"):
        load(f"robots: [{g1 % 'g1'}, {g1 % 'g2'}]")
    with pytest.raises(BundleError, match=r"hover.onnx: needs base_pos and base_lin_vel, which its driver does not me"):
        check_driver(str(HOVER), {}, unmeasured=("base_lin_vel", "base_pos", "joint_pos"))


def test_a_policy_for_other_numbers_than_its_robots_is_named_as_such_and_no_type_that_the_file_does_not_have(tmp_path):
    spec = load_robot("crazyflie")
    slow = replace(spec, flight=replace(spec.flight, rotor_time_constant_s=0.06))
    save_pd_bundle(tmp_path / "slow.onnx", pd_contract(plant=make_plant(slow, {})))
    says = r"robots\[0\]\.bundle of cf1: \S+slow.onnx: is for flight.rotor_time_constant_s .*: take a policy that"
    with pytest.raises(TeamError, match=says):
        load_team(write(tmp_path, "robots: [{name: cf1, bundle: slow.onnx}]"))
