"""A terminal that closes: what is printed after it must not end the work that is left."""

import os
import pty
import signal
import sys
from pathlib import Path

PROGRAM = """
import sys, time
from phalanx import cli
cli._look_after_signals()
try:
    print("ready", flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    print("stopping", file=sys.stderr, flush=True)
    print("result", flush=True)
    open(sys.argv[1], "w").write("landed")
"""


def test_a_closed_terminal_lets_the_program_end_in_order(tmp_path: Path) -> None:
    landed = tmp_path / "landed"
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored, as in the background of a shell
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # else ignored, as under nohup
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, str(landed)])
    heard = b""
    while b"ready" not in heard:
        heard += os.read(terminal, 1000)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert landed.exists() and status == 0
