"""Several Crazyflies by one Crazyradio: all of cflib's radio link, safelink and addresses, on an emulated radio."""

import json
import time
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("cflib")
import radio_dongle
from drones import SPECS, arm, wait_until
from emulated import Emulated

from hardware.drivers import DriverError, load_driver, shared_link
from hardware.types import ActuatorCommand

pytestmark = pytest.mark.real_time
STARTS = [[0.0, 0.0, 0.02], [1.0, 0.0, 0.02], [2.0, 0.0, 0.02], [3.0, 0.0, 0.02]]
IDLE = ActuatorCommand(np.array([SPECS["crazyflie"].command_low[0], 0.0, 0.0, 0.0], np.float32))


@contextmanager
def team(count: int, state_hz: float):
    with Emulated("crazyradio", "--starts", json.dumps(STARTS[:count])) as radio:
        drivers = [
            radio_dongle.CrazyflieByRadio(
                SPECS["crazyflie"], radio.port, uri=f"radio://0/80/2M/E7E7E7E70{number}", state_hz=state_hz
            )
            for number in range(1, count + 1)
        ]
        try:
            for driver in drivers:
                driver.connect()
            yield radio, drivers
        finally:
            for driver in drivers:
                driver.stop()


@pytest.mark.slow
def test_four_on_one_radio_are_each_the_one_at_its_address_though_packets_are_lost():
    with team(4, 50.0) as (radio, drivers):
        for driver, start in zip(drivers, STARTS, strict=True):
            np.testing.assert_allclose(driver.read().base_pos, start, atol=0.02)
        radio.order(loss=0.1)
        arm(drivers[2])
        assert [driver.read_status().armed for driver in drivers] == [False, False, True, False]
        before = radio.order()
        for _ in range(100):
            for driver in drivers:
                driver.write(IDLE)
            time.sleep(0.02)
        said = radio.order()
        took_s = said["now_s"] - before["now_s"]
        rates_hz = (np.array(said["setpoints"]) - before["setpoints"]) / took_s
        assert (rates_hz > 15.0).all() and (rates_hz < 55.0).all(), rates_hz
        states = [driver.read() for driver in drivers]
        assert said["dropped"] == [0] * 4 and max(float(state.age) for state in states) < 0.5


@pytest.mark.slow
def test_a_radio_that_is_too_slow_for_its_robots_is_a_fault_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(radio_dongle, "PACKET_S", 0.006)  # 143 a second for what sends 211
    with team(2, 100.0) as (_, drivers):
        for driver in drivers:
            wait_until(lambda d=driver: "round trip" in d.read_status().fault, driver.read_status, 6.0)
            assert driver.read_status().fault.endswith("; fewer robots on radio 0, or state_hz 50")
        wait_until(lambda: drivers[0].read().age > 0.3, drivers[0].read, 6.0)


def test_robots_share_a_radio_and_no_cable():
    assert shared_link("crazyflie", {"uri": "radio://0/80/2M/E7E7E7E701"}) == "radio 0"
    assert shared_link("crazyflie", {"uri": "radio://1/80/2M/E7E7E7E701"}) == "radio 1"
    assert shared_link("crazyflie", {"uri": "usb://0"}) == shared_link("ur", {"host": "10.0.0.2"}) == ""


def test_a_rate_that_its_firmware_does_not_send_is_refused():
    with pytest.raises(DriverError, match=r"state_hz is 75: choose from 100, 50"):
        load_driver("crazyflie", SPECS["crazyflie"], uri="usb://0", state_hz=75.0)
