"""Several policies in one process: each has its names, parameters and services, and none falls with another."""

import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
from rclpy.parameter_client import AsyncParameterClient
from ros_rig import Rig

from ros_nodes.lifecycle.bring_up import ACTIVATE, CONFIGURE
from ros_nodes.lifecycle.processes import node_command

pytestmark = [pytest.mark.ros, pytest.mark.slow]
TEAM = ["cf1", "cf2", "cf3"]
FLIES = ("NOMINAL", "FILTERED")
HOST = """
from functools import partial
from pathlib import Path
from ros_nodes.lifecycle.host import run_nodes
from ros_nodes.nodes.policy_node import PolicyNode

class Policy(PolicyNode):
    def _cycle(self, *arguments):
        if Path({fail!r}).exists() and self.robot_name == "cf1":
            raise RuntimeError("propeller missing")
        return super()._cycle(*arguments)

raise SystemExit(run_nodes({{f"{{name}}/policy": partial(Policy, name) for name in {team}}}))
"""


def until(rig, happens, within_s=20.0):
    end = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < end, rig.node.shields
        rig.executor.spin_once(timeout_sec=0.02)
        rig.processes.check()


def test_a_policy_that_fails_leaves_the_others_of_its_process_flying(pd_bundle, tmp_path):
    fail = tmp_path / "fail"
    starts = [[1.5 * number - 2.2, 0.0, 1.0, 0.0] for number in range(len(TEAM))]
    with Rig(tmp_path, starts=starts, bundle=pd_bundle) as rig:
        policies = [f"{name}/policy" for name in TEAM]
        command = node_command("host", rig.processes._params_files)
        command[1:3] = ["-c", HOST.format(fail=str(fail), team=TEAM)]
        rig.processes._start("policy_host_1", policies, command)
        rig.start("simulated_robots", *(f"{name}/shield" for name in TEAM), armed=False)
        for transition in (CONFIGURE, ACTIVATE):
            rig.transition(transition, *policies)
        for name in TEAM:
            rig.ask(name, "arm")
            rig.ask(name, "start")
        until(rig, lambda: all(rig.mode(name) in FLIES for name in TEAM))
        for name in TEAM:
            answer = AsyncParameterClient(rig.node, f"/{name}/policy").get_parameters(["robot_name"])
            until(rig, answer.done)
            assert answer.result().values[0].string_value == name

        main = Path(f"/proc/{rig.processes.pid('policy_host_1')}/schedstat")
        before_ns = int(main.read_text().split()[0])
        time.sleep(2.0)
        assert int(main.read_text().split()[0]) - before_ns < 0.4e9  # loops poll: no message wakes the executor

        fail.touch()
        until(rig, lambda: rig.mode("cf1") not in FLIES)
        time.sleep(1.0)
        assert [rig.mode(name) in FLIES for name in TEAM] == [False, True, True]
        assert "propeller missing" in rig.processes.log_of("policy_host_1").read_text()
        fail.unlink()
        for transition in (CONFIGURE, ACTIVATE):  # it is unconfigured, and can begin again
            rig.transition(transition, "cf1/policy")
        rig.processes.check()
