"""An X500 with PX4 on a UDP port, by MAVLink 2: python -m devices.px4 --port 14580. Orders are lines of JSON on stdin.

Messages: https://mavlink.io/en/messages/common.html; what PX4 makes of them: its src/modules/mavlink (v1.15).
"""

import argparse
import struct
from typing import Any

import numpy as np
from pymavlink.dialects.v20 import common

from devices.device import UdpDevice
from devices.px4_firmware import DT_S, PARAMETERS, Firmware

MAIN_MODE = {"MANUAL": 1, "ALTCTL": 2, "POSCTL": 3, "AUTO": 4, "ACRO": 5, "OFFBOARD": 6, "STABILIZED": 7}
SUB_MODE = {"TAKEOFF": 2, "LOITER": 3, "MISSION": 4, "RTL": 5, "LAND": 6}  # px4_custom_mode.h
MODES = {(MAIN_MODE[name], 0): name for name in MAIN_MODE if name != "AUTO"}
MODES |= {(MAIN_MODE["AUTO"], sub): f"AUTO.{name}" for name, sub in SUB_MODE.items()}
RATES_HZ = {0: 1.0, 1: 1.0, 245: 1.0}  # that it sends without being asked
FORCE = 21196.0
MOST_RAD_S = np.radians([220.0, 220.0, 60.0])  # MC_ROLLRATE_MAX, MC_PITCHRATE_MAX, MPC_YAWRAUTO_MAX


