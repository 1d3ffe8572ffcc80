"""A team comes up as fast as its slowest node allows, and its processes find each other at once."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from node_processes import node_processes
from patience import patience
from places import ZOO

pytest.importorskip("rclpy")
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn

from phalanx.commands.deploy import deploy
from ros_nodes.lifecycle import bring_up
from ros_nodes.lifecycle.bring_up import BringUp, BringUpError
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.fork_server import NODE_ENVIRONMENT
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.mission.deploy import DeployError, run_swap
from ros_nodes.plans.mission import plan_swap, save_mission

SWAP = ZOO / "swarm-swap.onnx"
SLOW_S = 0.6
PARENT = """
import sys, time
from pathlib import Path
from ros_nodes.lifecycle.processes import Processes, free_domain_id, ros_environment
from ros_nodes.mission.deploy import CONFIG
processes = Processes([CONFIG], Path(sys.argv[1]), ros_environment(free_domain_id()))
processes.start("operator", "operator_node", parameters=["team:=[cf1]", f"mission:={sys.argv[2]}"])
print(processes.pid("operator"), flush=True)
time.sleep(60.0)
"""
LONE = "import rclpy, sys; rclpy.init(); node = rclpy.create_node('lone'); sys.stdin.read()"


class Slow(LifecycleNode):
    """Takes its time to configure, and notes when it did what."""

    def __init__(self, name: str, takes_s: float, done: dict[str, float], context: rclpy.Context):
        super().__init__(name, context=context, start_parameter_services=False)
        self._takes_s, self._done = takes_s, done

    def on_configure(self, state):
        time.sleep(abs(self._takes_s))
        if self._takes_s < 0:
            return TransitionCallbackReturn.FAILURE
        self._done[f"{self.get_name()} configured"] = time.monotonic()
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state):
        self._done[f"{self.get_name()} active"] = time.monotonic()
        return super().on_activate(state)


@contextmanager
def team(**takes_s: float):
    """Nodes in a thread each, and what brings them up."""
    done: dict[str, float] = {}
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        nodes = [Slow(name, s, done, context) for name, s in takes_s.items()]
        executors = [SingleThreadedExecutor(context=context) for _ in (*nodes, None)]
        threads = []
        for node, executor in zip(nodes, executors, strict=False):
            executor.add_node(node)
            threads.append(threading.Thread(target=executor.spin, daemon=True))
            threads[-1].start()
        own = rclpy.create_node("operator", context=context)
        executors[-1].add_node(own)
        yield BringUp(own, executors[-1]), done
        for executor in executors:
            executor.shutdown()
        for thread in threads:
            thread.join()
        for node in (*nodes, own):
            node.destroy_node()


@pytest.mark.ros
def test_a_node_is_active_while_another_still_configures_unless_it_comes_after_that_one():
    with team(fast=0.0, slow=SLOW_S, last=0.0) as (nodes, done):
        nodes.up([["/fast"], ["/slow"], ["/last"]], 10.0)
    assert done["fast active"] < done["slow configured"] - 0.5 * SLOW_S
    assert done["last configured"] < done["slow configured"]
    assert done["slow active"] < done["last active"]


@pytest.mark.ros
def test_a_node_that_takes_long_to_refuse_is_said_to_refuse(monkeypatch):
    """As a driver that waits for its device: it had been asked again and again, and was late in the end."""
    monkeypatch.setattr(bring_up, "GIVE_UP_CALL_S", 0.3 * SLOW_S)
    with team(good=0.0, bad=-SLOW_S) as (nodes, _), pytest.raises(BringUpError, match="/bad refused to configure"):
        nodes.up([["/good", "/bad"]], 5.0)


@pytest.mark.ros
def test_progress_counts_and_a_node_that_makes_none_is_named():
    with team(one=SLOW_S, two=2 * SLOW_S, three=3 * SLOW_S) as (nodes, done):
        nodes.up([["/one"], ["/two"], ["/three"]], 1.5 * SLOW_S)
        assert len(done) == 6
    with team(good=0.0, bad=-0.01) as (nodes, done), pytest.raises(BringUpError, match="/bad refused to configure"):
        nodes.up([["/good", "/bad"]], 10.0)
    with team(bad=-0.01, last=0.0, worse=-0.01) as (nodes, done), pytest.raises(BringUpError) as caught:
        nodes.up([["/bad"], ["/last"], ["/worse"]], 10.0)
    assert [each.node for each in caught.value.not_up] == ["/bad", "/worse"] and "last active" not in done
    with team(good=0.0) as (nodes, done), pytest.raises(BringUpError, match=r"/absent did not configure within 0\.5 s"):
        nodes.up([["/good"], ["/absent"]], 0.5)


@pytest.mark.ros
def test_a_process_says_that_it_is_there_for_as_long_as_others_may_be_starting():
    # One that starts may miss the answer to its own first word; it would hear of this one 3 s later.
    domain_id = free_domain_id()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 7400 + 250 * domain_id + 10 + 2 * 60))  # where a 61st process would listen
        environment = ros_environment(domain_id) | NODE_ENVIRONMENT
        lone = subprocess.Popen([sys.executable, "-c", LONE], stdin=subprocess.PIPE, env=os.environ | environment)
        try:
            probe.settimeout(20.0)
            probe.recv(65536)
            began_s, heard_s = time.monotonic(), []
            probe.settimeout(1.0)
            while time.monotonic() < began_s + 3.0:
                probe.recv(65536)
                heard_s.append(time.monotonic() - began_s)
        finally:
            lone.kill()
            lone.wait()
    assert max(late - early for early, late in pairwise(heard_s)) < 0.5


@pytest.mark.ros
def test_an_operator_ends_when_who_started_it_is_killed(tmp_path):
    save_mission(plan_swap(1, 8.0, None, 0), tmp_path / "plan.json")
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(tmp_path / "plan.json")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    operator = Path(f"/proc/{int(parent.stdout.readline())}")
    until = time.monotonic() + patience(30.0)
    time.sleep(4.0)  # it waits for its nodes
    assert operator.exists()
    parent.kill()
    parent.wait()
    while operator.exists():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.ros
@pytest.mark.parametrize("after_s", [0.0, 0.1, 1.0])
def test_ctrl_c_before_anything_is_armed_says_at_once_what_it_waits_for_or_ends(tmp_path, after_s):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "phalanx", "deploy", str(SWAP), "--robots", "2", "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as deploy:
        assert deploy.stderr is not None
        while not list(out.glob("logs/recorder*")):
            assert deploy.poll() is None
            time.sleep(0.02)
        time.sleep(after_s)  # nodes import, and are waited for; so does the command, and then it ends at once
        asked_s = time.monotonic()
        deploy.send_signal(signal.SIGINT)
        while not re.search("^(stopping: waiting for |phalanx: interrupted$)", line := deploy.stderr.readline()):
            assert line, "it ended without a word"
        assert time.monotonic() - asked_s < 1.0
        assert deploy.wait(patience(10.0)) == 130
        assert time.monotonic() - asked_s < 6.0
    until = time.monotonic() + patience(5.0)
    while left := node_processes(str(out)):
        assert time.monotonic() < until, left
        time.sleep(0.1)
    assert not (out / "result.json").exists()


@pytest.mark.ros
def test_a_bring_up_that_fails_on_a_busy_machine_names_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("ros_nodes.mission.deploy.BRING_UP_S", 0.05)
    monkeypatch.setattr("os.getloadavg", lambda: (12.34, 9.0, 5.0))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    with pytest.raises(
        DeployError, match=r"did not configure within 0\.05 s.*load 12\.3 on 2 cores, others used \d\.\d"
    ):
        run_swap(SWAP, tmp_path / "busy", 2, 8.0, None)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(64)))
    assert deploy([str(SWAP)], 2, 8.0, None, out_dir=tmp_path / "idle") == 1
    page = (tmp_path / "idle" / "report.html").read_text()
    data = json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', page)[1])
    (failure,) = data["result"]["ros"]["failures"]
    assert "did not configure within 0.05 s" in failure["why"] and "machine" not in failure["why"]
    assert 0.0 < failure["t_s"] < patience(30.0)
