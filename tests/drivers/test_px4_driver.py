"""The driver of a drone with PX4, through pymavlink, against an emulated X500: what other drones do not do."""

import time

import numpy as np
import pytest

pytest.importorskip("pymavlink")
from drones import ABOVE, SPECS, arm, bench, climb_px4, connected, flier, fly, rest, wait_until
from emulated import Emulated
from patience import patience

from hardware import load_robot
from hardware.drivers import DriverError, load_driver
from hardware.types import ActuatorCommand

pytestmark = pytest.mark.real_time

SPEC = SPECS["px4"]


@pytest.fixture(scope="module")
def other():
    """A device, and a process with a driver of it that flies as soon as it has a line to read."""
    with Emulated("px4") as device:
        device.order(parameters={"COM_OF_LOSS_T": 0.5, "COM_DISARM_LAND": 0.5})
        process = flier("px4", device.port)
        yield device, process
        process.kill()


@pytest.fixture(scope="module")
def shared(other):
    """A device and a driver of it; the other one starts meanwhile."""
    with bench("px4") as pair:
        yield pair


@pytest.fixture
def vehicle(shared):
    """A device and its driver, both at rest."""
    rest(*shared)
    return shared


@pytest.mark.slow
def test_an_airframe_of_another_mass_hovers_at_the_thrust_that_px4_knows(tmp_path):
    """Stated by an overlay file: 2.5 kg are 24.5 N, and that is what MPC_THR_HOVER of this airframe stands for."""
    file = tmp_path / "heavy.yaml"
    file.write_text("robot: x500\nnumbers: {mass_kg: {value: 2.5, low: 2.45, high: 2.55}}\n")
    heavy = load_robot(str(file))
    with Emulated("px4") as device:
        device.order(parameters={"MPC_THR_HOVER": 0.55})
        driver = load_driver("px4", heavy, link=f"udpout:127.0.0.1:{device.port}")
        driver.connect()
        arm(driver)
        hover = np.array([2.5 * 9.81, 0.0, 0.0, 0.0], np.float32)
        wait_until(
            lambda: (driver.write(ActuatorCommand(hover)), device.order()["setpoints"] > 5)[1], "nothing is sent"
        )
        wait_until(lambda: (driver.write(ActuatorCommand(hover)), device.order()["largest_thrust"] > 0)[1], "no thrust")
        assert device.order()["largest_thrust"] == pytest.approx(0.55, abs=1e-3)
        driver.disarm()
        driver.stop()


@pytest.mark.slow
def test_a_refusal_to_arm_is_told_in_px4s_words_and_may_be_overcome(vehicle):
    device, driver = vehicle
    device.order(refuses_arming="Resolve system health failures first")
    driver.arm()
    wait_until(lambda: driver.read_status().fault, "arming was not refused", 6.0)
    assert driver.read_status().fault == (
        "arming refused, MAV_RESULT 1: Arming denied: Resolve system health failures first"
    )
    driver.disarm()
    device.order(refuses_arming="")
    arm(driver)


@pytest.mark.slow
def test_who_px4_disarms_before_a_take_off_hears_by_which_parameter(vehicle):
    device, driver = vehicle
    device.order(parameters={"COM_DISARM_PRFLT": 1.5})
    arm(driver)
    wait_until(lambda: "disarmed by itself" in driver.read_status().fault, driver.read_status, 4.0)
    assert "COM_DISARM_PRFLT is 10 s, too short" in driver.read_status().fault, "as it was when it connected"


