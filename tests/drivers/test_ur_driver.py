"""The driver of a UR5e against an emulated one, over its three ports."""

import itertools
import socket
import time

import numpy as np
import pytest
import ur_arm
from ur_arm import AWAY, HOME, NOTHING_BROKEN, UR5E, armed, arrive, broken, follow, wait_for

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.kinematics import load_chain
from hardware.types import ActuatorCommand

pytestmark = pytest.mark.real_time
device, arm = ur_arm.device, ur_arm.arm  # fixtures
# a, d, alpha: universal-robots.com, "DH parameters for calculations of kinematics and dynamics", UR5e
DH = [
    (0.0, 0.1625, np.pi / 2),
    (-0.425, 0.0, 0.0),
    (-0.3922, 0.0, 0.0),
    (0.0, 0.1333, np.pi / 2),
    (0.0, 0.0997, -np.pi / 2),
    (0.0, 0.0996, 0.0),
]
CLEAR = {"stop": "", "remote": True, "speed_fraction": 1.0, "teach": False, "paused": False, "robot_mode": 7}


def keeps(driver, target, states) -> bool:
    """Targets it again; its newest state, and when that was measured, come to `states`."""
    driver.write(ActuatorCommand(target))
    state = driver.read()
    states.append((time.monotonic() - float(state.age), state))
    return True


def flange(q) -> np.ndarray:
    """Of UR's table, in the axes of ROS: turned by 180 degrees about z."""
    pose = np.diag([-1.0, -1.0, 1.0, 1.0])
    for (a, d, alpha), theta in zip(DH, q, strict=True):
        (c, s), (ca, sa) = (np.cos(theta), np.sin(theta)), (np.cos(alpha), np.sin(alpha))
        pose = pose @ [[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s], [0, sa, ca, d], [0, 0, 0, 1]]
    return pose[:3, 3]


