"""Orders of a person at the computer of a robot's shield, by the kernel instead of the network.

A stop by a service waits for the start of the middleware and for its discovery: seconds where the machine is busy.
These sockets have names of the kernel's own, as in `lifecycle.claims`, and need few imports. Orders and answers of
other users' processes do not count. Linux only: elsewhere, from other computers and for other users, the services do
the same.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ESTOP = "estop"
PREFIX = "ph"  # with domain and robot 107 bytes at most, which is all that such a name has
LONGEST = 4096  # bytes of an order or an answer
ENDS_WITHIN_S = 2.0
ON_LINUX = sys.platform == "linux"
CREDENTIALS = struct.Struct("3i")  # of a sender, by the kernel: process, user, group


class Outcome(NamedTuple):
    """What came of an order."""

    done: bool
    said: str = ""  # why it was refused, or that there was nothing to do


class LocalOrders:
    """Receives the orders for one robot until closed, in a thread of its own."""

    def __init__(self, domain: int, robot: str, serve: Callable[[str], Outcome]):
        """`serve(what)` does what is asked and says what came of it. The first shield of a name has the orders."""
        self.is_open, self._closed = False, False
        self._serve, self._socket = serve, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._receive, name="orders", daemon=True)
        if ON_LINUX:
            with suppress(OSError):  # another one's, or a name that is too long
                _ask_for_senders(self._socket)
                self._socket.bind(_address(domain, robot))
                self.is_open = True
        if self.is_open:
            self._thread.start()
        else:
            self._socket.close()

    def close(self) -> None:
        """Receive no more; the name is free at once."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends the wait of the thread, which keeps the name
            self._thread.join(ENDS_WITHIN_S)
        self._socket.close()

    def _receive(self) -> None:
        with suppress(OSError):  # closed
            while not self._closed:  # an empty datagram is rubbish as any other
                said, sender, is_trusted = _receive(self._socket)
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    order = json.loads(said) if is_trusted else {}
                    # Who asked has given up then; but a stop is never too late.
                    if order["what"] == ESTOP or time.monotonic() < order["until_s"]:
                        answer = json.dumps([order["what"], *self._serve(order["what"])]).encode()
                        with suppress(OSError):  # who asked waits no more, or does not read
                            self._socket.sendto(answer, socket.MSG_DONTWAIT, sender)


def robots_here(domain: int) -> list[str]:
    """Robots of `domain` that take orders on this computer."""
    names = (line.rpartition(f"@{PREFIX}/{domain}/") for line in _sockets())
    return sorted(robot for _, here, robot in names if here and robot)


def ask_here(what: str, robots: Sequence[str], domain: int, within_s: float) -> dict[str, Outcome]:
    """Ask those of `robots` whose shields are on this computer; what came of it, of each that answers `within_s`."""
    answers: dict[str, Outcome] = {}
    if not ON_LINUX:
        return answers
    until_s = time.monotonic() + within_s
    order = json.dumps({"what": what, "until_s": until_s}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        _ask_for_senders(own)
        own.bind("")  # the kernel chooses a name, to answer to
        own.setblocking(False)
        asked: dict[Any, str] = {}
        for robot in robots:
            with suppress(OSError):  # not here, or its queue is full
                own.sendto(order, _address(domain, robot))
                asked[_address(domain, robot).encode()] = robot
        while len(answers) < len(asked) and (left_s := until_s - time.monotonic()) > 0:
            own.settimeout(left_s)
            with suppress(TimeoutError, ValueError, TypeError, RecursionError):
                said, sender, is_trusted = _receive(own)
                answered, *outcome = json.loads(said)
                if is_trusted and sender in asked and answered == what:
                    answers[asked[sender]] = Outcome(*outcome)
    return answers


def _ask_for_senders(own: socket.socket) -> None:
    """A name may be taken by anybody: the kernel is to say with each datagram whose it is."""
    own.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def _receive(own: socket.socket) -> tuple[bytes, Any, bool]:
    """A datagram, where it came from, and whether a process of this user, or of root, has sent it."""
    said, extras, _, sender = own.recvmsg(LONGEST, socket.CMSG_SPACE(CREDENTIALS.size))
    users = [
        CREDENTIALS.unpack(data)[1]
        for level, kind, data in extras
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) == CREDENTIALS.size
    ]
    return said, sender, any(user in (0, os.getuid()) for user in users)


def _address(domain: int, robot: str) -> str:
    return f"\0{PREFIX}/{domain}/{robot}"


def _sockets() -> list[str]:
    with suppress(OSError):
        return Path("/proc/net/unix").read_text(errors="replace").splitlines()
    return []
