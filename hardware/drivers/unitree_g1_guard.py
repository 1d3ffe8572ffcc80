"""Damps a G1 whose driver has died or stands still, from a process of its own.

What a G1 does without commands is not published.

`python -m hardware.drivers.unitree_g1_guard INTERFACE DOMAIN TOKEN MODE_MACHINE` waits for the end of its input.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from hardware.drivers.unitree_g1_packets import damping_bytes

DAMPS_S = 30.0  # for so long it says so
STILL_S = 0.3  # without a word of a driver that is there; longer than that one needs to know by itself
BEAT_S = 0.05  # between two words of a driver
PERIOD_S = 0.002
ENDS_S = 3.0
WATCH, REST, READY = b"1", b"0", b"ready\n"


class Guard:
    """The driver's side of it."""

    def __init__(self, interface: str, domain: int, token: str, mode_machine: int):
        """`token` of the driver's link, whose commands are not another program's."""
        command = [sys.executable, "-m", __name__, interface, str(domain), token, str(mode_machine)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True, bufsize=0
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)  # a guard that stands still must not hold the driver up
        self._on, self._beat_s = False, 0.0

    def is_ready(self, within_s: float) -> bool:
        """Whether it has begun to wait; the robot hears it then."""
        out = self._process.stdout
        return out is not None and bool(select.select([out], [], [], within_s)[0]) and out.readline() == READY

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def watch(self, on: bool) -> None:
        """Whether the robot is to be damped when this process ends, or says nothing for `STILL_S`, see `beat`."""
        self._on = on
        self._say()

    def beat(self, now_s: float) -> None:
        """This process runs, at `now_s` (monotonic)."""
        if now_s - self._beat_s > BEAT_S:
            self._beat_s = now_s
            self._say()

    def _say(self) -> None:
        with suppress(OSError):
            if self.is_there and self._process.stdin is not None:
                self._process.stdin.write(WATCH if self._on else REST)

    def close(self) -> None:
        """End it, without a word to the robot."""
        self.watch(False)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


def main() -> None:
    """Damp the robot when the input ends or is silent, if it was last asked to watch."""
    from hardware.drivers.unitree_g1_dds import GUARD, Link

    interface, domain, token, mode_machine = sys.argv[1:]
    link, last = Link(interface, int(domain), token, GUARD), REST
    while not link.is_heard():
        time.sleep(0.01)
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    command = damping_bytes(int(mode_machine))
    while said := _next(STILL_S if last == WATCH else None, lambda: link.send(command)):
        last = said[-1:]
    if last == WATCH:
        _damp(lambda: link.send(command), lambda: False)
    link.close()


def _next(within_s: float | None, damp: Callable[[], None]) -> bytes:
    """What the driver says next, empty when it has ended; where that takes longer, the robot is damped meanwhile."""
    if not _has_input(within_s):
        _damp(damp, lambda: _has_input(0.0))
    return os.read(0, 64)


def _has_input(within_s: float | None) -> bool:
    return bool(select.select([0], [], [], within_s)[0])


def _damp(damp: Callable[[], None], until: Callable[[], bool]) -> None:
    """For `DAMPS_S`, or `until` that is so."""
    until_s = time.monotonic() + DAMPS_S
    while time.monotonic() < until_s and not until():
        damp()
        time.sleep(PERIOD_S)


if __name__ == "__main__":
    main()