def test_an_arm_goes_where_it_is_sent_within_its_limits_and_says_where_it_is(arm, device):
    armed(arm)
    said = device.order()
    assert said["payload"] == pytest.approx([1.2, 0.0, 0.01, 0.05])
    assert said["watchdog"] == ["input_int_register_24", 5.0, "stop"]
    target = HOME + AWAY
    begin, states = arm.read().joint_pos, []
    wait_for(lambda: keeps(arm, target, states) and np.abs(arm.read().joint_pos - begin).min() > 0.05)
    assert (np.sign(states[-1][1].joint_pos - begin) == np.sign(AWAY)).all()
    moved = passed = np.zeros(6)  # summed over states that this machine took soon one after the other
    for (one_s, one), (other_s, other) in itertools.pairwise(states):
        if other_s - one_s < 0.01:
            moved = moved + other.joint_pos - one.joint_pos
            passed = passed + 0.5 * (other_s - one_s) * (one.joint_vel + other.joint_vel)
    assert moved.any()
    np.testing.assert_allclose(passed, moved, rtol=0.2, atol=0.005, err_msg="speeds are those of the positions")
    arrive(arm, target)
    said, q = device.order(), arm.read().joint_pos
    np.testing.assert_allclose(said["q"], target, atol=2e-3)
    np.testing.assert_allclose(flange(said["q"]), load_chain(UR5E, "tool").forward(q)[0], atol=1e-3)
    np.testing.assert_allclose(said["tool"], flange(said["q"]), atol=1e-3)
    assert arm.read().age < 0.1 and not arm.read_status().fault
    beyond = HOME + np.array([20.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert arm.write(ActuatorCommand(beyond)).target[0] == pytest.approx(2 * np.pi)
    arrive(arm, HOME)
    assert broken(device) == NOTHING_BROKEN and 0.5 < device.order()["fastest"] < 1.0001 * np.pi
    print("state to set-point at the device, ms, median and p99:", device.order()["answer_ms"])


def test_an_arm_that_is_not_armed_or_hears_nothing_stays_where_it_is(arm, device):
    before, programs = device.order()["q"], device.order()["programs"]
    follow(arm, HOME + 0.3, 0.2)
    np.testing.assert_allclose(device.order()["q"], before, atol=1e-3)
    assert device.order()["programs"] == programs, "a program runs from `arm` on"
    armed(arm)
    np.testing.assert_allclose(device.order()["q"], before, atol=1e-3)
    follow(arm, HOME + 2.0 * np.eye(6)[0], 0.3)
    wait_for(lambda: device.order()["moving"] < 1e-3)
    assert 0.01 < device.order()["q"][0] - before[0] < 1.5 and arm.read_status().armed
    arm.disarm()
    wait_for(lambda: not device.order()["running"])


STOPS = [
    ({"stop": "protective"}, "protective stop"),
    ({"stop": "emergency"}, "emergency stop"),
    ({"stop": "safeguard"}, "safeguard stop"),
    ({"remote": False}, "local control: choose remote control"),
    ({"speed_fraction": 0.5}, "speed slider at 50 %"),
    ({"teach": True}, "freedrive button pressed"),
    ({"paused": True}, "its program was stopped"),
    ({"robot_mode": 5}, "brakes are not released"),
]


def test_what_takes_the_arm_away_is_a_fault_until_a_person_arms_it_again(arm, device):
    for orders, why in STOPS:
        armed(arm)
        began = time.monotonic()
        device.order(**orders)
        wait_for(lambda: not arm.read_status().armed)
        print(f"{why}: after {1e3 * (time.monotonic() - began):.0f} ms")
        wait_for(lambda why=why: why.split(":")[0] in arm.read_status().fault)
        if why != "its program was stopped":  # by then the pendant would let it run on
            arm.disarm()
            arm.arm()
            assert why.split(":")[0] in arm.read_status().fault and not arm.read_status().armed
        device.order(**CLEAR)
        wait_for(lambda why=why: why != STOPS[3][1] or not arm._control)
        before, programs = device.order()["q"], device.order()["programs"]
        follow(arm, HOME + 0.3, 0.1)
        np.testing.assert_allclose(device.order()["q"], before, atol=1e-3)
        assert device.order()["programs"] == programs and not arm.read_status().armed
        assert arm.read_status().fault
        arm.disarm()
        wait_for(lambda: not arm.read_status().fault)


def test_another_program_that_takes_the_arm_is_noticed_and_the_arm_is_left_to_it(arm, device):
    armed(arm)
    follow(arm, HOME + 0.1, 0.5)
    with socket.create_connection((device.address, 30002)) as other:
        other.sendall(b"def other():\n  while True:\n    sync()\n  end\nend\n")
        began = time.monotonic()
        wait_for(lambda: arm.read_status().fault == "another program took the arm")
    print(f"after {1e3 * (time.monotonic() - began):.0f} ms")
    assert not arm.read_status().armed
    follow(arm, HOME + 0.3, 0.2)
    assert device.order()["running"] and arm.read_status().fault, "ours does not come back by itself"
    armed(arm)
    arrive(arm, HOME)


OTHERS = {  # what they leave in the registers that our program answers in
    "the session": (
        "write_output_integer_register(24, 77)",
        "write_output_integer_register(25, read_input_integer_register(25))",
    ),
    "two numbers in turn": (
        "write_output_integer_register(25, 7)",
        "sync()",
        "write_output_integer_register(25, 8)",
    ),
}


@pytest.mark.parametrize("leaves", OTHERS.values(), ids=OTHERS)
def test_another_program_that_writes_what_ours_answers_in_is_noticed_too(arm, device, leaves):
    armed(arm)
    follow(arm, HOME + 0.1, 0.3)
    lines = "\n".join(("def other():", "while True:", *leaves, "sync()", "end", "end", ""))
    with socket.create_connection((device.address, 30002)) as other:
        other.sendall(lines.encode())
        wait_for(lambda: arm.read_status().fault == "another program took the arm")
    assert not arm.read_status().armed


def test_a_target_that_is_not_finite_is_refused(arm):
    with pytest.raises(ValueError, match="every number must be finite"):
        arm.write(ActuatorCommand(np.full(6, np.nan, np.float32)))


def test_a_controller_that_does_not_take_the_payload_is_not_armed(arm, device):
    device.order(payload_kg=0.0, keep_payload=True)
    arm.arm()
    assert not arm.read_status().armed and "its payload is 0 kg" in arm.read_status().fault
    wait_for(lambda: not device.order(keep_payload=False)["running"])


@pytest.mark.parametrize(
    ("orders", "why"),
    [
        ({"version": (3, 15)}, "PolyScope is 3.15.0: allowed is 5.6 or later, below 10"),
        ({"version": (10, 7)}, "PolyScope is 10.7.0"),
        ({"model": "UR10"}, "it is a UR10, not a UR5e"),
    ],
)
def test_another_controller_is_refused(device, orders, why):
    device.order(**orders)
    with pytest.raises(DriverError, match=f"^UR5e at {device.address}: {why}"):
        load_driver("ur", UR5E, host=device.address).connect()
    device.order(version=(5, 11), model="UR5")


def test_what_cannot_be_is_refused_in_one_line(arm, device):
    with pytest.raises(DriverError, match="of the type ur5e, not 'fr3'"):
        load_driver("ur", load_robot("fr3"), host="127.0.0.1")
    with pytest.raises(DriverError, match="payload_kg is 4: allowed is from 0 to 3"):
        load_driver("ur", UR5E, host="127.0.0.1", payload_kg=4)
    with pytest.raises(DriverError, match="input_int_register_24 is in use"):
        load_driver("ur", UR5E, host=device.address).connect()
    with pytest.raises(DriverError, match=r"^UR5e at 127.0.0.254: .*refused"):
        load_driver("ur", UR5E, host="127.0.0.254").connect()


def test_another_client_understands_the_emulated_arm(device):
    """ur-rtde, by the University of Southern Denmark."""
    rtde_receive = pytest.importorskip("rtde_receive")
    dashboard_client = pytest.importorskip("dashboard_client")
    script_client = pytest.importorskip("script_client")
    dashboard = dashboard_client.DashboardClient(device.address)
    dashboard.connect()
    assert dashboard.robotmode() == "Robotmode: RUNNING" and dashboard.isInRemoteControl()
    names = ["timestamp", "actual_q", "actual_qd", "safety_status_bits", "payload", "runtime_state"]
    receiver = rtde_receive.RTDEReceiveInterface(device.address, 500.0, names)
    script = script_client.ScriptClient(device.address, 5, 11)
    script.connect()
    assert script.sendScriptCommand("def load():\n  set_payload(2.5, [0, 0, 0.1])\nend\n")
    wait_for(lambda: receiver.getPayload() == 2.5)
    np.testing.assert_allclose(receiver.getActualQ(), device.order()["q"], atol=1e-3)
    assert receiver.getSafetyStatusBits() == 1
    receiver.disconnect()


def test_universal_robots_own_client_understands_the_emulated_arm(device):
    """pip install git+https://github.com/UniversalRobots/RTDE_Python_Client_Library: it is on no package index."""
    rtde = pytest.importorskip("rtde.rtde")
    client = rtde.RTDE(device.address, 30004)
    client.connect()
    try:
        assert client.get_controller_version()[:2] == (5, 11)
        names, kinds = ["timestamp", "actual_q", "payload"], ["DOUBLE", "VECTOR6D", "DOUBLE"]
        assert client.send_output_setup(names, kinds, frequency=125.0)
        inputs = client.send_input_setup(["input_double_register_47"], ["DOUBLE"])
        assert inputs is not None and client.send_start()
        states = [client.receive() for _ in range(5)]
        np.testing.assert_allclose(states[-1].actual_q, device.order()["q"], atol=1e-3)
        assert np.diff([state.timestamp for state in states]).min() > 0.005
        inputs.input_double_register_47 = 0.25
        assert client.send(inputs)
        wait_for(lambda: device.order()["inputs"].get("input_double_register_47") == 0.25)
    finally:
        client.disconnect()


@pytest.mark.parametrize(
    "wrong",
    [0.06, None, "0 0 1", "123", ["a", "b", "c"], [0, 0], [0, 0, 60], [0, 0, [1]], [[0, 0, 0]], [0, 0, float("nan")]],
)
def test_a_centre_of_mass_that_is_none_is_refused_in_one_line(wrong: object) -> None:
    with pytest.raises(DriverError, match=r"payload_m is .*: expected x, y and z in m"):
        load_driver("ur", UR5E, host="127.0.0.1", payload_m=wrong)
