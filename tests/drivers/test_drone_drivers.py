"""What every driver of a drone does, through the maker's own protocol, against an emulated device on a UDP port."""

import contextlib
import re
import signal
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
from drones import SPECS, arm, bench, connected, flier, fly, rest, wait_until
from emulated import Emulated
from patience import patience

from hardware.drivers import Driver, DriverError
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand

pytestmark = [pytest.mark.slow, pytest.mark.real_time]
VOLTS, RESTS_M = {"crazyflie": 4.08, "px4": 16.52}, {"crazyflie": 0.03, "px4": 0.24}
OFF = {"crazyflie": lambda said: not said["info"] & 0b11000010, "px4": lambda said: not said["armed"]}
ON_GROUND = {"crazyflie": lambda said: not said["info"] & 1 << 4, "px4": lambda said: said["landed"]}


@dataclass(frozen=True)
class Drone:
    """A driver's name, its robot, a device and a driver of it, and a driver of another device, which is gone."""

    name: str
    spec: RobotSpec
    device: Emulated
    driver: Driver
    left: Driver


@pytest.fixture(scope="module", params=[("crazyflie", "cflib"), ("px4", "pymavlink")], ids=lambda param: param[0])
def pair(request):
    name, package = request.param
    pytest.importorskip(package)
    gone = Emulated(name)
    with bench(name) as (device, driver), gone:
        left = connected(name, gone.port)
        gone.kill()
        yield Drone(name, SPECS[name], device, driver, left)
        left.stop()


@pytest.fixture
def drone(pair):
    rest(pair.device, pair.driver)
    return pair


def test_on_the_ground_it_idles_without_winding_up(drone):
    """Held crooked, a rate controller that runs would drive two rotors to their limit."""
    idle_n = drone.spec.command_low[0]
    arm(drone.driver)
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        sent = drone.driver.write(ActuatorCommand(np.array([idle_n, 3.0, 3.0, 0.0], np.float32)))
        time.sleep(0.02)
    said = drone.device.order()
    assert said["setpoints"] > 5 and said["largest_thrust"] == 0 and ON_GROUND[drone.name](said), "it flew"
    assert sent.target[0] == pytest.approx(idle_n)
    drone.driver.disarm()
    wait_until(lambda: OFF[drone.name](drone.device.order()), "it was not disarmed on the ground")


def test_it_is_armed_flown_to_a_point_turned_and_landed(drone):
    """The last one that it is flown in: its driver is stopped."""
    name, driver, device, goal = drone.name, drone.driver, drone.device, np.array([0.3, -0.2, 0.5])

    def is_there() -> bool:
        return np.abs(device.order()["position"] - goal).max() < 0.04

    try:
        assert driver.read_battery().charge == pytest.approx(0.9)
        assert driver.read_battery().voltage_v == pytest.approx(VOLTS[name], abs=0.01)
        assert not driver.read_status().armed and not driver.read_status().fault
        arm(driver)
        ages = fly(driver, drone.spec, goal, patience(5.0), is_there)
        ages += fly(driver, drone.spec, goal, 0.5)
        np.testing.assert_allclose(device.order()["position"], goal, atol=0.1)
        np.testing.assert_allclose(driver.read().base_pos, goal, atol=0.1)
        assert driver.read_status().armed and min(ages) < 0.02  # on a busy machine the others are older
        fly(driver, drone.spec, goal, 0.7, yaw_rate=0.8)
        w, _, _, z = driver.read().base_quat
        assert 0.2 < 2.0 * np.arctan2(z, w) < 0.8, "it turns to its left"
        driver._asked_s = None  # as of one that has armed nothing: it begins in flight, and its shield is DISARMED
        driver.disarm()
        fly(driver, drone.spec, goal, 0.5)
        assert not OFF[name](device.order()) and device.order()["position"][2] > 0.4, "it stopped the motors in flight"
    finally:
        driver.stop()
    landed = device.order()
    assert landed["position"][2] < RESTS_M[name] and OFF[name](landed), "stop lands it and disarms it: it may fly again"
    if name == "px4":
        assert landed["mode"] == "AUTO.LAND" and not landed["failsafe"] and landed["masks"] == [128]


