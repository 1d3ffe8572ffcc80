"""Orders of a person at the computer of a robot's shield, by the kernel instead of the network.

A stop by a service waits for the start of the middleware and for its discovery: seconds where the machine is busy.
These sockets have names of the kernel's own, as in `lifecycle.claims`, and need few imports. Linux only: elsewhere, and
from other computers, the services do the same.
"""

import json
import socket
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


class Outcome(NamedTuple):
    """What came of an order."""

    done: bool
    said: str = ""  # why it was refused, or that there was nothing to do


class LocalOrders:
    """Receives the orders for one robot until closed, in a thread of its own."""

    def __init__(self, domain: int, robot: str, serve: Callable[[str], Outcome]):
        """`serve(what)` does what is asked and says what came of it. The first shield of a name has the orders."""
        self._serve, self._socket = serve, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._receive, name="orders", daemon=True)
        try:
            self._socket.bind(_address(domain, robot))
        except OSError:  # another one's, or a name that is too long
            self._socket.close()
            return
        self._thread.start()

    def close(self) -> None:
        """Receive no more; the name is free at once."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends the wait of the thread, which keeps the name
            self._thread.join(ENDS_WITHIN_S)
        self._socket.close()

    def _receive(self) -> None:
        with suppress(OSError):  # closed
            while received := self._socket.recvfrom(LONGEST):
                if not received[0]:
                    return
                with suppress(ValueError, KeyError, TypeError):
                    order = json.loads(received[0])
                    # Who asked has given up then; but a stop is never too late.
                    if order["what"] == ESTOP or time.monotonic() < order["until_s"]:
                        outcome = self._serve(order["what"])
                        with suppress(OSError):  # who asked waits no more
                            self._socket.sendto(json.dumps([order["what"], *outcome]).encode(), received[1])


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
        own.bind("")  # the kernel chooses a name, to answer to
        own.setblocking(False)
        asked: dict[Any, str] = {}
        for robot in robots:
            with suppress(OSError):  # not here, or its queue is full
                own.sendto(order, _address(domain, robot))
                asked[_address(domain, robot).encode()] = robot
        while len(answers) < len(asked) and (left_s := until_s - time.monotonic()) > 0:
            own.settimeout(left_s)
            with suppress(TimeoutError, ValueError, TypeError):
                said, sender = own.recvfrom(LONGEST)
                answered, *outcome = json.loads(said)
                if sender in asked and answered == what:
                    answers[asked[sender]] = Outcome(*outcome)
    return answers


def _address(domain: int, robot: str) -> str:
    return f"\0{PREFIX}/{domain}/{robot}"


def _sockets() -> list[str]:
    with suppress(OSError):
        return Path("/proc/net/unix").read_text().splitlines()
    return []
