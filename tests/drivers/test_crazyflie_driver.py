"""The driver of a Crazyflie, through Bitcraze's own client, against an emulated one: what other drones do not do."""

import time

import numpy as np
import pytest

pytest.importorskip("cflib")
from drones import SPECS, arm, bench, connected, flier, fly, rest, wait_until
from emulated import Emulated
from patience import patience

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.drivers.crazyflie import IS_ARMED

pytestmark = pytest.mark.real_time

SPEC = SPECS["crazyflie"]


@pytest.fixture(scope="module")
def shared():
    with bench("crazyflie") as pair:
        yield pair


@pytest.fixture
def vehicle(shared):
    """A device and its driver, both at rest."""
    rest(*shared)
    return shared


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "fault"),
    [
        ({"refuses_arming": True}, "checks before flight have not passed"),
        ({"is_armed": False}, "disarmed by itself, or by somebody else"),
        ({"is_crashed": True, "is_armed": False}, "crashed: put it upright"),
        ({"is_locked": True, "is_armed": False}, "locked: restart it"),
        ({"sigma_m": 0.4}, "position known to 0.40 m only"),
        ({"sigma_m": float("nan")}, "position known to nan m only"),
        ({"loss": 1.0}, "says nothing of itself any more"),
        ({"delay_s": 0.2}, "round trip takes"),
        ({"delay_s": 0.7}, "round trip takes"),
    ],
)
def test_a_device_that_takes_itself_back_says_why(vehicle, order, fault):
    device, driver = vehicle
    arm(driver)
    if "refuses_arming" in order:
        driver.disarm()
    device.order(**order)
    wait_until(lambda: fault in driver.read_status().fault, driver.read_status, 6.0)


@pytest.mark.slow
def test_a_crazyflie_levels_and_stops_its_motors_when_the_driver_dies():
    """By the firmware's own times after its last set-point, 0.5 and 2 s; a killed driver sends none."""
    with Emulated("crazyflie") as device:
        process = flier("crazyflie", device.port)
        process.stdin.write("fly\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == "flies"
        process.kill()
        process.wait()
        last = device.order()["setpoints"]
        tilts = []
        while (said := device.order())["info"] & IS_ARMED:
            tilts.append(said["tilt"])
            time.sleep(0.01)
        assert len(tilts) > 20, "it was not in flight"
    print(f"motors stopped {said['stopped_after_s']:.3f} s after the last set-point")
    assert 2.0 <= said["stopped_after_s"] < 2.05 and said["setpoints"] <= last + 1 and tilts[-1] < 0.1


@pytest.mark.slow
def test_an_old_firmware_is_refused_in_one_line():
    with Emulated("crazyflie") as old, pytest.raises(DriverError) as refused:
        old.order(without=["supervisor.info"])
        connected("crazyflie", old.port)
    assert "supervisor.info" in str(refused.value) and "\n" not in str(refused.value)


def test_what_cannot_be_a_crazyflie_is_refused_in_one_line():
    for options, message in (
        ({"uri": "udp://127.0.0.1:1", "connect_s": 1.0}, "Crazyflie at udp://127.0.0.1:1: "),
        ({"uri": "nonsense", "connect_s": 1.0}, "nonsense"),
        ({"uri": "usb://0", "thrust_scale": 3.0}, "thrust_scale is 3.0: expected 0.5 to 1.5"),
    ):
        with pytest.raises(DriverError, match=message) as refused:
            load_driver("crazyflie", SPEC, **options).connect()
        assert "\n" not in str(refused.value)
    with pytest.raises(DriverError, match="not 'panda'"):
        load_driver("crazyflie", load_robot("panda"), uri="usb://0")


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_one_that_is_stopped_on_its_way_comes_to_rest_where_it_lands(loss):
    """Its firmware holds its place; an order to land may be lost, and no set-point takes it back."""
    with Emulated("crazyflie") as device:
        driver = connected("crazyflie", device.port)
        arm(driver)
        fly(driver, SPEC, (0.0, 0.0, 1.0), patience(6.0), lambda: device.order()["position"][2] > 0.9)
        fly(driver, SPEC, (20.0, 0.0, 1.0), patience(6.0), lambda: device.order()["position"][0] > 1.0)
        began = device.order(loss=loss)["position"]
        driver.stop()
        wait_until(lambda: not device.order()["info"] & IS_ARMED, "it was not disarmed", 10.0)
        said = device.order()
    drift_m = np.linalg.norm(np.subtract(said["position"], began)[:2])
    print(f"landed {drift_m:.2f} m from where it was stopped")
    assert drift_m < 1.0 and said["position"][2] < 0.03 and not said["stopped_after_s"]
