"""Stops, landings and orders to disarm of a drone with PX4, also while others fly it, against an emulated X500."""

import time

import pytest

pytest.importorskip("pymavlink")
from drones import arm, bench, climb_px4, connected, rest, wait_until
from emulated import Emulated
from patience import patience

pytestmark = pytest.mark.real_time


@pytest.fixture(scope="module")
def shared():
    with bench("px4") as pair:
        yield pair


@pytest.fixture
def vehicle(shared):
    """A device and its driver, both at rest."""
    rest(*shared)
    return shared


@pytest.mark.slow
def test_a_stop_in_the_air_is_final(vehicle):
    device, driver = vehicle
    climb_px4(device, driver)
    driver.cut()
    driver.arm()  # at once
    assert "an emergency stop goes on" in driver.read_status().fault
    wait_until(lambda: not device.order()["armed"], "it was not disarmed in the air")
    time.sleep(patience(0.5))
    driver.arm()
    assert not driver.read_status().fault
    time.sleep(1.05)
    driver.disarm()  # an order to arm is on its way
    time.sleep(1.0)
    assert not device.order()["armed"], "it was armed after it was disarmed"


@pytest.mark.slow
@pytest.mark.parametrize("failsafe", ["battery", "no set-points"])
def test_a_stop_while_px4s_own_failsafe_has_it_cuts_its_motors_in_the_air(vehicle, failsafe):
    device, driver = vehicle
    climb_px4(device, driver)
    device.order(**({"charge": 0.05} if failsafe == "battery" else {"parameters": {"COM_OBL_RC_ACT": 5}}))
    mode = "AUTO.LAND" if failsafe == "battery" else "AUTO.LOITER"
    wait_until(lambda: f"flown in mode {mode} by its own failsafe" in driver.read_status().fault, driver.read_status)
    driver.cut()
    wait_until(lambda: not device.order()["armed"], "an emergency stop did nothing")
    assert device.order()["position"][2] > 0.3, "it had landed"


@pytest.mark.slow
@pytest.mark.parametrize(("order", "stop"), [({"charge": 0.05}, "cut"), ({"mode": "AUTO.LAND"}, "disarm")])
def test_who_has_landed_in_another_mode_with_idle_motors_can_be_stopped(vehicle, order, stop):
    device, driver = vehicle
    device.order(parameters={"COM_DISARM_LAND": 60.0})
    climb_px4(device, driver)
    device.order(**order)
    wait_until(lambda: device.order()["landed"], "it has not landed", 8.0)
    time.sleep(patience(0.4))
    assert device.order()["armed"]
    wait_until(lambda: (time.sleep(0.3), getattr(driver, stop)(), not device.order()["armed"])[2], "its motors run on")
    assert (device.order()["forced"] > 0) == (stop == "cut")


@pytest.mark.slow
def test_a_stop_under_a_person_who_flies_waits_for_the_landing_and_says_so(vehicle):
    device, driver = vehicle
    device.order(parameters={"COM_DISARM_LAND": 60.0})
    climb_px4(device, driver)
    device.order(mode="POSCTL")
    wait_until(lambda: "POSCTL" in driver.read_status().fault, driver.read_status)
    driver.cut()
    assert driver.read_status().fault == (
        "the emergency stop waits until PX4 says that it is on the ground, for it is flown in mode POSCTL by its "
        "remote control or another program"
    )
    device.order(says_flying=1)  # for a moment
    time.sleep(0.3)
    device.order(says_flying=2)
    time.sleep(1.0)
    assert device.order()["armed"] and device.order()["position"][2] > 0.5, "it was stopped under who flies it"
    device.order(mode="AUTO.LAND")
    wait_until(lambda: not device.order()["armed"], "on the ground its motors run on", 8.0)
    assert device.order()["position"][2] < 0.26


@pytest.mark.slow
@pytest.mark.parametrize("says", [[0], [1], [0, 1, 2, 3, 4]])
def test_a_short_or_wrong_word_of_where_it_is_has_it_not_disarmed_by_force_in_the_air(vehicle, says):
    """While PX4 lands it; and it is disarmed normally when it is down."""
    device, driver = vehicle
    device.order(parameters={"MPC_LAND_SPEED": 0.25})
    climb_px4(device, driver)
    driver.disarm()
    wait_until(lambda: device.order()["mode"] == "AUTO.LAND", "PX4 does not land it")
    time.sleep(0.4)  # an order to disarm has been denied
    for word in says * 2 if len(says) > 1 else says:
        device.order(says_flying=word)
        time.sleep(0.1 if len(says) > 1 else 0.35)
        said = device.order()
        assert said["armed"] or (said["landed"] and said["position"][2] < 0.26), "its motors were cut in the air"
    device.order(says_flying=2)
    wait_until(lambda: not device.order()["armed"], "it has not landed", 8.0)
    said = device.order()
    assert said["position"][2] < 0.26 and said["forced"] == 0
    device.order(parameters={"MPC_LAND_SPEED": 0.7})


@pytest.mark.slow
def test_a_stop_in_the_air_that_is_said_again_at_once_still_stops_it(vehicle):
    device, driver = vehicle
    climb_px4(device, driver)
    driver.cut()
    driver.cut()
    wait_until(lambda: not device.order()["armed"], "its motors run on")
    assert device.order()["mode"] == "OFFBOARD", "PX4 landed it for want of set-points"


@pytest.mark.slow
def test_on_the_ground_it_is_disarmed_normally(vehicle):
    device, driver = vehicle
    arm(driver)
    driver.disarm()
    wait_until(lambda: not device.order()["armed"], "it was not disarmed on the ground")
    assert device.order()["forced"] == 0, "by force, where that was not asked for"


@pytest.mark.slow
def test_who_never_says_whether_it_flies_is_disarmed_by_force_where_px4_denies_it():
    with Emulated("px4") as device:
        device.order(says_landed=0, says_flying=0)
        driver = connected("px4", device.port)
        climb_px4(device, driver)  # PX4 knows that it flies and denies it, and it does not say so
        driver.disarm()
        wait_until(lambda: not device.order()["armed"], "it was not disarmed where nothing is known")
        assert device.order()["forced"] > 0
        driver.stop()
