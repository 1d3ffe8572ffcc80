"""A policy file takes over from another one in flight: real nodes, real DDS, and no cycle missed."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
from pd_bundle import FAULT_ABOVE_M, PdPolicy, PdPolicyWithFault, save_pd_bundle
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros_rig import Rig
from std_srvs.srv import Trigger

from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.series import read_series
from ros_nodes.messages import qos
from ros_nodes.messages.diagnostics import FINGERPRINT, DiagnosticArray
from ros_nodes.messages.names import POLICY_STATUS

pytestmark = pytest.mark.ros
SWAP_S = 3.5  # probe, blend and trial
TRIES = 3  # a machine that stands still for a moment is not a swap that misses a cycle


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    policies = {"old": PdPolicy(), "new": PdPolicy(speed=0.4), "faulty": PdPolicyWithFault()}
    prints = {name: save_pd_bundle(folder / f"{name}.onnx", policy=policy) for name, policy in policies.items()}
    return {name: (str(folder / f"{name}.onnx"), prints[name]) for name in policies}


class Pilot:
    """Asks for swaps and hears what the policy says of itself."""

    def __init__(self, rig: Rig):
        self.rig = rig
        self._status = Mailbox(rig.node, DiagnosticArray, f"/cf1/{POLICY_STATUS}", qos.LATCHED)
        self._set = rig.node.create_client(SetParameters, "/cf1/policy/set_parameters")
        self._swap = rig.node.create_client(Trigger, "/cf1/policy/swap")
        self.said: dict[str, str] = {}

    def call(self, client, request):
        assert client.wait_for_service(patience(10.0))
        future = client.call_async(request)
        self.rig.executor.spin_until_future_complete(future, timeout_sec=20.0)
        return future.result()

    def swap(self, file: str) -> tuple[bool, str]:
        parameter = Parameter("next_bundle", value=file).to_parameter_msg()
        assert self.call(self._set, SetParameters.Request(parameters=[parameter])).results[0].successful
        answer = self.call(self._swap, Trigger.Request())
        return answer.success, answer.message

    def hear(self, words: str) -> str:
        """The first status of which `swap` holds the words."""
        until = time.monotonic() + patience(10.0)
        while words not in self.said.get("swap", ""):
            assert time.monotonic() < until, self.said
            self.rig.watch("cf1", 0.02)
            if (taken := self._status.take()) is not None:
                self.said = {pair.key: pair.value for pair in taken[0].status[0].values}
        return self.said["swap"]


def hovering(tmp_path, files) -> Rig:
    return Rig(
        tmp_path,
        starts=[[0.0, 0.0, 1.0, 0.0]],
        bundle=files["old"][0],
        parameters={
            "/**/policy": {"series_dir": str(tmp_path / "series")},
            "/**/shield": {"fingerprint": files["old"][1]},
        },
    )


def skipped_between(rig: Rig, windows) -> list[int]:
    """Cycles that the policy missed within each (start, end) of its own time, s."""
    series = read_series(next(rig.series.glob("cf1_policy*.npy")))
    return [int(series["skipped"][(series["time_s"] > a) & (series["time_s"] < b)].sum()) for a, b in windows]


def test_a_policy_takes_over_in_flight_without_a_missed_cycle(files, tmp_path):
    with hovering(tmp_path, files) as rig:
        rig.start("simulated_robots", "cf1/shield", "cf1/policy")
        rig.fly("cf1", 1.5)
        pilot, windows = Pilot(rig), []
        for number in range(TRIES):
            file, fingerprint = files["new" if number % 2 == 0 else "old"]
            began_s = rig.state("cf1")[1] * 1e-9
            success, said = pilot.swap(file)
            assert success, said
            assert not pilot.swap(file)[0]  # one at a time
            pilot.hear(f"{file} flies")
            windows.append((began_s, rig.state("cf1")[1] * 1e-9))
            assert pilot.said[FINGERPRINT] == fingerprint
            assert rig.mode("cf1") in ("NOMINAL", "FILTERED") and windows[-1][1] - began_s > SWAP_S
        assert abs(float(rig.state("cf1")[0].base_pos[2]) - 1.0) < 0.3
        rig.ask("cf1", "land")
        rig.watch("cf1", 4.0)
        # The shield was set up for another file: who arms the robot again has to say that this one is meant.
        assert "the policy flies file" in rig.asked("cf1", "arm")
        skipped = skipped_between(rig, windows)
    assert min(skipped) == 0, skipped


def test_a_policy_that_fails_or_that_the_shield_refuses_is_taken_back(files, tmp_path):
    with hovering(tmp_path, files) as rig:
        pilot = Pilot(rig)
        rig.start("simulated_robots", "cf1/shield", "cf1/policy")
        rig.fly("cf1", 1.5)
        success, said = pilot.swap(str(tmp_path / "none.onnx"))
        assert not success and said.endswith("none.onnx: no such file")
        assert pilot.swap(files["faulty"][0])[0]
        pilot.hear("takes over")
        rig.node.send("cf1", {"goal_pos": np.array([0.0, 0.0, FAULT_ABOVE_M + 0.4], np.float32)})
        assert "output is not finite" in pilot.hear("was taken back")
        assert pilot.said[FINGERPRINT] == files["old"][1]
        rig.fly("cf1", 1.0)
        assert pilot.swap(files["new"][0])[0]
        pilot.hear(f"{files['new'][0]} takes over")
        stranger = rig.publisher("cf1")  # of requests: none is obeyed, so the shield holds
        assert "the shield: POLICY (HOLD)" in pilot.hear(f"{files['new'][0]} was taken back")
        rig.node.destroy_publisher(stranger)
        assert float(rig.state("cf1")[0].base_pos[2]) > FAULT_ABOVE_M  # the old one had climbed on


def test_a_person_swaps_a_policy_from_a_terminal_and_is_told_how_it_ended(files, tmp_path):
    """There was no command: it took a parameter, a service, and a look at a topic."""
    old, new, faulty = (files[name][0] for name in ("old", "new", "faulty"))
    with hovering(tmp_path, files) as rig:
        domain = str(rig.node.context.get_domain_id())

        def swap(robot: str, file: str) -> tuple[int, list[str]]:
            command = [sys.executable, "-m", "phalanx", "operate", "swap", robot, file, "--domain", domain]
            with subprocess.Popen(
                command, cwd=os.path.dirname(new), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as process:
                until = time.monotonic() + patience(60.0)
                while process.poll() is None:
                    assert time.monotonic() < until
                    rig.watch("cf1", 0.02)
                return process.returncode, process.stdout.read().splitlines()

        rig.start("simulated_robots", "cf1/shield", "cf1/policy")
        wait = "where it is being deployed, wait until `phalanx deploy` says that robots can be armed"
        assert swap("cf7", new) == (1, [f"cf7: there is no such robot: there are cf1; {wait}; did you mean 'cf1'?"])
        rig.fly("cf1", 1.0)
        assert swap("cf1", "none.onnx") == (1, [f"cf1: {os.path.dirname(new)}/none.onnx: no such file"])
        said = [f"{new} runs beside {old}", f"{new} takes over from {old}", f"{new} flies"]
        assert swap("cf1", os.path.basename(new)) == (0, [f"cf1: swap: {each}" for each in said])
        rig.node.send("cf1", {"goal_pos": np.array([0.0, 0.0, FAULT_ABOVE_M + 0.4], np.float32)})
        rig.fly("cf1", 3.0)
        code, lines = swap("cf1", faulty)
        assert code == 1 and lines[-1].startswith(f"cf1: {faulty} was taken back, {new} flies on: "), lines


def test_a_swap_without_a_file_is_refused_before_anything_is_sent(capsys):
    from phalanx.cli import main

    with pytest.raises(SystemExit, match="2"):
        main(["operate", "swap", "cf1"])
    assert capsys.readouterr().err.startswith("phalanx: swap needs one robot and a policy file: phalanx operate swap")
