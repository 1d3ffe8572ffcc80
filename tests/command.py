"""The command as a person types it: in this process, which has loaded the libraries already, or in one of its own."""

import io
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from patience import patience

from phalanx.cli import main


def here(*args: str, cwd: Path | None = None, stderr: io.StringIO | None = None) -> subprocess.CompletedProcess[str]:
    """The command in this process, with a `stderr` of its own."""
    out, err, on_sigterm = io.StringIO(), stderr or io.StringIO(), signal.getsignal(signal.SIGTERM)
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(cwd or "."), pytest.raises(SystemExit) as exit:
            main(args)
    finally:
        signal.signal(signal.SIGTERM, on_sigterm)
    return subprocess.CompletedProcess(args, exit.value.code, out.getvalue(), err.getvalue())


def phalanx(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "phalanx", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=patience(120))


def assert_one_line_error(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("phalanx: ")]
    assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    for word in words:
        assert word in lines[0]
