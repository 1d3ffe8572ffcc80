"""A Crazyflie on a UDP port, by CRTP: python -m devices.crazyflie --port 19850. Orders come as lines of JSON on stdin.

Protocol: crazyflie-firmware's docs/functional-areas/crtp (commit 2a18fc2), protocol version 12.
"""

import argparse
import struct
from typing import Any
from zlib import crc32

from devices.crazyflie_firmware import DT_S, Firmware, Setpoint
from devices.device import UdpDevice

LOG_TYPES = {1: "<B", 2: "<H", 3: "<L", 4: "<b", 5: "<h", 6: "<i", 7: "<f"}
LOG_VARIABLES = {
    **{f"stateEstimateZ.{name}": 5 for name in ("x", "y", "z", "vx", "vy", "vz", "rateRoll", "ratePitch", "rateYaw")},
    "stateEstimateZ.quat": 3,
    "supervisor.info": 2,
    "pm.vbat": 7,
    "pm.batteryLevel": 1,
    **{f"kalman.var{axis}": 7 for axis in "XYZ"},
}
PARAMETERS = {"supervisor.prefltTimeout": (9, "<H", 30_000)}  # type in its table, layout, default
PARAM, COMMANDER, MEM, LOG, GENERIC, HIGH_LEVEL, SUPERVISOR, PLATFORM, LINK = 2, 3, 4, 5, 7, 8, 9, 13, 15


