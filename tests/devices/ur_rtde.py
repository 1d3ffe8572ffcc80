"""One connection to port 30004 of an emulated UR5e: Real-Time Data Exchange, version 2 of its protocol.

https://docs.universal-robots.com/tutorials/communication-protocol-tutorials/rtde-guide.html: a package is its size
(uint16, itself included), its type (uint8) and a payload; all numbers are big-endian.
"""

import contextlib
import random
import socket
import struct
import time
from collections import deque

from devices.ur_body import CYCLE_S

CODES = {"DOUBLE": "d", "VECTOR6D": "6d", "VECTOR3D": "3d", "INT32": "i", "UINT32": "I", "UINT64": "Q", "UINT8": "B"}
INPUTS = {f"input_int_register_{i}": "INT32" for i in range(48)} | {
    f"input_double_register_{i}": "DOUBLE" for i in range(48)
}
# Bits of safety_status_bits: 0 normal, 2 protective, 4 safeguard, 6 robot emergency, 7 emergency, 10 stopped
STOPS = {"": 0b1, "protective": 1 << 2 | 1 << 10, "safeguard": 1 << 4 | 1 << 10, "emergency": 1 << 6 | 1 << 7 | 1 << 10}
# name: type, and what it says of a controller
OUTPUTS = (
    {
        f"input_int_register_{i}": ("INT32", lambda c, i=i: (int(c.inputs.get(f"input_int_register_{i}", 0)),))
        for i in range(48)
    }
    | {
        "timestamp": ("DOUBLE", lambda c: (c.timestamp,)),
        "target_q": ("VECTOR6D", lambda c: c.body.target),
        "target_qd": ("VECTOR6D", lambda c: c.body.velocity),
        "actual_q": ("VECTOR6D", lambda c: c.measured),
        "actual_qd": ("VECTOR6D", lambda c: c.body.qd),
        "robot_mode": ("INT32", lambda c: (c.robot_mode,)),
        "safety_mode": ("INT32", lambda c: ({"": 1, "protective": 3, "safeguard": 5, "emergency": 7}[c.stop],)),
        "robot_status_bits": ("UINT32", lambda c: (1 | 2 * (c.runtime_state == 2) | 4 * c.teach,)),
        "safety_status_bits": ("UINT32", lambda c: (STOPS[c.stop],)),
        "runtime_state": ("UINT32", lambda c: (c.runtime_state,)),
        "speed_scaling": ("DOUBLE", lambda c: (c.speed_fraction,)),
        "target_speed_fraction": ("DOUBLE", lambda c: (c.speed_fraction,)),
        "payload": ("DOUBLE", lambda c: (c.payload_kg,)),
        "payload_cog": ("VECTOR3D", lambda c: c.payload_m),
    }
    | {f"output_int_register_{i}": ("INT32", lambda c, i=i: (c.int_out[i],)) for i in range(48)}
)


class Client:
    """`read` when it has sent something, `tick` once a cycle."""

    def __init__(self, link: socket.socket, controller):
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._link, self._controller = link, controller
        self._received = b""
        self._outputs: list[str] = []
        self._inputs: dict[int, list[str]] = {}
        self._started, self._every, self._cycles, self._sent_s = False, 1, 0, time.monotonic()
        self._out: deque[tuple[float, bytes]] = deque()  # when it is due, and what
        self._in: deque[tuple[float, int, bytes]] = deque()

    @property
    def claimed(self) -> set[str]:
        """Inputs that no other client may set."""
        return {name for names in self._inputs.values() for name in names}

    def read(self) -> bool:
        """Take what came; False when the client has gone."""
        try:
            more = self._link.recv(65536)
        except OSError:
            return False
        self._received += more
        while len(self._received) >= 3:
            size, kind = struct.unpack_from(">HB", self._received)
            if len(self._received) < size:
                break
            payload, self._received = self._received[3:size], self._received[size:]
            self._in.append((time.monotonic() + self._controller.delay_s, kind, payload))
        self._take()
        return bool(more)

    def tick(self) -> None:
        """Send the state, unless it is lost or this client wants fewer."""
        self._take()
        self._cycles += 1
        if self._started and self._cycles % self._every == 0 and random.random() >= self._controller.loss:
            values = [v for name in self._outputs for v in OUTPUTS[name][1](self._controller)]
            formats = "".join(CODES[OUTPUTS[name][0]] for name in self._outputs)
            if self._controller.spoils == "nan":
                values = [float("nan") if isinstance(value, float) else value for value in values]
            state = struct.pack(f">B{formats}", 1, *values)
            if self._controller.spoils == "text":
                self._send("M", b"\1a\1b\1")
            else:
                self._send("U", state[:-4] if self._controller.spoils == "short" else state)
            self._sent_s = time.monotonic()
        while self._out and self._out[0][0] <= time.monotonic():
            with contextlib.suppress(OSError):
                self._link.sendall(self._out.popleft()[1])

    def _take(self) -> None:
        while self._in and self._in[0][0] <= time.monotonic():
            _, kind, payload = self._in.popleft()
            self._obey(chr(kind), payload)

    def _send(self, kind: str, payload: bytes) -> None:
        package = struct.pack(">HB", 3 + len(payload), ord(kind)) + payload
        delay_s = self._controller.delay_s
        if delay_s:
            self._out.append((time.monotonic() + delay_s, package))
        else:
            with contextlib.suppress(OSError):
                self._link.sendall(package)

    def _obey(self, kind: str, payload: bytes) -> None:
        if kind == "V":
            self._send("V", b"\1" if payload == b"\0\2" else b"\0")
        elif kind == "v":
            self._send("v", struct.pack(">4I", *self._controller.version[:2], 0, 0))
        elif kind == "O":
            (hz,), names = struct.unpack_from(">d", payload), payload[8:].decode().strip(",").split(",")
            kinds = [OUTPUTS[name][0] if name in OUTPUTS else "NOT_FOUND" for name in names]
            self._outputs, self._every = names, max(1, round(1 / CYCLE_S / hz))
            self._send("O", b"\1" + ",".join(kinds).encode())
        elif kind == "I":
            names = payload.decode().strip(",").split(",")
            recipe = len(self._inputs) + 1
            self._inputs[recipe] = names
            taken = {name for other in self._controller.clients if other is not self for name in other.claimed}
            kinds = ["IN_USE" if name in taken else INPUTS.get(name, "NOT_FOUND") for name in names]
            self._send("I", bytes([recipe]) + ",".join(kinds).encode())
        elif kind == "S":
            self._started = True
            self._send("S", b"\1")
        elif kind == "P":
            self._started = False
            self._send("P", b"\1")
        elif kind == "U":
            names = self._inputs[payload[0]]
            values = struct.unpack(">" + "".join(CODES[INPUTS[name]] for name in names), payload[1:])
            self._controller.hear(dict(zip(names, values, strict=True)), self._sent_s)
