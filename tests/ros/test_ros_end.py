"""A node's process ends after a signal, also when its main thread is past hearing one."""

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("rclpy")
from ros_nodes.lifecycle.processes import Processes
from ros_nodes.mission.run_team import CtrlC

HANGS = """
import time
from ros_nodes.lifecycle import host
host.ENDS_WITHIN_S = 0.3
interrupts = host.Interrupts(lambda: None)
print("ready", flush=True)
while True:
    time.sleep(20.0)  # the main thread hangs: it looks at no signal
"""


@pytest.mark.ros
def test_a_process_that_hangs_ends_soon_after_a_signal():
    process = subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.6)  # it does not end unasked
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10.0) == 1
    assert time.monotonic() - asked >= 0.3  # what goes well has its time


ENDS = """
import atexit, time
from ros_nodes.lifecycle.host import run_nodes

def make():
    raise ValueError("no such robot")

atexit.register(time.sleep, 60.0)  # in the place of a destructor of the middleware, which can wait for ever
run_nodes({"cf1": make})
"""


@pytest.mark.ros
def test_a_process_whose_nodes_have_ended_waits_for_no_destructor():
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=45)
    assert (done.returncode, done.stderr) == (2, "error: cf1: no such robot\n")


COUNTS = """
import os, signal, sys, time
presses = []
signal.signal(signal.SIGINT, lambda *_: presses.append(1))
print("ready", flush=True)
while len(presses) < {presses}:
    time.sleep(0.01)
{then}
"""


def test_processes_that_did_not_end_by_themselves_are_said_and_each_hears_every_ctrl_c(tmp_path):
    programs = {"first": (1, ""), "third": (3, ""), "never": (99, ""), "killed": (1, "os.kill(os.getpid(), 9)")}
    said: list[int] = []
    with Processes([], tmp_path, {}) as processes:
        for name, (presses, then) in programs.items():
            code = COUNTS.format(presses=presses, then=then)
            program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            assert program.stdout is not None and program.stdout.readline() == "ready\n"
            processes._running[name] = program
            processes.log_of(name).touch()
        watch, again = lambda: said.append(1), lambda: min(2, len(said) // 10)  # two more, some time later
        wrong = processes.end_all(list(programs), 4.0, signal.SIGINT, watch, again)
        assert len(processes) == 0
    assert wrong == {
        "never": "never did not end within 4 s and was killed",
        "killed": "killed ended with code -9: it was killed",
    }


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("fleet_recorder", "is not recorded; the robots go on"),
        ("simulated_robots", "obey no command"),
        ("cf1_shield", "it was killed"),
    ],
)
def test_the_end_of_a_process_of_the_whole_team_says_what_that_means(tmp_path, name, means):
    with Processes([], tmp_path, {}) as processes:
        processes._running[name] = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
        processes._running[name].wait()
        said = processes.why_ended(name)
        processes.forget(name)
    assert said.startswith(f"{name} ended with code -9: it was killed") and means in said
    assert said.endswith("it was killed") == (name == "cf1_shield")


OLD = "[ERROR] [17.2] [cf1.driver]: no answer within 3 s"
NEWS = "[INFO] [17.3] [cf1.shield]: cf1: ARMED -> STARTING: started on request"
RAISED = ["Traceback (most recent call last):", '  File "x.py", line 3, in f', "    g()", "ValueError: no such robot"]
FIRST = [
    "Traceback (most recent call last):",
    '  File "y.py", line 1, in h',
    "KeyError: 'cf1'",
    "During handling ..., ...",
]


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ([OLD, NEWS, *RAISED], RAISED[-1]),  # what it had reported before, and gone on, was said to be why
        ([*FIRST, *RAISED, NEWS], RAISED[-1]),
        ([*RAISED, OLD, NEWS], OLD),
        ([OLD, NEWS], OLD),
        (["[WARN] [17.1] [cf1.shield]: busy", NEWS], "[WARN] [17.1] [cf1.shield]: busy"),
        ([NEWS], NEWS),  # it was said to have printed nothing
        ([], "no output"),
    ],
)
def test_why_a_process_ended_is_the_exception_that_ended_it_then_an_error_then_what_it_said_last(
    tmp_path, printed, why
):
    code = f"print({chr(10).join(printed)!r}); raise SystemExit(1)"
    with Processes([], tmp_path, {}) as processes, processes.log_of("cf1_shield").open("wb") as log:
        processes._running["cf1_shield"] = subprocess.Popen([sys.executable, "-c", code], stdout=log)
        processes._running["cf1_shield"].wait()
        said = processes.why_ended("cf1_shield")
        processes.forget("cf1_shield")
    assert said == f"cf1_shield ended with code 1: {why}"


def test_the_first_ctrl_c_is_raised_and_what_comes_while_robots_land_is_counted():
    before = signal.signal(signal.SIGINT, ctrl_c := CtrlC())
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert ctrl_c.count == 3
    finally:
        signal.signal(signal.SIGINT, before)
