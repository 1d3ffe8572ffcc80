"""MAVSDK as a second client of a vehicle at a UDP port: arms it, turns it right, lands it; says what it saw in JSON."""

import json
import sys
import time
from collections.abc import Callable

from mavsdk import ComponentType, Configuration, Mavsdk
from mavsdk.plugins.action import Action
from mavsdk.plugins.offboard import AttitudeRate, Offboard
from mavsdk.plugins.telemetry import Telemetry

FLIGHT_MODES = {1: "READY", 3: "HOLD", 6: "LAND", 7: "OFFBOARD"}  # mavsdk's FlightMode


def wait_for(happens: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not happens() and time.monotonic() < end:
        time.sleep(0.05)


def main() -> None:
    mavsdk = Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
    mavsdk.add_any_connection(f"udpout://127.0.0.1:{sys.argv[1]}")
    system = mavsdk.first_autopilot(20.0)
    telemetry, action, offboard = Telemetry(system), Action(system), Offboard(system)
    telemetry.set_rate_odometry(50.0)
    wait_for(lambda: telemetry.odometry().time_usec > 0 and telemetry.battery().voltage_v > 0.0)
    saw: dict[str, object] = {"before": telemetry.armed(), "charge": telemetry.battery().remaining_percent}
    saw |= {"volts": telemetry.battery().voltage_v, "down_m": telemetry.odometry().position_body.z_m}
    action.arm()
    wait_for(telemetry.armed)
    saw["armed"] = telemetry.armed()
    offboard.set_attitude_rate(AttitudeRate(0.0, 0.0, 30.0, float(sys.argv[2])))
    offboard.start()
    wait_for(lambda: FLIGHT_MODES.get(int(telemetry.flight_mode())) == "OFFBOARD")
    wait_for(lambda: telemetry.odometry().position_body.z_m < -0.5)
    quat = telemetry.odometry().q
    saw |= {"mode": FLIGHT_MODES.get(int(telemetry.flight_mode())), "quat": [quat.w, quat.x, quat.y, quat.z]}
    action.land()
    wait_for(lambda: not telemetry.armed(), 30.0)
    saw |= {"after": telemetry.armed(), "at_last": FLIGHT_MODES.get(int(telemetry.flight_mode()))}
    print(json.dumps(saw), flush=True)


if __name__ == "__main__":
    main()
