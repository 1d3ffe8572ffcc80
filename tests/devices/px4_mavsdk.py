"""An X500 with PX4 whose MAVLink is MAVSDK's, on a UDP port: python -m devices.px4_mavsdk. Body: `px4_firmware`.

MAVSDK's server takes commands, tells parameters, and reads and writes messages. It has no way to say that it is a PX4:
its HEARTBEAT is given PX4's number on its way out. Orders come as lines of JSON on stdin.
"""

import argparse
import json
import queue
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mavsdk import ComponentType, Configuration, Mavsdk
from mavsdk.logging import log_subscribe
from mavsdk.plugins.action_server import ActionServer, AllowableFlightModes, FlightMode
from mavsdk.plugins.mavlink_direct_server import MavlinkDirectServer, MavlinkMessage
from mavsdk.plugins.param_server import ParamServer
from mavsdk.plugins.telemetry_server import Battery, LandedState, TelemetryServer, VtolState
from pymavlink.dialects.v20 import common

from devices.device import Device
from devices.px4_firmware import DT_S, PARAMETERS, Firmware

ODOMETRY_STEPS, STATUS_STEPS = 4, 40  # of the firmware: 100 and 10 a second
MODES = {FlightMode.OFFBOARD: "OFFBOARD", FlightMode.LAND: "AUTO.LAND", FlightMode.HOLD: "AUTO.LOITER"}
PX4_MODES = {"OFFBOARD": 6, "AUTO.LAND": 4 | 6 << 8, "AUTO.LOITER": 4 | 3 << 8}  # main and sub mode, px4_custom_mode.h


class Wire:
    """A UDP port, and MAVSDK behind it, which is without a socket of its own."""

    def __init__(self, mavsdk: Mavsdk):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        self._mavsdk, self._client = mavsdk, None
        self._reader, self._writer = common.MAVLink(None, 1, 1), common.MAVLink(None, 1, 1)
        mavsdk.add_any_connection("raw://")
        mavsdk.subscribe_raw_bytes_to_be_sent(self._send)

    def receive(self) -> None:
        while True:
            try:
                data, self._client = self._socket.recvfrom(2048)
            except BlockingIOError:
                return
            self._mavsdk.pass_received_raw_bytes(data)

    def _send(self, data: bytes) -> None:
        if self._client is None:
            return
        for message in self._reader.parse_buffer(data) or ():
            raw = message.get_msgbuf()
            if message.get_type() == "HEARTBEAT":
                message.autopilot, message.type = common.MAV_AUTOPILOT_PX4, common.MAV_TYPE_QUADROTOR
                raw = message.pack(self._writer)
            self._socket.sendto(bytes(raw), self._client)


class MavsdkVehicle(Device):
    """Its callbacks are on MAVSDK's threads, and obeyed by `run`."""

    def __init__(self, firmware: Firmware):
        super().__init__(firmware)
        self._mavsdk = Mavsdk(Configuration.create_with_component_type(ComponentType.AUTOPILOT))
        self.wire = Wire(self._mavsdk)
        component = self._mavsdk.server_component_by_type(ComponentType.AUTOPILOT, 0)
        self._action, self._parameters = ActionServer(component), ParamServer(component)
        self._telemetry, self._direct = TelemetryServer(component), MavlinkDirectServer(component)
        self._asked: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._masks: set[int] = set()
        for name, value in firmware.parameters.items():
            kind = "int" if isinstance(PARAMETERS[name], int) else "float"
            getattr(self._parameters, f"provide_param_{kind}")(name, value)
        self._action.set_armable(True, True)
        self._action.set_disarmable(True, True)
        self._action.set_allowable_flight_modes(AllowableFlightModes(*[True] * 7))
        later = self._asked.put
        self._action.subscribe_arm_disarm(lambda _, m, __: later(lambda: self.firmware.ask_arm(m.arm, m.force)))
        self._action.subscribe_flight_mode_change(
            lambda _, mode, __: later(lambda: self.firmware.ask_mode(MODES.get(mode, "POSCTL")))
        )
        self._direct.subscribe_message("TIMESYNC", lambda m, _: later(lambda: self._tell_time(m)))
        self._direct.subscribe_message("SET_ATTITUDE_TARGET", lambda m, _: later(lambda: self._take_setpoint(m)))

    def say(self, orders: dict[str, Any]) -> dict[str, Any]:
        firmware = self.firmware
        state = {"position": firmware.position.tolist(), "mode": firmware.mode, "armed": firmware.is_armed}
        return state | {"landed": firmware.is_landed, "masks": sorted(self._masks), "said": firmware.says}

    def run(self) -> None:
        """Until stdin ends."""
        print(self.wire.port, flush=True)
        next_s, steps = time.monotonic(), 0
        while self.obey():
            self.wire.receive()
            while next_s <= time.monotonic():
                self.firmware.step()
                next_s, steps = next_s + DT_S, steps + 1
                if steps % ODOMETRY_STEPS == 0:
                    self._send_odometry()
                if steps % STATUS_STEPS == 0:
                    self._send_status()
            while not self._asked.empty():
                self._asked.get()()
            time.sleep(max(0.0, min(next_s - time.monotonic(), DT_S)))

    def _send(self, name: str, **fields: Any) -> None:
        self._direct.send_message(MavlinkMessage(name, 1, 1, 0, 0, json.dumps(fields)))

    def _tell_time(self, message: MavlinkMessage) -> None:
        said = json.loads(message.fields_json)
        if said["tc1"] == 0:
            self._send("TIMESYNC", tc1=int(self.firmware.now_s * 1e9), ts1=said["ts1"])

    def _take_setpoint(self, message: MavlinkMessage) -> None:
        said = json.loads(message.fields_json)
        self._masks.add(said["type_mask"])
        rates = [said[f"body_{axis}_rate"] for axis in ("roll", "pitch", "yaw")]
        self.firmware.set(np.array(rates), said["thrust"])

    def _send_odometry(self) -> None:
        position, velocity, quat, rates = (values.tolist() for values in self.firmware.estimate)
        covariance = [0.0] * 21
        covariance[0] = covariance[6] = covariance[11] = self.firmware.sigma_m**2
        frames = {"frame_id": common.MAV_FRAME_LOCAL_NED, "child_frame_id": common.MAV_FRAME_LOCAL_NED}
        numbers = zip(
            ("x", "y", "z", "vx", "vy", "vz", "rollspeed", "pitchspeed", "yawspeed"),
            position + velocity + rates,
            strict=True,
        )
        at_us = int(self.firmware.now_s * 1e6)
        self._send("ODOMETRY", time_usec=at_us, **frames, q=quat, pose_covariance=covariance, **dict(numbers))

    def _send_status(self) -> None:
        firmware = self.firmware
        self._action.set_armed_state(firmware.is_armed)
        self._action.set_flight_mode_internal({name: mode for mode, name in MODES.items()}[firmware.mode])
        battery = Battery(4 * (3.5 + 0.7 * firmware.charge), firmware.charge)
        self._telemetry.publish_sys_status(battery, True, True, True, True, True)
        landed = LandedState.ON_GROUND if firmware.is_landed else LandedState.IN_AIR
        self._telemetry.publish_extended_sys_state(VtolState.UNDEFINED, landed)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    log_subscribe(lambda *said: True)  # it would go to stdout, where answers go
    MavsdkVehicle(Firmware()).run()
