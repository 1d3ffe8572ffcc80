"""A G1 on a DDS domain: python -m devices.unitree_g1 --domain 42. Orders come as lines of JSON on stdin.

Messages: unitree_sdk2_python, unitree_sdk2py/idl/unitree_hg (commit 2d74535), declared as Cyclone DDS 0.10 has them.
"""

import argparse
import math
import random
import struct
import time
from collections import deque
from typing import Any

from cyclonedds._clayer import ddspy_take, ddspy_write
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import make_idl_struct
from cyclonedds.idl.types import array, byte, float32, int16, int32, uint16, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from devices.device import Device
from devices.unitree_g1_body import DT_S, Body

MOTORS, PR = 35, 0
NETWORK = (
    '<CycloneDDS><Domain id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces><AllowMulticast>false'
    "</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex><Peers>"
    '<Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>'
)
COMMAND_IN_C = struct.Struct("<2B2x" + "B3x5fI" * MOTORS + "4I")  # as unitree_sdk2_python/utils/crc.py has it
STATE_IN_C = struct.Struct("<2I2B2xI" + "13fh2x" + "B3x4f2hf7I" * MOTORS + "40B4I")
BMS = struct.Struct("<3Bx40H3Ii2B12h2H2x5I3I")
KEYS = {"R1": 0, "L1": 1, "start": 2, "select": 3, "R2": 4, "L2": 5, "F1": 6, "F2": 7, "A": 8, "B": 9, "X": 10, "Y": 11}
TABLE = []
for index in range(256):
    value = index << 24
    for _ in range(8):
        value = (value << 1 ^ (0x04C11DB7 if value & 1 << 31 else 0)) & 0xFFFFFFFF
    TABLE.append(value)


SERVICE = bytes(COMMAND_IN_C.size)  # what its motion service sends, whose commands are not known: it is dropped


