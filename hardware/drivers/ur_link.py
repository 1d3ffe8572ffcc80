"""Three sockets of a UR5e: RTDE for states and set-points, its dashboard, and where programs go."""

import contextlib
import socket
import struct
import time

import numpy as np

from hardware.drivers import DriverError
from hardware.drivers.ur_packets import HEADER, INPUTS, OUTPUTS, Said, pack_inputs, package, unpack_state
from hardware.types import Array

RTDE_PORT, SCRIPT_PORT, DASHBOARD_PORT = 30004, 30002, 29999
CONNECT_S, ANSWER_S = 3.0, 3.0  # for a port to open, and for the whole of each answer, whatever else comes meanwhile
LONGEST_LINE = 1000  # bytes of the dashboard's
SILENT_S = 0.3  # without a state for so long the link is lost
OLDEST, NEWEST = (5, 6), (5, 99)  # the first that says whether it is in remote control; PolyScope X has no dashboard


class Rtde:
    """States and set-points at the rate of the arm. Every method raises OSError where the link is broken."""

    def __init__(self, host: str):
        """Connect and agree on what is exchanged; DriverError for a controller that does not have it."""
        self._address, self._received = f"port {RTDE_PORT} of {host}", b""
        self._socket = _open(host, RTDE_PORT)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._ask("V", "does it speak version 2 of RTDE", struct.pack(">H", 2)) != b"\1":
                raise DriverError("its controller does not speak version 2 of RTDE")
            major, minor, fix, _ = struct.unpack(">4I", self._ask("v", "which PolyScope is it"))
            self.version = f"{major}.{minor}.{fix}"  # of PolyScope
            if not OLDEST <= (major, minor) <= NEWEST:
                raise DriverError(f"PolyScope is {self.version}: allowed is 5.6 or later, below 10")
            self._set_up("O", "may we have its states", struct.pack(">d", 500.0), OUTPUTS)
            self._recipe = self._set_up("I", "may we set its registers", b"", INPUTS)
            if self._ask("S", "does it begin to send states") != b"\1":
                raise DriverError("its controller does not start to send states")
        except (DriverError, OSError):
            self._socket.close()
            raise
        except (struct.error, ValueError, IndexError) as error:
            self._socket.close()
            raise DriverError(f"its controller answers otherwise than RTDE does ({error})") from error

    def receive(self) -> Said:
        """The newest state, for which it waits; what else comes does not count."""
        newest, until_s = None, time.monotonic() + SILENT_S
        while newest is None:
            self._received += _receive(self._socket, until_s, f"no state for {SILENT_S:g} s")
            while (taken := self._take()) is not None:
                if taken[0] == ord("U"):
                    newest = taken[1]
        try:
            said = unpack_state(newest)
        except (struct.error, ValueError) as error:
            raise ConnectionError(f"a state of {len(newest)} bytes came") from error
        if not np.isfinite([said.q, said.qd]).all():
            raise ConnectionError("its positions or speeds are not finite")
        return said

    def send(self, session: int, count: int, q: Array) -> None:
        """The `count`-th set-points `q` (6,), rad, for the program of `session`."""
        self._socket.settimeout(SILENT_S)
        self._socket.sendall(pack_inputs(self._recipe, session, count, q))

    def close(self) -> None:
        self._socket.close()

    def _set_up(self, kind: str, question: str, before: bytes, fields: dict[str, str]) -> int:
        """Number of the recipe."""
        said = self._ask(kind, question, before + ",".join(fields).encode())
        kinds = said[1:].decode().split(",")
        for name, wanted, has in zip(fields, fields.values(), kinds, strict=True):
            if has == "IN_USE":
                raise DriverError(f"{name} is in use: by a fieldbus, or by another program")
            if has != wanted:
                raise DriverError(f"{name} is {has}, not {wanted}")
        return said[0]

    def _ask(self, kind: str, question: str, payload: bytes = b"") -> bytes:
        """The answer to a package of the type `kind`, within `ANSWER_S`; `question` says in words what is asked."""
        until_s = time.monotonic() + ANSWER_S
        self._socket.settimeout(ANSWER_S)
        self._socket.sendall(package(kind, payload))
        while True:
            while (taken := self._take()) is not None:
                if taken[0] == ord(kind):
                    return taken[1]
            self._received += _receive(
                self._socket, until_s, f"{self._address} did not answer {question!r} within {ANSWER_S:g} s"
            )

    def _take(self) -> tuple[int, bytes] | None:
        """Type and payload of the oldest whole package that came."""
        if len(self._received) < HEADER.size:
            return None
        size, kind = HEADER.unpack_from(self._received)
        if size < HEADER.size:
            raise ConnectionError(f"a package of {size} bytes came")
        if len(self._received) < size:
            return None
        payload, self._received = self._received[HEADER.size : size], self._received[size:]
        return kind, payload


class Dashboard:
    """Questions to the dashboard server; OSError where the link is broken."""

    def __init__(self, host: str):
        self._address, self._received = f"port {DASHBOARD_PORT} of {host}", b""
        self._socket = _open(host, DASHBOARD_PORT)
        try:
            self._line("is it the dashboard server")  # which greets
        except OSError:
            self._socket.close()
            raise

    def ask(self, question: str) -> str:
        self._socket.settimeout(ANSWER_S)
        self._socket.sendall(f"{question}\n".encode())
        return self._line(question)

    def _line(self, question: str) -> str:
        """The answer, a line within `ANSWER_S`."""
        until_s = time.monotonic() + ANSWER_S
        while b"\n" not in self._received:
            self._received += _receive(
                self._socket, until_s, f"{self._address} did not answer {question!r} within {ANSWER_S:g} s"
            )
            if len(self._received) > LONGEST_LINE:
                raise ConnectionError(f"{self._address} is no dashboard server: it says {self._received[:20]!r} ...")
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace").strip()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def send_program(host: str, text: str) -> socket.socket:
    """Have the controller run a program; keep the socket open until it does."""
    link = _open(host, SCRIPT_PORT)
    link.sendall(text.encode())
    return link


def _open(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), CONNECT_S)
    except OSError as error:
        raise ConnectionError(f"port {port}: {error.strerror or error}") from error


def _receive(link: socket.socket, until_s: float, otherwise: str) -> bytes:
    """What came, by `until_s` (monotonic) at the latest; TimeoutError with `otherwise` where nothing did."""
    began_s = time.monotonic()
    try:
        if began_s >= until_s:
            raise TimeoutError
        link.settimeout(until_s - began_s)
        more = link.recv(65536)
    except TimeoutError:
        raise TimeoutError(otherwise) from None
    if not more:
        raise ConnectionError("closed by the arm's controller")
    return more