@pytest.mark.slow
def test_who_is_disarmed_while_px4_says_that_it_flies_is_landed_by_px4_and_can_still_be_stopped(vehicle):
    """Its shield takes it for landed, by a wrong height: motors that are cut, or idle, would let it fall."""
    device, driver = vehicle
    idle = ActuatorCommand(np.float32(SPEC.command_low))
    climb_px4(device, driver)
    driver.disarm()

    def goes_down(below_m: float) -> bool:
        driver.write(idle)  # as a shield goes on for a second
        said = device.order()
        assert said["armed"] or said["position"][2] < 0.26, "its motors were cut in the air"
        return said["position"][2] < below_m

    device.order(says_landed=2)  # and goes on, so that the fault lasts
    begin_s = time.monotonic()
    wait_until(lambda: goes_down(0.26), "it does not sink")
    print(f"down after {time.monotonic() - begin_s:.2f} s")
    assert device.order()["mode"] == "AUTO.LAND" and time.monotonic() - begin_s > 0.5, "it fell"
    driver.arm()
    assert "PX4 says that it flies" in driver.read_status().fault, "it would have been armed with commands to nothing"
    wait_until(lambda: not device.order()["armed"], "PX4 did not disarm it", 6.0)
    wait_until(lambda: not driver.read_status().fault, driver.read_status)
    rest(device, driver)
    climb_px4(device, driver)
    driver.disarm()
    wait_until(lambda: device.order()["mode"] == "AUTO.LAND", "PX4 does not land it")
    driver.cut()
    wait_until(lambda: not device.order()["armed"], "an emergency stop did nothing")
    assert device.order()["position"][2] > 0.26


@pytest.mark.slow
def test_a_landing_that_px4_takes_for_flight_for_long_is_a_fault(vehicle):
    device, driver = vehicle
    device.order(parameters={"MPC_LAND_SPEED": 0.15})
    climb_px4(device, driver)
    driver.disarm()
    assert not driver.read_status().fault, "after each landing it says so for a second"
    wait_until(lambda: driver.read_status().fault, "nothing is said of it", 3.5)
    assert driver.read_status().fault == "PX4 says that it flies, though its shield has landed it: PX4 lands it"
    assert device.order()["armed"] and device.order()["mode"] == "AUTO.LAND"
    device.order(parameters={"MPC_LAND_SPEED": 0.7})


@pytest.mark.slow
def test_who_takes_it_over_and_gives_it_back_has_no_motors_stopped_in_the_air(vehicle):
    """The shield disarms what left it. Given back at once it hears no set-points, and lands by PX4's own failsafe."""
    device, driver = vehicle
    climb_px4(device, driver)
    device.order(mode="POSCTL")
    fly(driver, SPEC, ABOVE, patience(3.0), until=lambda: "POSCTL" in driver.read_status().fault)
    driver.disarm()
    device.order(mode="OFFBOARD")
    idle = ActuatorCommand(np.float32(SPEC.command_low))  # as a shield sends that has given it up

    def is_landed_by_px4() -> bool:
        driver.write(idle)
        return device.order()["mode"] == "AUTO.LAND"

    wait_until(is_landed_by_px4, "it obeys set-points of who has lost it")
    said = device.order()
    assert said["armed"] and said["position"][2] > 0.5, "it fell"


FAULTS = [
    ({"mode": "POSCTL"}, {"mode": "OFFBOARD"}, "flown in mode POSCTL by its remote control or another program"),
    ({"sigma_m": 0.8}, {"sigma_m": 0.02}, "position known to 0.80 m only"),
    ({"sigma_m": float("nan")}, {"sigma_m": 0.02}, "position known to nan m only"),
    ({"delay_s": 0.15}, {"delay_s": 0.0}, "round trip takes"),
    ({"charge": 0.05}, {"charge": 0.9, "mode": "OFFBOARD"}, "AUTO.LAND by its own failsafe: Failsafe: critical"),
    ({"is_armed": False}, {}, "disarmed by itself, or by somebody else"),
    ({"reboot": True}, {}, "has restarted"),
]