class CrazyflieDevice(UdpDevice):
    """One Crazyflie and its tables."""

    def __init__(self, port: int, firmware: Firmware, version: int = 12):
        """`version` of the protocol."""
        super().__init__(firmware, DT_S, port)
        self._version = version
        self._parameters = [(name, *rest) for name, rest in PARAMETERS.items()]
        self._values = [default for _, _, _, default in self._parameters]
        self._blocks: dict[int, list[int]] = {}  # log block -> variables
        self._due: dict[int, tuple[float, float]] = {}  # log block -> when next, every s
        self._is_relaxed = False  # whether the high-level commander may take over
        self._answers = {PARAM: self._param, MEM: self._mem, LOG: self._log, LINK: self._link}
        self._answers |= {SUPERVISOR: self._supervisor, PLATFORM: self._platform}

    def say(self, orders: dict[str, Any]) -> dict[str, Any]:
        firmware = self.firmware
        state = {"position": firmware.position.tolist(), "info": firmware.info, "tilt": firmware.tilt}
        return state | {"stopped_after_s": firmware.stopped_after_s} | self.heard

    def step(self) -> None:
        self.firmware.step()
        self._send_logs()

    @property
    def _variables(self) -> list[tuple[str, int]]:
        return [(name, kind) for name, kind in LOG_VARIABLES.items() if name not in self.without]

    def take(self, packet: bytes) -> None:
        header, data = packet[0], packet[1:]
        port, channel = header >> 4, header & 3
        if header == 0xFF:
            self._send(LINK, 3, b"")
        elif port == GENERIC and channel == 0:
            self._set(data)
        elif port == GENERIC and channel == 1:
            self._is_relaxed = True
        elif port == HIGH_LEVEL and data[0] == 8 and self._is_relaxed:
            _, height_m, _, _, duration_s = struct.unpack("<Bff?f", data[1:])
            self.firmware.land(height_m, duration_s)
        elif port == COMMANDER:
            self.firmware.set(Setpoint(at_s=self.firmware.now_s))
        elif port in self._answers and (answer := self._answers[port](channel, data)) is not None:
            self._send(port, channel, answer)

    def _set(self, data: bytes) -> None:
        point, now_s = Setpoint(at_s=self.firmware.now_s), self.firmware.now_s
        if data[0] == 11:
            roll, pitch, yaw, thrust, is_rate = struct.unpack("<fffHB", data[1:])
            point = Setpoint(roll, pitch, yaw, float(thrust), bool(is_rate), now_s)
        elif data[0] != 0:
            return
        if self.heard["setpoints"] and self.firmware.is_flying:
            self.gap(now_s - self.firmware.setpoint.at_s)
        self.heard["setpoints"] += 1
        self.heard["largest_thrust"] = max(self.heard["largest_thrust"], point.thrust)
        self._is_relaxed = False
        self.firmware.set(point)

    def gap(self, gap_s: float) -> None:
        """A set-point has come in flight, so long after the one before."""
        self.heard["longest_gap_s"] = max(self.heard["longest_gap_s"], gap_s)

    def _send(self, port: int, channel: int, data: bytes) -> None:
        assert len(data) <= 30, "a packet of CRTP holds 30 bytes"
        self.write(bytes([port << 4 | 3 << 2 | channel]) + data)

    def _send_logs(self) -> None:
        now_s = self.firmware.now_s
        for block, (due_s, every_s) in self._due.items():
            if now_s >= due_s:
                self._due[block] = due_s + every_s, every_s
                values, data = self.firmware.log(), struct.pack("<BI", block, int(now_s * 1e3) % (1 << 24))[:4]
                for index in self._blocks[block]:
                    name, kind = self._variables[index]
                    data += struct.pack(LOG_TYPES[kind], values[name])
                self._send(LOG, 2, data)

    def _link(self, channel: int, data: bytes) -> bytes | None:
        return {0: data, 1: b"Bitcraze Crazyflie".ljust(30, b"\0")}.get(channel)

    def _platform(self, channel: int, data: bytes) -> bytes | None:
        return struct.pack("<BI", 0, self._version) if channel == 1 and data[0] == 0 else None

    def _mem(self, channel: int, data: bytes) -> bytes | None:
        return bytes([1, 0]) if channel == 0 and data[0] == 1 else None

    def _supervisor(self, channel: int, data: bytes) -> bytes | None:
        if channel == 0 and data[0] == 0x0C:
            return struct.pack("<BH", 0x8C, self.firmware.info)
        if channel == 1 and data[0] == 1:
            return bytes([0x81, self.firmware.arm(bool(data[1])), self.firmware.is_armed])
        return None

    def _log(self, channel: int, data: bytes) -> bytes | None:
        if channel == 0:
            return self._table(data, [(n, bytes([kind])) for n, kind in self._variables], b"\x10\x80")
        command, block = data[0], data[1] if len(data) > 1 else 0
        if command == 5:
            self._blocks, self._due = {}, {}
        elif command in (6, 7):
            added = [struct.unpack_from("<BH", data, at)[1] for at in range(2, len(data) - 2, 3)]
            self._blocks[block] = (self._blocks.get(block, []) if command == 7 else []) + added
        elif command in (3, 8):
            period_s = data[2] * 0.01 if command == 3 else struct.unpack_from("<H", data, 2)[0] * 1e-3
            self._due[block] = self.firmware.now_s, period_s
        elif command in (2, 4):
            self._due.pop(block, None)
        return bytes([command, block, 0])

    def _param(self, channel: int, data: bytes) -> bytes | None:
        if channel == 0:
            return self._table(data, [(name, bytes([kind])) for name, kind, *_ in self._parameters])
        if channel == 3:
            return None
        (index,) = struct.unpack_from("<H", data)
        layout = self._parameters[index][2]
        if channel == 2:
            (self._values[index],) = struct.unpack_from(layout, data, 2)
            self.firmware.preflight_s = self._values[0] * 1e-3
            return data[:2] + struct.pack(layout, self._values[index])
        return data[:2] + b"\0" + struct.pack(layout, self._values[index])

    def _table(self, data: bytes, entries: list[tuple[str, bytes]], more: bytes = b"") -> bytes | None:
        """Its size and checksum, or one of its entries: type, group and name."""
        if data[0] == 3:
            return struct.pack("<BHI", 3, len(entries), crc32(repr(entries).encode())) + more
        if data[0] == 2 and (index := struct.unpack_from("<H", data, 1)[0]) < len(entries):
            name, kind = entries[index]
            return data[:3] + kind + name.replace(".", "\0").encode() + b"\0"
        return data[:1] if data[0] == 2 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="UDP port that it listens on; 0: any, which it prints")
    parser.add_argument("--start", type=float, nargs=3, default=(0.0, 0.0, 0.02), help="where it stands, x y z in m")
    parser.add_argument("--version", type=int, default=12, help="of its protocol")
    arguments = parser.parse_args()
    firmware = Firmware(tuple(arguments.start))
    CrazyflieDevice(arguments.port, firmware, arguments.version).run()


if __name__ == "__main__":
    main()