def crc32_core(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for (word,) in struct.iter_unpack("<I", data):
        for shift in (24, 16, 8, 0):
            crc = (crc << 8 ^ TABLE[crc >> 24 ^ word >> shift & 0xFF]) & 0xFFFFFFFF
    return crc


def types() -> tuple:
    """LowCmd_, LowState_ and BmsState_."""

    def made(name: str, **fields):
        return make_idl_struct(name, f"unitree_hg.msg.dds_.{name}", fields)

    words = array[uint32, 4]
    motor_cmd = made("MotorCmd_", mode=byte, q=float32, dq=float32, tau=float32, kp=float32, kd=float32, reserve=uint32)
    motor_state = made(
        "MotorState_", mode=byte, q=float32, dq=float32, ddq=float32, tau_est=float32, temperature=array[int16, 2],
        vol=float32, sensor=array[uint32, 2], motorstate=uint32, reserve=words,
    )  # fmt: skip
    three = array[float32, 3]
    imu = made(
        "IMUState_", quaternion=array[float32, 4], gyroscope=three, accelerometer=three, rpy=three, temperature=int16
    )
    low_cmd = made(
        "LowCmd_", mode_pr=byte, mode_machine=byte, motor_cmd=array[motor_cmd, MOTORS], reserve=words, crc=uint32
    )
    low_state = made(
        "LowState_", version=array[uint32, 2], mode_pr=byte, mode_machine=byte, tick=uint32, imu_state=imu,
        motor_state=array[motor_state, MOTORS], wireless_remote=array[byte, 40], reserve=words, crc=uint32,
    )  # fmt: skip
    bms = made(
        "BmsState_", version_high=byte, version_low=byte, fn=byte, cell_vol=array[uint16, 40],
        bmsvoltage=array[uint32, 3], current=int32, soc=byte, soh=byte, temperature=array[int16, 12], cycle=uint16,
        manufacturer_date=uint16, bmsstate=array[uint32, 5], reserve=array[uint32, 3],
    )  # fmt: skip
    return low_cmd, low_state, bms


class G1Device(Device):
    """Serves one client, in real time."""

    def __init__(self, domain: int, body: Body, mode_machine: int):
        super().__init__(body)
        self.mode_machine, self.mode_pr, self.logs = mode_machine, PR, False
        low_cmd, low_state, bms = types()
        self._domain = Domain(domain, NETWORK)
        participant = DomainParticipant(domain)
        newest = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepLast(1))
        self._topic = Topic(participant, "rt/lowcmd", low_cmd)
        self._commands = DataReader(participant, self._topic, newest)
        self._states = DataWriter(participant, Topic(participant, "rt/lowstate", low_state), newest)
        self._battery = DataWriter(participant, Topic(participant, "rt/lf/bmsstate", bms), newest)
        self._participant, self._service, self._takes_over = participant, None, False
        self.corrupt = self.repeats = False  # what is wrong with the states that leave
        self.swaps = False  # whether each second one overtakes the one before
        self.loss = self.delay_s = 0.0
        self.silent = False
        self.soc, self.celsius, self.remote, self.errors = 83, 40, "", {}
        self.zeros, self.imu_tilt, self.gyro_bias, self.noise = {}, [0.0, 0.0], [0.0] * 3, 0.0  # by motor, rad; rad/s
        self._held, self._waits = b"", None
        self._coming: deque[tuple[float, bytes]] = deque()
        self._leaving: deque[tuple[float, bytes]] = deque()
        self._tick, self._battery_due, self._last_s = 0, 0, -math.inf
        self.heard = {"accepted": 0, "dropped": 0, "longest_gap_s": 0.0}
        self._log: deque[tuple[float, float, float]] = deque(maxlen=4000)  # arrival s, q of the last motor, its kp
        self._sent: deque[tuple[int, float]] = deque(maxlen=4000)  # tick, when it went out

    def run(self) -> None:
        """Until stdin ends."""
        next_s = time.monotonic()
        while self.obey():
            self._receive()
            while next_s <= time.monotonic():
                self.firmware.step()
                next_s += DT_S
                self._tick += 1
            self._say()
            time.sleep(max(0.0, next_s - time.monotonic()))

    @property
    def service(self) -> bool:
        """Whether the vendor's motion service is there, which may send nothing."""
        return self._service is not None

    @service.setter
    def service(self, on: bool) -> None:
        self._service = DataWriter(self._participant, self._topic) if on else None

    @property
    def takeover(self) -> bool:
        """Whether that service sends commands too."""
        return self._takes_over

    @takeover.setter
    def takeover(self, on: bool) -> None:
        self.service = self._takes_over = on

    def say(self, orders: dict[str, Any]) -> dict[str, Any]:
        """{"logs": true}: also when commands came and states went."""
        logs = {"log": list(self._log), "sent": list(self._sent)} if orders.get("logs") else {}
        return {**self.firmware.report(), **self.heard, "silent_s": time.monotonic() - self._last_s, **logs}

    def _receive(self) -> None:
        now_s = time.monotonic()
        for data, info in ddspy_take(self._commands._ref, 0, 8):
            if info.valid_data and random.random() >= self.loss:
                self._coming.append((now_s + self.delay_s, data[4:]))
        while self._coming and self._coming[0][0] <= now_s:
            self._take(self._coming.popleft()[1], now_s)

    def _take(self, data: bytes, now_s: float) -> None:
        """What is wrong is dropped without a word."""
        in_c = data[:2] + b"\0\0" + data[2:3] + b"\0\0\0" + data[4:-4]
        (crc,) = struct.unpack("<I", data[-4:])
        mode_pr, mode_machine, *numbers = COMMAND_IN_C.unpack(in_c)
        if crc != crc32_core(in_c) or mode_machine != self.mode_machine or mode_pr != PR:
            self.heard["dropped"] += 1
            return
        motors = [numbers[7 * index : 7 * index + 6] for index in range(29)]
        self.heard["accepted"] += 1
        self.heard["longest_gap_s"] = max(self.heard["longest_gap_s"], now_s - max(self._last_s, 0.0))
        if self._last_s < 0.0:
            self.heard["longest_gap_s"] = 0.0
        self._last_s = now_s
        self._log.append((now_s, motors[28][1], motors[28][4]))
        self.firmware.command(motors)

    def _say(self) -> None:
        now_s = time.monotonic()
        if self._takes_over:
            ddspy_write(self._service._ref, b"\0\1\0\0" + SERVICE)
        if not self.silent and random.random() >= self.loss:
            self._leaving.append((now_s + self.delay_s, self._state()))
            self._sent.append((self._tick, now_s))
        while self._leaving and self._leaving[0][0] <= now_s:
            self._write(self._leaving.popleft()[1])
        if self._tick >= self._battery_due:
            self._battery_due = self._tick + 100
            bms = BMS.pack(1, 2, 0, *[0] * 40, *[0] * 3, 0, self.soc, 99, *[0] * 12, 0, 0, *[0] * 5, *[0] * 3)
            ddspy_write(self._battery._ref, b"\0\1\0\0" + bms)

    def _write(self, state: bytes) -> None:
        if self.repeats:
            state = self._held or state
        self._held = state
        if self.corrupt:
            state = state[:20] + bytes([state[20] ^ 1]) + state[21:]
        if self.swaps and self._waits is None:
            self._waits = state
            return
        waits, self._waits = self._waits, None
        for each in filter(None, (state, waits)):
            ddspy_write(self._states._ref, each)

    @property
    def tick(self) -> int:
        """Of its controller; less than before where that has started again."""
        return self._tick

    @tick.setter
    def tick(self, tick: int) -> None:
        self._tick = self._battery_due = tick

    def _sensed(self, quat: list, gyro: list, q: list, dq: list, tau: list) -> tuple[list, list, list, list, list]:
        """As its sensors say it, whose zeros may be wrong, and whose IMU may be tilted by a roll and a pitch, rad."""
        roll, pitch = self.imu_tilt
        tilted = rotate(quat, [math.cos(roll / 2), math.sin(roll / 2), 0.0, 0.0])
        tilted = rotate(tilted, [math.cos(pitch / 2), 0.0, math.sin(pitch / 2), 0.0])
        q = [each + self.zeros.get(str(motor), 0.0) + random.gauss(0.0, self.noise) for motor, each in enumerate(q)]
        gyro = [each + bias + random.gauss(0.0, self.noise) for each, bias in zip(gyro, self.gyro_bias, strict=True)]
        return tilted, gyro, q, dq, tau

    def _state(self) -> bytes:
        quat, gyro, q, dq, tau = self._sensed(*self.firmware.measured())
        motors: list[float] = []
        for index in range(MOTORS):
            error = self.errors.get(str(index), 0)
            there = (q[index], dq[index], 0.0, tau[index]) if index < 29 else (0.0,) * 4
            motors += [index < 29, *there, self.celsius, self.celsius, 48.0, 0, 0, error, 0, 0, 0, 0]
        bits = sum(1 << KEYS[key] for key in self.remote.split("+") if key)
        remote = [0, 0, bits & 0xFF, bits >> 8, *[0] * 36]
        in_c = STATE_IN_C.pack(
            1, 0, self.mode_pr, self.mode_machine, self._tick, *quat, *gyro, *[0.0] * 6, 35, *motors, *remote, *[0] * 4
        )
        crc = struct.pack("<I", crc32_core(in_c))
        return b"\0\1\0\0" + in_c[:70] + in_c[72:73] + b"\0" + in_c[76:] + crc


def rotate(a: list, b: list) -> list:
    """The product of two quaternions wxyz."""
    w, x, y, z = a
    s, i, j, k = b
    return [w * s - x * i - y * j - z * k, w * i + x * s + y * k - z * j, w * j - x * k + y * s + z * i,
            w * k + x * j - y * i + z * s]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", type=int, required=True, help="DDS domain")
    parser.add_argument("--mode-machine", type=int, default=5, help="which G1 it says that it is")
    arguments = parser.parse_args()
    device = G1Device(arguments.domain, Body(), arguments.mode_machine)
    print("lo", flush=True)
    device.run()


if __name__ == "__main__":
    main()