@pytest.mark.slow
def test_a_device_that_takes_itself_back_says_why_and_a_pilot_keeps_it(vehicle):
    device, driver = vehicle
    climb_px4(device, driver)
    for order, back, fault in FAULTS:
        device.order(**order)
        begin = time.monotonic()
        fly(driver, SPEC, ABOVE, patience(6.0), until=lambda text=fault: text in driver.read_status().fault)
        print(f"{order}: {1e3 * (time.monotonic() - begin):.0f} ms, {driver.read_status().fault}")
        assert fault in driver.read_status().fault
        if "mode" in order:
            driver.disarm()
            time.sleep(0.3)
            assert device.order()["armed"], "it was disarmed under its pilot"
            driver.arm()
        device.order(**back)
        if back:
            fly(driver, SPEC, ABOVE, patience(3.0), until=lambda: not driver.read_status().fault)
            assert not driver.read_status().fault


@pytest.mark.slow
def test_px4_lands_it_when_the_driver_dies(other):
    """COM_OF_LOSS_T after its last set-point, which the driver has read back."""
    device, process = other
    process.stdin.write("fly\n")
    process.stdin.flush()
    assert process.stdout.readline().strip() == "flies"
    assert device.order()["position"][2] > 0.5
    process.kill()
    killed = time.monotonic()
    while (said := device.order())["mode"] == "OFFBOARD":
        assert time.monotonic() < killed + patience(2.0)
        time.sleep(0.01)
    wait_until(lambda: not device.order()["armed"], "it has not landed", 10.0)
    print(f"left OFFBOARD {1e3 * said['failed_after_s']:.0f} ms after the last set-point; down and disarmed "
          f"{time.monotonic() - killed:.1f} s after the driver died")  # fmt: skip
    assert 0.49 < said["failed_after_s"] < 0.52 and said["failsafe"] and said["mode"] == "AUTO.LAND"
    landed = device.order()
    assert landed["position"][2] < 0.24 and said["up"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"parameters": {"COM_OF_LOSS_T": 30.0}}, "COM_OF_LOSS_T is 30 s: expected at most 2 and more than 0"),
        ({"parameters": {"COM_OBL_RC_ACT": 0}}, "COM_OBL_RC_ACT is 0: expected 4 (land), 3 (return) or 5 (hold)"),
        ({"parameters": {"MPC_THR_HOVER": 0.9}}, "MPC_THR_HOVER is 0.9: expected 0.1 to 0.8"),
        ({"without": ["COM_OBL_RC_ACT"]}, "no answer about parameter COM_OBL_RC_ACT: its firmware may be too old"),
        ({"version": [1, 13]}, "PX4 1.13.0 is too old: expected 1.14 or newer"),
        ({"system": 7}, "no HEARTBEAT of system 1 but only of systems [7]"),
    ],
)
def test_a_vehicle_without_its_own_watchdog_is_refused_in_one_line(other, order, message):
    device, process = other
    process.kill()  # one client at a time
    process.wait()
    device.order(reset=True)
    device.order(**order)
    with pytest.raises(DriverError) as refused:
        connected("px4", device.port, connect_s=1.5)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_what_cannot_be_is_refused_in_one_line():
    for options, message in (
        ({"link": "udpout:127.0.0.1:1", "connect_s": 0.2}, "PX4 at udpout:127.0.0.1:1: no HEARTBEAT"),
        ({"link": "udpout:nonsense"}, "PX4 at udpout:nonsense: "),
        ({"link": "/dev/no-such-port"}, "PX4 at /dev/no-such-port: "),
        ({"link": "udpout:127.0.0.1:1", "system": 0}, "system is 0: expected 1 to 255"),
    ):
        began_s = time.monotonic()
        with pytest.raises(DriverError, match=message) as refused:
            load_driver("px4", SPEC, **options).connect()
        assert "\n" not in str(refused.value) and time.monotonic() < began_s + patience(5.0)
    with pytest.raises(DriverError, match="not 'panda'"):
        load_driver("px4", load_robot("panda"), link="udpout:127.0.0.1:1")
