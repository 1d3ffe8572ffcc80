"""The command as a person types it, judged by what it prints and how it exits.

A process of its own is started where that makes a difference; elsewhere the command runs in this one, which has loaded
the libraries already.
"""

import io
import json
import resource
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from bundle_fixture import save_policy
from patience import patience

from phalanx.cli import main
from phalanx.commands import COMMANDS


def here(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in this process."""
    out, err, on_sigterm = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(cwd or "."), pytest.raises(SystemExit) as exit:
            main(args)
    finally:
        signal.signal(signal.SIGTERM, on_sigterm)
    return subprocess.CompletedProcess(args, exit.value.code, out.getvalue(), err.getvalue())


def phalanx(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "phalanx", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=patience(120))


def cpu_s() -> float:
    """Computing time of the processes that have ended: what waiting there was is this machine's."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "policy.onnx"
    save_policy(path)
    return path


def assert_one_line_error(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("phalanx: ")]
    assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    for word in words:
        assert word in lines[0]


def test_help_is_quick_and_names_every_command():
    phalanx("--help")  # bytecode is written once
    times = []
    for _ in range(3):
        start = cpu_s()
        done = phalanx("--help")
        times.append(cpu_s() - start)
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)
    assert min(times) < 0.5


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself_and_its_arguments(name):
    done = here(name, "--help")
    assert done.returncode == 0
    assert "usage: phalanx" in done.stdout
    for line in done.stdout.splitlines():  # every option has a sentence, not only a default
        assert not line.strip().startswith("(default"), line


def test_help_loads_no_heavy_library():
    heavy = ("torch", "mujoco", "rclpy", "onnxruntime")
    code = f"import sys, phalanx.arguments; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_unknown_command_task_and_robot_name_the_nearest():
    assert_one_line_error(phalanx("trian"), "'trian'", "did you mean 'train'")
    assert_one_line_error(here("train", "swarm-swop"), "'swarm-swop'", "did you mean 'swarm-swap'")
    assert_one_line_error(here("play", "--agent", "zero", "--task", "swap"), "'swap'", "swarm-swap")
    assert_one_line_error(here("tasks", "hovver"), "'hovver'", "did you mean 'hover'")
    assert_one_line_error(here("robots", "pandas"), "'pandas'", "did you mean 'panda'")