@pytest.mark.parametrize(("name", "package"), [("crazyflie", "cflib"), ("px4", "pymavlink")])
def test_a_driver_that_only_looks_leaves_what_another_one_flies(name, package):
    """As `phalanx doctor` does where a robot is deployed already."""
    pytest.importorskip(package)
    goal = (0.0, 0.0, 1.0)
    with Emulated(name) as device:
        looks, flies = connected(name, device.port), None
        while flies is None:  # a device answers who spoke last
            with contextlib.suppress(DriverError):
                flies = connected(name, device.port, connect_s=4.0)
        arm(flies)
        fly(flies, SPECS[name], goal, patience(4.0), lambda: device.order()["position"][2] > 0.9)
        ends = threading.Thread(target=looks.stop)
        ends.start()
        fly(flies, SPECS[name], goal, 2.0)
        ends.join()
        said, status = device.order(), flies.read_status()
        device.order(reset=True)  # it need not land
        flies.stop()
    assert status.armed and said["position"][2] > 0.7, (said, status)


def test_a_link_that_is_gone_is_said_and_its_last_state_grows_old(pair):
    pair.left.write(ActuatorCommand(np.array([pair.spec.flight.hover_thrust_n, 0.0, 0.0, 0.0], np.float32)))
    wait_until(lambda: pair.left.read_status().fault, "no fault was reported", 4.0)
    fault = pair.left.read_status().fault
    assert fault.startswith("link lost: ") and (pair.name != "px4" or re.search(r" since \d\d:\d\d:\d\d$", fault))
    wait_until(lambda: pair.left.read().age > 0.3, "its last state is young")


def test_late_packets_are_as_old_as_they_are(pair):
    driver = connected(pair.name, pair.device.port)
    pair.device.order(jitter_s=0.05)
    time.sleep(0.3)
    ages = [(time.sleep(0.005), float(driver.read().age))[1] for _ in range(100)]
    assert 0.02 < np.median(ages) < patience(0.1)
    driver.stop()


def test_a_state_that_is_overtaken_by_newer_ones_is_not_read_after_them(pair):
    driver = connected(pair.name, pair.device.port)
    pair.device.order(overtaken=0.3)
    measured_s = []

    def seen_for_seconds():
        for _ in range(10):
            measured_s.append(time.monotonic() - float(driver.read().age))
            time.sleep(0.004)
        return measured_s[-1] - measured_s[0] > 3.0

    wait_until(seen_for_seconds, "no newer ones came", 9.0)
    pair.device.order(overtaken=0.0)
    driver.stop()
    steps_back = np.sum(np.diff(measured_s) < -0.005)
    assert steps_back < 10, "about 20 where overtaken states are read; single steps are of the estimate of its clock"


@pytest.mark.parametrize(
    ("name", "package", "fault"),
    [
        ("crazyflie", "cflib", "this computer did not run its driver for 1."),
        ("px4", "pymavlink", "flown in mode AUTO.LAND by its own failsafe"),
    ],
)
def test_a_driver_that_stood_still_for_longer_than_its_devices_watchdog_says_so_for_as_long_as_it_flies(
    name, package, fault
):
    """It flew on as if nothing had been: a Crazyflie takes set-points again until its motors stop, after 2 s."""
    pytest.importorskip(package)
    with Emulated(name) as device:
        if name == "px4":
            device.order(parameters={"COM_OF_LOSS_T": 0.5})
        process = flier(name, device.port)
        try:
            process.stdin.write("fly\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == "flies"
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.2)
            process.send_signal(signal.SIGCONT)
            threading.Timer(patience(5.0), process.kill).start()
            assert any(fault in line for line in process.stdout), "it never said so"
        finally:
            process.kill()
            process.wait()
