"""Damps a G1 whose driver has died, from a process of its own: what a G1 does without commands is not published.

`python -m hardware.drivers.unitree_g1_guard INTERFACE DOMAIN TOKEN MODE_MACHINE` waits for the end of its input.
"""

import os
import select
import subprocess
import sys
import time

from hardware.drivers.unitree_g1_packets import damping_bytes

DAMPS_S = 30.0  # for so long it says so
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

    def is_ready(self, within_s: float) -> bool:
        """Whether it has begun to wait; the robot hears it then."""
        out = self._process.stdout
        return out is not None and bool(select.select([out], [], [], within_s)[0]) and out.readline() == READY

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def watch(self, on: bool) -> None:
        """Whether the robot is to be damped when this process ends."""
        if self.is_there and self._process.stdin is not None:
            self._process.stdin.write(WATCH if on else REST)

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
    """Damp the robot when the input ends, if it was last asked to watch."""
    from hardware.drivers.unitree_g1_dds import GUARD, Link

    interface, domain, token, mode_machine = sys.argv[1:]
    link, last = Link(interface, int(domain), token, GUARD), REST
    while not link.is_heard():
        time.sleep(0.01)
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    while said := os.read(0, 64):
        last = said[-1:]
    if last == WATCH:
        command, until_s = damping_bytes(int(mode_machine)), time.monotonic() + DAMPS_S
        while time.monotonic() < until_s:
            link.send(command)
            time.sleep(PERIOD_S)
    link.close()


if __name__ == "__main__":
    main()