def test_bad_policy_files_are_refused_with_the_reason(policy, tmp_path):
    assert_one_line_error(here("inspect", str(tmp_path / "none.onnx")), "none.onnx")
    whole = policy.read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(whole[: len(whole) // 2])
    assert_one_line_error(here("inspect", str(cut)), "cut.onnx")
    touched = bytearray(whole)
    touched[len(whole) // 3] ^= 1
    tampered = tmp_path / "tampered.onnx"
    tampered.write_bytes(touched)
    for command in ("inspect", "verify", "deploy"):
        assert_one_line_error(here(command, str(tampered)), "tampered.onnx")


def test_a_task_without_a_policy_and_a_file_given_twice_are_named(policy):
    assert_one_line_error(here("deploy", "co-carry"), "no policy ships for 'co-carry'")
    assert_one_line_error(here("deploy", str(policy), str(policy)), "given twice")


def test_export_of_a_folder_without_checkpoint_says_so(tmp_path):
    assert_one_line_error(here("export", str(tmp_path)), "checkpoint")


@pytest.mark.slow
def test_json_on_stdout_is_json_and_nothing_else(policy):
    lists = (["tasks"], ["tasks", "reach"], ["robots"], ["robots", "g1"], ["inspect", str(policy)])
    played = ["play", "--agent", "zero", "--robots", "2", "--no-shield"]  # they fall, which is soon over
    for args in (*lists, played, ["eval", "--agent", "zero", "--episodes", "2", "--no-shield"]):
        done = (phalanx if args is played else here)(*args, "--json")
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


def test_inspect_tells_a_person_what_the_policy_needs_and_does(policy):
    text = here("inspect", str(policy)).stdout
    for word in (
        "swarm-swap",
        "crazyflie",
        "50 Hz",
        "base_lin_vel",
        "m/s",
        "goal_pos",
        "-3..3",
        "thrust",
        "last_action",
    ):
        assert word in text, word


def test_a_policy_that_its_verification_refused_is_called_so(tmp_path):
    zoo = Path(__file__).parent.parent / "zoo"
    for name in ("velocity.onnx", "velocity.json"):
        (tmp_path / name).write_bytes((zoo / name).read_bytes())
    why = "refused by success of one robot with shield: 0.841, at least 0.9"
    assert why in here("inspect", "velocity.onnx", cwd=tmp_path).stdout
    done = here("deploy", "velocity.onnx", "--kill-after-s", "3", cwd=tmp_path)  # no flight, but a warning before
    assert done.returncode == 2 and "kill_after_s = 3" in done.stderr
    record = json.loads(here("inspect", "velocity.onnx", "--json", cwd=tmp_path).stdout)["verification"]
    assert record["verdict"] == "refused"
    (tmp_path / "velocity.json").write_bytes((zoo / "hover.json").read_bytes())  # of another file
    assert "verification" not in here("inspect", "velocity.onnx", cwd=tmp_path).stdout
    (tmp_path / "velocity.json").write_text(json.dumps({"fingerprint": record["fingerprint"]}))  # of its flight
    assert "verification" not in here("inspect", "velocity.onnx", cwd=tmp_path).stdout


@pytest.mark.slow
def test_play_draws_a_page_a_picture_and_a_video(tmp_path):
    for run, name, task, *options in (
        (here, "flight.html", "swarm-swap"),
        (phalanx, "flight.png", "hover"),  # of its own: only so is the way to draw chosen before MuJoCo is loaded
        (here, "flight.gif", "hover", "--size", "320x180", "--json"),
    ):
        zero = ("--agent", "zero", "--no-shield")  # robots fall, which is soon drawn
        done = run("play", task, *zero, *options, "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    assert "cf4" in (tmp_path / "flight.html").read_text()
    from PIL import Image

    (episode,) = json.loads(done.stdout)["episodes"]
    film = Image.open(tmp_path / "flight.gif")
    assert film.n_frames == pytest.approx(25 * episode["duration_s"] + 1, abs=1) and film.size == (320, 180)
    assert len(set(Image.open(tmp_path / "flight.png").convert("RGB").resize((64, 48)).getdata())) > 20
    assert_one_line_error(here("play", "--agent", "zero", "--out", str(tmp_path / "flight.mp3")), ".html")


def test_a_task_is_named_in_front_or_by_a_flag():
    figures = []
    for args in (["hover"], ["--task", "hover"], ["hover", "--task", "hover"]):
        done = here("play", *args, "--agent", "zero", "--no-shield", "--json")
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(done.stdout))
    assert figures[0] == figures[1] == figures[2]
    assert figures[0]["task"] == "hover" and figures[0]["episodes"][0]["min_separation_m"] is None
    assert_one_line_error(here("play", "hover", "--task", "reach", "--agent", "zero"), "hover or reach")


def test_a_task_without_a_shipped_policy_says_what_can_play_it(tmp_path):
    done = here("play", "pick-place", cwd=tmp_path)
    assert_one_line_error(done, "'pick-place'", "--agent zero|random|baseline")


def test_a_policy_file_is_played_in_its_own_task_only(tmp_path):
    zoo = Path(__file__).parent.parent / "zoo" / "hover.onnx"
    assert_one_line_error(here("play", str(zoo), "--task", "push"), "'hover', not for 'push'")
    assert here("play", "hover", cwd=tmp_path).returncode == 0  # the one that ships, from anywhere


@pytest.mark.slow
def test_words_fit_the_class_of_robot():
    arm = here("eval", "reach", "--agent", "zero", "--episodes", "2", "--no-shield").stdout
    assert "one robot" in arm and "collision" not in arm and "closest" not in arm and "shield" not in arm
    team = here("eval", "swarm-swap", "--agent", "baseline", "--episodes", "2").stdout
    assert "4 robots" in team and "closest" in team and "shield intervened" in team


def test_tasks_and_robots_tell_a_person_what_they_are_made_of():
    reach = " ".join(here("tasks", "reach").stdout.split())
    for word in ("goal_pos", "wxyz", "joint_vel", "joint_friction", "scale 0.5 to 1.5", "Held for the last 0.5 s"):
        assert word in reach, word
    panda = here("robots", "panda").stdout
    for word in ("joint4", "-3.072", "libfranka", "tool"):
        assert word in panda, word


@pytest.mark.slow
def test_baseline_collides_without_the_shield_and_not_with_it():
    def least(*args: str) -> float:
        done = here("eval", "--agent", "baseline", "--episodes", "8", "--json", *args)  # eight at once
        (team,) = json.loads(done.stdout)["teams"]
        return team["min_separation_m"]

    assert least("--no-shield") < 0.16 < least()


@pytest.mark.slow
def test_interrupted_training_leaves_a_checkpoint_that_resumes(tmp_path):
    run = tmp_path / "run"
    args = ["train", "swarm-swap", "--out", str(run), "--num-envs", "8", "--steps"]
    command = [sys.executable, "-m", "phalanx", *args, str(10**8)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (run / "tensorboard").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(patience(60)) == 130
    assert (run / "checkpoint.pt").exists()
    done = here(*args, "3000", "--resume", "--json")
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


def test_a_second_signal_at_the_end_is_no_traceback():
    """As of `timeout`, which signals a process and its group: it comes while the first one is answered."""
    code = (
        "import os, signal, sys, phalanx.arguments\n"
        "from phalanx.cli import main\n"
        "class Stderr:\n"
        "    def write(self, text): os.write(2, text.encode()); os.kill(os.getpid(), signal.SIGTERM)\n"
        "    def flush(self): pass\n"
        "sys.stderr = Stderr()\n"
        "phalanx.arguments.dispatch = lambda _: signal.raise_signal(signal.SIGINT)\n"
        "main(['tasks'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "phalanx: interrupted")


def test_who_flies_robots_goes_on_without_a_reader(tmp_path):
    code = (
        "import sys; from pathlib import Path; from phalanx.console import out, err, outlive_readers\n"
        "outlive_readers(); sys.stdin.read()\n"
        "for _ in range(3): out.print('x' * 100_000); err.print('x' * 100_000)\n"
        f"Path({str(tmp_path / 'landed')!r}).touch()"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)
    process.stdout.close()
    process.stderr.close()
    process.stdin.close()
    assert process.wait(patience(30)) == 0 and (tmp_path / "landed").exists()


def test_a_missing_library_names_the_extra_to_install():
    code = "import sys; sys.modules['torch'] = None; from phalanx.cli import main; main(['train', 'swarm-swap'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert_one_line_error(done, "torch", "phalanx[train]")


def test_a_video_without_its_encoder_names_the_extra_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = here("play", "hover", "--agent", "zero", "--out", str(tmp_path / "x.mp4"))
    assert_one_line_error(done, "ffmpeg", "phalanx[video]")


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_flight_leaves_no_process_behind(tmp_path, end):
    zoo = Path(__file__).parent.parent / "zoo" / "swarm-swap.onnx"
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
