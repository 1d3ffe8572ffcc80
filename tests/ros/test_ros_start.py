"""How soon robots are armed, and what the processes that are forked for it look like from outside."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loaded import loaded_after
from patience import patience
from places import ZOO

from ros_nodes.lifecycle import fork_server
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.lifecycle.processes import ProcessError, Processes, free_domain_id, ros_environment
from ros_nodes.mission.deploy import CONFIG

pytestmark = pytest.mark.ros
SWAP = ZOO / "swarm-swap.onnx"
ARMED_S = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
PAID_ONCE = {"numpy", "onnxruntime", "rclpy", "rclpy.node", "ros_nodes.lifecycle.lifecycle_node"}  # imports of nodes


def test_four_robots_are_armed_within_five_seconds_of_the_command(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "phalanx", "deploy", str(SWAP), "--robots", "4", "--out", str(out)]
    machine, began_s = MachineLoad(), time.time()
    listed = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}  # each process prints what it imports
    with subprocess.Popen(
        command, cwd=tmp_path, env=listed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as deploy:
        try:
            while len(armed := armed_at(out / "logs")) < 4:
                assert deploy.poll() is None and time.time() < began_s + patience(60.0)
                time.sleep(0.01)
            cpu_s = used_cpu_s(deploy.pid)
            left = os.cpu_count() - machine.others(cpu_s) - machine.stolen()  # cores, for the robots
        finally:
            deploy.send_signal(signal.SIGINT)
            deploy.wait()
    armed_s, busy = max(armed) - began_s, max(os.getloadavg()[0] / os.cpu_count(), os.cpu_count() / max(left, 0.1))
    assert armed_s < ARMED_S * max(1.0, busy)
    logs = {file.name: imported(file.read_text()) for file in (out / "logs").iterdir()}
    assert len(logs) == 6 and all(logs.values()), logs
    assert not {name: twice for name, found in logs.items() if (twice := found & PAID_ONCE)}, "imports are paid once"


def test_a_node_does_not_load_the_rarer_half_of_numpy():
    assert loaded_after("import ros_nodes.nodes.shield_node", ("numpy.f2py", "numpy.ma", "numpy.testing")) == []


def armed_at(logs: Path) -> list[float]:
    said = "".join(file.read_text() for file in logs.glob("*shield*.log"))
    return [float(at_s) for at_s in re.findall(r"\[([\d.]+)\] \[\w+\.shield\]: \w+: DISARMED -> ARMED", said)]


def imported(log: str) -> set[str]:
    """The modules that a process imported itself: what it was forked from had the others."""
    return {name.strip() for name in re.findall(r"^import time: +\d+ \| +\d+ \|(.*)$", log, re.MULTILINE)}


def used_cpu_s(pid: int) -> float:
    """Processor time of a process and all that it started."""
    began = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS + sum(used_cpu_s(int(child)) for child in began)


def test_a_forked_process_is_a_child_as_any_other_one(tmp_path):
    with Processes([CONFIG], tmp_path, ros_environment(free_domain_id())) as processes:
        processes.start_host("both", ["cf1/policy", "cf2/policy"])
        pid, said = processes.pid("both"), processes.log_of("both").read_text()  # it is there at once
        until = time.monotonic() + patience(5.0)
        assert not said
        while "ros_nodes.nodes.host" not in (shown := shown_of(pid)):  # at first that of what it is forked from
            assert time.monotonic() < until, shown
        parent, session, line = shown.split(maxsplit=2)
        assert (int(parent), int(session)) == (os.getpid(), pid)
        assert re.fullmatch(r"\S+ -m ros_nodes\.nodes\.host cf1/policy cf2/policy --ros-args \S.*", line.strip())
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ProcessError, match=r"both \(cf1/policy, cf2/policy\) ended with code -9: it was killed"):
            wait_for_the_end(processes)
        processes.forget("both")
        processes.start("wrong", "host", namespace="cf1")  # a host without nodes
        with pytest.raises(ProcessError, match=r"ended with code 2: error: nodes \(none\): expected namespace/kind"):
            wait_for_the_end(processes)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_nodes_are_started_where_what_forks_them_is_gone(tmp_path, monkeypatch, number):
    with Processes([CONFIG], tmp_path, ros_environment(free_domain_id())) as processes:
        processes.start_host("first", ["cf1/policy"])
        server = fork_server._server
        server._socket.settimeout(0.5)  # as after ANSWER_S
        os.kill(server._process.pid, number)
        processes.start_host("second", ["cf2/policy"])
        processes.start_host("third", ["cf3/policy"])
        until = time.monotonic() + patience(20.0)
        while not all(processes.cpu_s().get(name, 0.0) > 0.1 for name in ("second", "third")):
            assert time.monotonic() < until
            processes.check()
            time.sleep(0.02)
    assert server._process.returncode == -signal.SIGKILL, "a stopped one has to end"
    said = f"the fork server (pid {server._process.pid}) "
    said += "had ended with code -9" if number == signal.SIGKILL else "did not answer"
    assert said in processes.log_of("second").read_text() and "fork server" not in processes.log_of("third").read_text()


def shown_of(pid: int) -> str:
    return subprocess.run(
        ["ps", "-ww", "-o", "ppid=,sid=,args=", "-p", str(pid)], capture_output=True, text=True
    ).stdout


def wait_for_the_end(processes: Processes) -> None:
    until = time.monotonic() + patience(10.0)
    while time.monotonic() < until:
        processes.check()
        time.sleep(0.02)
