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
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

ESTOP = "estop"
PREFIX = "ph"  # with domain and robot 107 bytes at most, which is all that such a name has
LONGEST = 4096  # bytes of an order or an answer
ENDS_WITHIN_S = 2.0
MOST_WAITING = 1000  # orders of one robot; more are dropped
ON_LINUX = sys.platform == "linux"
SEND_WITHIN = struct.pack("ll", 0, 200_000)  # s and us: others may have filled its queue, which holds ten or so
CREDENTIALS = struct.Struct("3i")  # of a sender, by the kernel: process, user, group


class Outcome(NamedTuple):
    """What came of an order."""

    done: bool
    said: str = ""  # why it was refused, or that there was nothing to do


class LocalOrders:
    """Receives the orders for one robot until closed, in a thread of its own."""

    def __init__(self, domain: int, robot: str, serve: Callable[[str, float], Outcome]):
        """`serve(what, sent_s)` does what is asked and says what came of it; `sent_s` is monotonic, as all times here.

        The first shield of a name has the orders.
        """
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
        waiting: deque[_Order] = deque()
        with suppress(OSError):  # closed
            while not self._closed:
                self._collect(waiting)
                if waiting:
                    self._say(waiting.popleft(), self._serve)

    def _collect(self, waiting: deque["_Order"]) -> None:
        """Take what has come, and wait where nothing is waiting. A stop is first, and nothing from before it is done.

        Each order takes a cycle of the shield: who sends many must not keep a stop of others waiting.
        """
        for _ in range(MOST_WAITING):
            try:
                said, sender, is_trusted = _receive(self._socket, socket.MSG_DONTWAIT if waiting else 0)
            except BlockingIOError:
                return
            if (order := _read(said, sender) if is_trusted else None) is None:
                continue
            if order.what == ESTOP:
                while waiting and waiting[-1].what != ESTOP:
                    before = waiting.pop()
                    self._say(before, lambda what, sent_s: Outcome(False, f"{what}: stopped"))
                waiting.append(order)
                return
            if len(waiting) < MOST_WAITING:
                waiting.append(order)

    def _say(self, order: "_Order", serve: Callable[[str, float], Outcome]) -> None:
        if time.monotonic() > order.until_s:
            return
        answer = json.dumps([order.what, *serve(order.what, order.sent_s)]).encode()
        with suppress(OSError, TypeError):  # who asked waits no more, does not read, or has no name to answer to
            self._socket.sendto(answer, socket.MSG_DONTWAIT, order.sender)


class _Order(NamedTuple):
    what: str
    sent_s: float
    until_s: float  # who asked has given up then. But a stop is never too late
    sender: Any


def _read(said: bytes, sender: Any) -> _Order | None:
    """The order of a datagram; None for rubbish, which an empty one is too."""
    with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError):
        order = json.loads(said)
        until_s = inf if order["what"] == ESTOP else float(order["until_s"])
        return _Order(str(order["what"]), float(order.get("sent_s", time.monotonic())), until_s, sender)
    return None


def robots_here(domain: int) -> list[str]:
    """Robots of `domain` that take orders on this computer."""
    names = (line.rpartition(f"@{PREFIX}/{domain}/") for line in _sockets())
    return sorted(robot for _, here, robot in names if here and robot)


def domains_here() -> dict[str, list[int]]:
    """ROS domains in which each robot takes orders on this computer, by name."""
    found: dict[str, list[int]] = {}
    for line in _sockets():
        _, here, place = line.rpartition(f"@{PREFIX}/")
        domain, _, robot = place.partition("/")
        if here and robot and domain.isdecimal():
            found.setdefault(robot, []).append(int(domain))
    return found


def ask_here(what: str, robots: Sequence[str], domain: int, within_s: float) -> dict[str, Outcome]:
    """Ask those of `robots` whose shields are on this computer; what came of it, of each that answers `within_s`."""
    answers: dict[str, Outcome] = {}
    if not ON_LINUX:
        return answers
    until_s = time.monotonic() + within_s
    order = json.dumps({"what": what, "sent_s": time.monotonic(), "until_s": until_s}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        _ask_for_senders(own)
        own.bind("")  # the kernel chooses a name, to answer to
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, SEND_WITHIN)
        asked: dict[Any, str] = {}
        for robot in robots:
            with suppress(OSError):  # not here, or its queue stays full
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


def _receive(own: socket.socket, flags: int = 0) -> tuple[bytes, Any, bool]:
    """A datagram, where it came from, and whether a process of this user, or of root, has sent it."""
    said, extras, _, sender = own.recvmsg(LONGEST, socket.CMSG_SPACE(CREDENTIALS.size), flags)
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
