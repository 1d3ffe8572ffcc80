"""The command under Ctrl-C, signals and readers that go away."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import here
from patience import patience
from places import ROOT, ZOO
from refused_policy import write_refused

from phalanx.console import err


@pytest.mark.slow
def test_interrupted_training_leaves_a_checkpoint_that_resumes(tmp_path):
    run = tmp_path / "run"
    args = ["train", "swarm-swap", "--out", str(run), "--num-envs", "8", "--steps", str(10**8)]
    command = [sys.executable, "-m", "phalanx", *args]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (run / "tensorboard").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(patience(60)) == 130
    assert (run / "checkpoint.pt").exists()
    done = here("train", "--resume", str(run), "--steps", "3000", "--no-onnx", "--no-film", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] is True


def test_ctrl_c_while_a_library_is_imported_is_one_line(tmp_path):
    press = (
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    raise ImportError"
    )
    (tmp_path / "tyro.py").write_text(press)  # as NumPy does: what is raised in its import is an ImportError
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from phalanx.cli import main; main(['tasks'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "phalanx: interrupted\n")


def test_ctrl_c_before_anything_else_is_imported_is_one_line(tmp_path):
    (tmp_path / "threading.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport nothing\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for start in (["-m", "phalanx"], ["-c", "from phalanx.__main__ import main; main()"]):
        done = subprocess.run([sys.executable, *start, "tasks"], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "phalanx: interrupted\n")


def test_a_second_signal_at_the_end_is_no_traceback():
    """As of `timeout`, which signals a process and its group: it comes while the first one is answered."""
    code = (
        "import os, signal, sys, phalanx.arguments\n"
        "from phalanx.cli import main\n"
        "class Stderr:\n"
        "    def write(self, text): os.write(2, text.encode()); os.kill(os.getpid(), signal.SIGTERM)\n"
        "    def flush(self): pass\n"
        "sys.stderr = Stderr()\n"
        "phalanx.arguments.dispatch = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "main(['tasks'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "phalanx: interrupted")


def test_who_flies_robots_goes_on_without_a_reader(tmp_path):
    code = (
        "import sys; from pathlib import Path; from phalanx.console import err, out, outlive_readers, print_json\n"
        "outlive_readers(); sys.stdin.read()\n"
        "for _ in range(3): out.print('x' * 100_000); err.print('x' * 100_000)\n"
        "print_json('x' * 100_000)\n"
        f"Path({str(tmp_path / 'landed')!r}).touch()"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)
    process.stdout.close()
    process.stderr.close()
    process.stdin.close()
    assert process.wait(patience(30)) == 0 and (tmp_path / "landed").exists()


class Gone(io.StringIO):
    """As stderr whose reader has gone, until somebody turns it to another file."""

    turned = False

    def write(self, text: str) -> int:
        if not self.turned:
            raise BrokenPipeError
        return super().write(text)

    def fileno(self) -> int:
        self.turned = True
        return os.open(os.devnull, os.O_WRONLY)


def test_deploy_is_not_ended_by_a_warning_that_has_no_reader(monkeypatch, tmp_path):
    """That its policy was refused is a warning; what it is asked for is an error, which comes later."""
    monkeypatch.delitem(vars(err), "on_broken_pipe", raising=False)
    done = here("deploy", str(write_refused(tmp_path)), "--kill-after-s", "3", stderr=Gone())
    assert done.returncode == 2 and "kill_after_s = 3" in done.stderr


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_flight_leaves_no_process_behind(tmp_path, end):
    zoo = ZOO / "swarm-swap.onnx"
    out = tmp_path / "flight"
    process = subprocess.Popen(
        [sys.executable, "-m", "phalanx", "deploy", str(zoo), "--robots", "2", "--out", str(out)],
        stderr=subprocess.PIPE,
        text=True,
    )
    listing = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children := listing.read_text().split()) < 6:  # recorder, robots, and two for each of two robots
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(end)
    assert process.wait(patience(30)) == 130
    deadline = time.monotonic() + patience(10.0)  # one only just born notices by itself that its parent has gone
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.1)