class Px4Device(UdpDevice):
    """One vehicle of a MAVLink network."""

    def __init__(self, port: int, firmware: Firmware, client: int = 0):
        super().__init__(firmware, DT_S, port, client)
        self._mavlink = common.MAVLink(self, srcSystem=1, srcComponent=1)
        self._mavlink.robust_parsing = True
        self._boot()
        self._transits_ms: list[float] = []
        self._last_s = 0.0
        self._handlers = {
            "COMMAND_LONG": self._obey_command,
            "PARAM_REQUEST_READ": self._tell_parameter,
            "PARAM_REQUEST_LIST": self._tell_parameters,
            "TIMESYNC": self._tell_time,
            "SET_ATTITUDE_TARGET": self._take_setpoint,
        }

    def _clear(self) -> None:
        super()._clear()
        self.heard |= {"masks": [], "forced": 0, "beyond": 0, "low": [np.inf] * 3, "high": [-np.inf] * 3}
        self.system, self.frame, self.version = 1, common.MAV_FRAME_LOCAL_NED, (1, 15)
        self.says_landed, self.says_flying = common.MAV_LANDED_STATE_ON_GROUND, common.MAV_LANDED_STATE_IN_AIR
        self._frozen = None  # an estimate that stays, where it does

    def _boot(self) -> None:
        self._due = {message: (self.firmware.now_s, 1.0 / hz) for message, hz in RATES_HZ.items()}  # next, every s

    def set(self, name: str, value: Any) -> None:
        if name == "parameters":
            self.firmware.parameters |= value
        elif name == "mode":
            self.firmware.ask_mode(value)
        elif name == "frozen":
            self._frozen = self.firmware.estimate if value else None
        elif name == "heartbeat_hz":
            self._due[0] = self.firmware.now_s, 1.0 / value
        elif name == "reboot":
            self.firmware.boot()
            self._boot()
        else:
            super().set(name, value)

    def say(self, orders: dict[str, Any]) -> dict[str, Any]:
        firmware = self.firmware
        state = {"position": firmware.position.tolist(), "mode": firmware.mode, "armed": firmware.is_armed}
        state |= {"landed": firmware.is_landed, "up": firmware.up, "failsafe": firmware.in_failsafe}
        state |= {"failed_after_s": firmware.failed_after_s}
        transits = sorted(self._transits_ms) or [float("nan")]
        state |= {"transit_ms": [transits[len(transits) // 2], transits[int(0.99 * len(transits))]]}
        return state | self.heard

    def step(self) -> None:
        self.firmware.step()
        if self.firmware.is_armed:
            at = self.firmware.position
            self.heard["low"] = np.minimum(self.heard["low"], at).tolist()
            self.heard["high"] = np.maximum(self.heard["high"], at).tolist()
        self._mavlink.srcSystem = self.system
        self._send_what_is_due()

    def take(self, packet: bytes) -> None:
        for message in self._mavlink.parse_buffer(packet) or ():
            if (handler := self._handlers.get(message.get_type())) is not None:
                handler(message)

    def _send_what_is_due(self) -> None:
        now_s = self.firmware.now_s
        for message, (due_s, every_s) in self._due.items():
            if now_s >= due_s:
                self._due[message] = max(due_s + every_s, now_s - every_s), every_s
                self._send_stream(message)
        while self.firmware.says:
            severity, text = self.firmware.says.pop(0)
            chunks = [text[at : at + 50] for at in range(0, len(text), 50)]
            for sequence, chunk in enumerate(chunks):
                self._mavlink.statustext_send(severity, chunk.encode(), int(len(chunks) > 1), sequence)

    def _send_stream(self, message: int) -> None:
        firmware, mavlink = self.firmware, self._mavlink
        at_ms, at_us = int(firmware.now_s * 1e3), int(firmware.now_s * 1e6)
        position, velocity, quat, rates = (values.tolist() for values in self._frozen or firmware.estimate)
        if message == 0:
            main, _, sub = firmware.mode.partition(".")
            custom = MAIN_MODE[main] << 16 | SUB_MODE.get(sub, 0) << 24
            state = (common.MAV_STATE_CRITICAL if firmware.in_failsafe else 4) if firmware.is_armed else 3
            mavlink.heartbeat_send(2, common.MAV_AUTOPILOT_PX4, 1 | 128 * firmware.is_armed, custom, state)
        elif message == 1:
            volts, sensors = 4 * (3.5 + 0.7 * firmware.charge), 0x1000002F | 1 << 21 | 1 << 25
            battery = int(volts * 1e3), -1, round(100 * firmware.charge)
            mavlink.sys_status_send(sensors, sensors, sensors, 300, *battery, 0, 0, 0, 0, 0, 0)
        elif message == 245:
            mavlink.extended_sys_state_send(0, self.says_landed if firmware.is_landed else self.says_flying)
        elif message == 331:
            covariance = [float("nan")] * 21
            covariance[0] = covariance[6] = covariance[11] = firmware.sigma_m**2
            frames = self.frame, common.MAV_FRAME_LOCAL_NED
            mavlink.odometry_send(at_us, *frames, *position, quat, *velocity, *rates, covariance, [float("nan")] * 21)
        elif message == 31:
            mavlink.attitude_quaternion_send(at_ms, *quat, *rates)
        elif message == 32:
            mavlink.local_position_ned_send(at_ms, *position, *velocity)
        elif message == 33:
            lat, lon = 473977420 + int(position[0] * 90), 85455940 + int(position[1] * 133)  # 1e-7 deg
            up_mm, speeds = int(-position[2] * 1e3), [int(100 * v) for v in velocity]
            mavlink.global_position_int_send(at_ms, lat, lon, 488000 + up_mm, up_mm, *speeds, 0xFFFF)

    def _obey_command(self, m: Any) -> None:
        result = common.MAV_RESULT_ACCEPTED
        if m.command == common.MAV_CMD_COMPONENT_ARM_DISARM:
            self.heard["forced"] += m.param1 == 0.0 and m.param2 == FORCE
            granted = self.firmware.ask_arm(m.param1 == 1.0, m.param2 == FORCE)
            result = result if granted else common.MAV_RESULT_TEMPORARILY_REJECTED
        elif m.command == common.MAV_CMD_DO_SET_MODE:
            mode = MODES.get((int(m.param2), int(m.param3)))
            granted = int(m.param1) & 1 and mode is not None and self.firmware.ask_mode(mode)
            result = result if granted else common.MAV_RESULT_TEMPORARILY_REJECTED
        elif m.command == common.MAV_CMD_NAV_LAND:
            self.firmware.ask_mode("AUTO.LAND")
        elif m.command == common.MAV_CMD_SET_MESSAGE_INTERVAL:
            self._due.pop(int(m.param1), None)
            if m.param2 >= 0.0:
                self._due[int(m.param1)] = self.firmware.now_s, m.param2 * 1e-6 or 0.02
        elif m.command in (common.MAV_CMD_REQUEST_MESSAGE, common.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES):
            self._tell_version()
        else:
            result = common.MAV_RESULT_UNSUPPORTED
        self._mavlink.command_ack_send(m.command, result, 0, 0, m.get_srcSystem(), m.get_srcComponent())

    def _tell_version(self) -> None:
        able = common.MAV_PROTOCOL_CAPABILITY_MAVLINK2 | common.MAV_PROTOCOL_CAPABILITY_SET_ATTITUDE_TARGET
        major, minor = self.version
        version = major << 24 | minor << 16 | 255  # the last byte: a release
        self._mavlink.autopilot_version_send(able, version, version, version, 0, [0] * 8, [0] * 8, [0] * 8, 0, 0, 1)

    def _tell_parameter(self, m: Any) -> None:
        name = m.param_id if m.param_index < 0 else list(PARAMETERS)[m.param_index]
        if name in self.firmware.parameters and name not in self.without:
            value = self.firmware.parameters[name]
            is_whole = isinstance(PARAMETERS[name], int)
            sent = struct.unpack("<f", struct.pack("<i", int(value)))[0] if is_whole else value
            index = list(PARAMETERS).index(name)
            self._mavlink.param_value_send(name.encode(), sent, 6 if is_whole else 9, len(PARAMETERS), index)

    def _tell_parameters(self, m: Any) -> None:
        for index in range(len(PARAMETERS)):
            self._tell_parameter(common.MAVLink_param_request_read_message(1, 1, b"", index))

    def _tell_time(self, m: Any) -> None:
        if m.tc1 == 0:
            self._mavlink.timesync_send(int(self.firmware.now_s * 1e9), m.ts1)

    def _take_setpoint(self, m: Any) -> None:
        now_s = self.firmware.now_s
        heard, gap_s = self.heard, now_s - self._last_s
        self._last_s = now_s
        self._transits_ms.append(now_s * 1e3 - m.time_boot_ms)
        if self.firmware.is_armed and self.firmware.mode == "OFFBOARD":
            heard["setpoints"] += 1
            heard["longest_gap_s"] = max(heard["longest_gap_s"], gap_s)
            heard["largest_thrust"] = max(heard["largest_thrust"], m.thrust)
            asked = np.abs([m.body_roll_rate, m.body_pitch_rate, m.body_yaw_rate])
            heard["beyond"] += not (0.0 <= m.thrust <= 1.0 and (asked <= MOST_RAD_S).all())
        if m.type_mask not in heard["masks"]:
            heard["masks"].append(m.type_mask)
        self.firmware.set(np.array([m.body_roll_rate, m.body_pitch_rate, m.body_yaw_rate]), m.thrust)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="UDP port that it listens on; 0: any, which it prints")
    parser.add_argument(
        "--client",
        type=int,
        default=0,
        help="UDP port of this computer that it speaks to; 0: that of the program that spoke last",
    )
    parser.add_argument("--start", type=float, nargs=3, default=(0.0, 0.0, 0.2289), help="where it stands, x y z in m")
    arguments = parser.parse_args()
    Px4Device(arguments.port, Firmware(tuple(arguments.start)), arguments.client).run()


if __name__ == "__main__":
    main()
