"""`phalanx deploy TEAM.yaml` flies until Ctrl-C, lands, and leaves a result that says what was done and what failed."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from patience import patience
from places import TESTS, ZOO

pytest.importorskip("rclpy")
from deploy.shield.authority import ASKED
from phalanx.commands.deploy import deploy
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.lifecycle.processes import Processes, free_domain_id, ros_environment
from ros_nodes.mission import run_team
from ros_nodes.mission.run_team import TeamLog
from ros_nodes.operation.monitor import SILENT, Change

pytestmark = pytest.mark.ros


@pytest.fixture
def flying(pd_bundle, tmp_path):
    """A team of two in the air, its process and its folder."""
    shutil.copy(pd_bundle, tmp_path / "pd.onnx")
    robots = [{"name": f"cf{i}", "bundle": "pd.onnx", "base_pose": [2.0 * i - 3.0, 0, 0, 0]} for i in (1, 2)]
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": robots, "recorder": False}))
    command = [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")]
    environment = os.environ | ros_environment(free_domain_id())
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup a closed terminal would end nothing
    team = subprocess.Popen([*command, "--json"], env=environment, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGHUP, before)
    try:
        wait_until_said(team, tmp_path / "out", "operator", "the mission begins")
        time.sleep(1.0)  # of flight, of which rates are told
        yield team, tmp_path / "out", environment
    finally:
        if team.poll() is None:
            team.terminate()
            team.wait(patience(20))


def wait_until_said(team: subprocess.Popen, out: Path, process: str, words: str) -> None:
    """Until the log of a process of `team` has `words`."""
    until = time.monotonic() + patience(60.0)
    while not any(words in file.read_text() for file in (out / "logs").glob(f"*{process}*")):
        assert team.poll() is None and time.monotonic() < until, words
        time.sleep(0.1)


def printed_and_kept(team: subprocess.Popen, out: Path) -> dict:
    printed = team.communicate(timeout=patience(60))[0]
    result = json.loads((out / "result.json").read_text())
    assert json.loads(printed[printed.index("{") :]) == result
    return result


def test_the_goals_of_a_robot_are_passed_in_order_and_the_result_says_when(tmp_path):
    """Also while another robot of its team waits for a goal of a person."""
    goals = [[1.2, 0.8, 1.4], [1.0, -1.2, 2.0], [-1.2, -0.6, 1.6]]
    robot = {
        "name": "x1",
        "bundle": str(ZOO / "hover-x500.onnx"),
        "base_pose": [0, 0, 0.2289, 0],
        "goals": goals,
    }
    arm = {"name": "arm", "bundle": str(ZOO / "reach-ur5e.onnx"), "base_pose": [4, 4, 0, 0]}
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot, arm], "recorder": False}))
    command = [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")]
    environment = os.environ | ros_environment(free_domain_id())
    team = subprocess.Popen([*command, "--json"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        wait_until_said(team, tmp_path / "out", "operator", "x1: goal 3 of 3 is passed")
        time.sleep(1.5)  # until what is said of it is heard
    finally:
        team.send_signal(signal.SIGINT)
        result = printed_and_kept(team, tmp_path / "out")
    came = result["courses"]["x1"]
    assert came["goals"] == 3 and len(came["passed_s"]) == 3
    assert (np.diff([result["armable_after_s"], *came["passed_s"]]) > 0.5).all(), "two goals were passed at once"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["ctrl-c", "a closed terminal"])
def test_what_ends_it_lands_the_team_and_the_result_tells_who_had_which_robot(flying, number):
    team, out, environment = flying
    look = [sys.executable, "-m", "phalanx", "monitor", "--json", "--once"]
    sharing, until = {}, time.monotonic() + patience(20.0)
    while sharing != {"cf1": ["cf2"], "cf2": ["cf1"]}:  # each has to have heard the other's shield before
        assert time.monotonic() < until, sharing
        seen = subprocess.run(look, env=environment, capture_output=True, text=True, timeout=patience(60))
        sharing = {robot["robot"]: robot["peers_sharing"] for robot in json.loads(seen.stdout)["robots"]}
    team.send_signal(number)
    result = printed_and_kept(team, out)
    assert team.returncode == 0 and result["failures"] == [] and result["team"] == ["cf1", "cf2"]
    for robot in result["team"]:
        changes = [event for event in result["events"] if event["from"] != event["to"]]  # the others are delays
        states = [event["to"].split(" (")[0] for event in changes if event["robot"] == robot]  # "(holding)" is a part
        once = [state for state, _ in itertools.groupby(states)]
        assert once == ["DISARMED", "ARMED", "STARTING", "POLICY", "LANDING", "DISARMED"]
        assert result["rates_hz"][robot]["command"]["median"] == pytest.approx(50.0, rel=0.2)
    assert any("shield" in name and 0.0 < share < 1.0 for name, share in result["cores"].items())


def test_a_second_ctrl_c_is_a_failure_of_the_result(flying):
    team, out, _ = flying
    team.send_signal(signal.SIGINT)
    time.sleep(0.5)  # into the landing
    team.send_signal(signal.SIGINT)
    failures = {failure["robot"]: failure["why"] for failure in printed_and_kept(team, out)["failures"]}
    why = "STOPPED: emergency stop; Ctrl-C was pressed a second time"
    assert team.returncode == 1 and failures == {"cf1": why, "cf2": why}


def test_a_second_team_of_the_same_names_is_refused_before_it_starts_and_one_that_was_killed_is_in_no_ones_way(flying):
    team, out, environment = flying
    command = [sys.executable, "-m", "phalanx", "deploy", str(out.parent / "team.yaml"), "--out"]
    again = subprocess.run(
        [*command, str(out.parent / "second")], env=environment, capture_output=True, text=True, timeout=patience(90)
    )
    assert again.returncode == 2 and again.stdout == "" and not (out.parent / "second").exists()
    (line,) = (line for line in again.stderr.splitlines() if not line.startswith("warning: "))  # of its policy file
    taken = (
        r"another team is in ROS domain (\d+): node (cf[12]/|simulated_robots|mission|recorder)\S* ?is there already"
    )
    assert (found := re.search(taken, line)) and found[1] == environment["ROS_DOMAIN_ID"], line
    processes = subprocess.run(["pgrep", "-P", str(team.pid)], capture_output=True, text=True).stdout.split()
    team.kill()
    team.wait()
    until = time.monotonic() + patience(40.0)  # they land their robots first
    while any(Path(f"/proc/{pid}").exists() for pid in processes):
        assert time.monotonic() < until, "a process is left behind"
        time.sleep(0.1)
    said = "".join(file.read_text() for file in (out / "logs").glob("*shield*"))
    for robot in ("cf1", "cf2"):
        assert f"{robot}: POLICY -> LANDING" in said and f"{robot}: LANDING -> DISARMED" in said
    third = subprocess.Popen([*command, str(out.parent / "third")], env=environment, stdout=subprocess.PIPE, text=True)
    assert third.stdout.readline().startswith("team of")
    third.send_signal(signal.SIGINT)
    third.communicate(timeout=patience(60))


def pids_of(team: subprocess.Popen, node: str) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(team.pid), "-f", node], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


def test_a_process_that_ends_by_itself_is_a_failure_and_the_team_lands_and_it_is_there_again_to_be_armed(flying):
    team, out, environment = flying
    os.kill(pids_of(team, "cf1/policy")[0], signal.SIGKILL)
    for robot in ("cf1", "cf2"):  # who has the robots goes on, and lands them
        wait_until_said(team, out, "shield", f"{robot}: LANDING -> ")
    (host,) = pids_of(team, "shield_node .*__ns:=/cf1( |$)")
    os.kill(host, signal.SIGKILL)
    wait_until_said(team, out, "operator", "cf1/shield has restarted: it is up again")
    look = [sys.executable, "-m", "phalanx", "monitor", "cf1", "--json", "--once"]
    seen = subprocess.run(look, env=environment, capture_output=True, text=True, timeout=patience(60))
    (robot,) = json.loads(seen.stdout)["robots"]
    assert robot["state"] == "DISARMED" and not robot["rates_hz"]["command"], "a shield that is there again moves it"
    team.send_signal(signal.SIGINT)
    result = printed_and_kept(team, out)
    assert team.returncode == 1
    died = [failure for failure in result["failures"] if "ended with code -9" in failure["why"]]
    assert [failure["robot"] for failure in died] == ["cf1, cf2", "cf1"]
    assert not [failure for failure in result["failures"] if failure["why"].startswith(SILENT)], "it was counted twice"
    page = (out / "report.html").read_text()
    assert "ended with code -9" in page and all(failure["robot"] in page for failure in result["failures"])
    assert {e["robot"] for e in result["events"] if e["from"] == "LANDING" and e["to"] in ("DISARMED", "FAULT")} == {
        "cf1",
        "cf2",
    }


class Said(list):
    """A monitor with changes that it heard, and robots that it shows."""

    robots: tuple[dict, ...] = ()

    def poll(self) -> list[Change]:
        found, self[:] = list(self), []
        return found

    def snapshot(self) -> dict:
        return {"robots": self.robots}

    def refuse_taken(self, *names) -> None:
        """No other team is there."""


@pytest.mark.parametrize("driver", ["", "mujoco_driver:MujocoDriver"])
def test_a_robot_that_was_never_armed_is_a_failure_of_a_team_without_real_robots_and_a_lost_result_of_any(
    pd_bundle, tmp_path, monkeypatch, driver
):
    shutil.copy(pd_bundle, tmp_path / "pd.onnx")
    options = {"log": "x"} if driver else {}
    real = {"name": "cf2", "bundle": "pd.onnx", "driver": driver, "options": options}
    robots = [{"name": "cf1", "bundle": "pd.onnx"}, real]
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": robots, "recorder": False}))
    said = Said()
    said.robots = tuple({"robot": name, "state": "DISARMED", "reason": "no state yet"} for name in ("cf1", "cf2"))
    monkeypatch.setattr(run_team, "monitoring", lambda team: nullcontext(said))
    monkeypatch.setattr(run_team, "plan", lambda *_: [])
    monkeypatch.setattr(run_team, "ARM_S", -1.0)
    (tmp_path / "out" / "result.json").mkdir(parents=True)
    result = run_team.run_team(tmp_path / "team.yaml", tmp_path / "out")
    why = [(failure["robot"], failure["why"].partition("; the machine")[0]) for failure in result["failures"]]
    assert why == ([] if driver else [("cf1", "never armed: no state yet"), ("cf2", "never armed: no state yet")])
    assert result["unwritten"] == [f"{tmp_path}/out/result.json: Is a directory"]


def test_a_driver_that_refuses_ends_its_team_and_its_robot_and_reason_are_said(
    pd_bundle, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    for name, value in ros_environment(free_domain_id()).items():
        monkeypatch.setenv(name, value)
    shutil.copy(pd_bundle, tmp_path / "pd.onnx")
    link = {"link": "udpin:127.0.0.1:0"}  # where nothing calls
    robot = {"name": "cf1", "bundle": "pd.onnx", "driver": "px4", "options": link}
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot], "recorder": False}))
    began_s = time.monotonic()
    assert deploy([str(tmp_path / "team.yaml")], out_dir=tmp_path / "out") == 1
    assert time.monotonic() - began_s < patience(12.0)
    printed, said = capsys.readouterr()
    (line,) = [line for line in said.splitlines() if line.startswith("failed: ")]
    assert line.startswith("failed: cf1: node /cf1/driver refused to configure: PX4 at udpin:127.0.0.1:0: no ")
    assert "nothing was heard at 127.0.0.1:0" in line and "never armed" not in printed
    (failure,) = json.loads((tmp_path / "out" / "result.json").read_text())["failures"]
    assert failure["robot"] == "cf1" and line.endswith(failure["why"])


def busy(monkeypatch, load: float, others: float, stolen: float) -> MachineLoad:
    """A machine of two cores that is used so by others, in cores."""
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(MachineLoad, "others", lambda self, children_s=0.0: others)
    monkeypatch.setattr(MachineLoad, "stolen", lambda self: stolen)
    return MachineLoad()


def test_a_machine_is_named_as_busy_by_its_load_and_by_what_others_and_its_host_take_while_its_load_still_rises(
    monkeypatch,
):
    assert busy(monkeypatch, 1.9, 0.6, 0.1).blame() == ""
    text = "; the machine may be too busy: load {} on 2 cores, others used {} of them"
    assert busy(monkeypatch, 2.5, 0.6, 0.0).blame() == text.format(2.5, 0.6)
    assert busy(monkeypatch, 0.4, 1.6, 0.0).blame() == text.format(0.4, 1.6)
    assert busy(monkeypatch, 0.4, 0.2, 0.7).blame() == text.format(0.4, 0.2) + ", its host took 0.7"


def test_of_nodes_that_did_not_come_up_the_robot_the_reason_and_the_busy_machine_are_said(tmp_path, monkeypatch):
    not_up = [
        {"node": "/cf1/driver", "why": "node /cf1/driver refused to configure"},
        {"node": "/fleet/recorder", "why": "node /fleet/recorder did not configure within 30 s", "late": True},
    ]
    (tmp_path / "not_up.json").write_text(json.dumps(not_up))
    (tmp_path / "cf1_shield_host.log").write_text(
        "[ERROR] [17.2] [cf1.driver]: no answer\n[INFO] [17.3] [cf1.shield]: x\n"
    )
    processes = Processes([], tmp_path, {})
    processes._process_of = {"cf1/driver": "cf1_shield_host", "fleet/recorder": "fleet_recorder"}
    (tmp_path / "fleet_recorder.log").touch()
    refused, late = run_team._not_up(processes, tmp_path / "not_up.json", busy(monkeypatch, 9.0, 1.9, 0.0))
    assert refused == ("cf1", "node /cf1/driver refused to configure: no answer")
    assert late[1].startswith("node /fleet/recorder did not configure within 30 s: no output; the machine may be too")


def test_a_landing_that_ends_in_a_fault_is_one_failure_with_all_that_it_was_for():
    said = Said()
    log = TeamLog(said)
    now_s = time.time()
    old, whole = "state 126 ms old", "state 126 ms old; device: link lost: nothing heard since 12:00:00"
    for robot, reason in (("cf1", whole), ("cf2", "battery at 5 %")):
        said += [Change(now_s, robot, "POLICY", "LANDING", old), Change(now_s + 1, robot, "LANDING", "FAULT", reason)]
    again = [("FAULT", "DISARMED", ""), ("DISARMED", "ARMED", ""), ("ARMED", "LANDING", old), ("LANDING", "FAULT", old)]
    said += [Change(now_s + 2 + number, "cf1", *change) for number, change in enumerate(again)]
    log.listen()
    assert [(failure["robot"], failure["why"]) for failure in log.result()["failures"]] == [
        ("cf1", f"LANDING: {whole}"),
        ("cf2", f"LANDING: {old}"),
        ("cf2", "FAULT: battery at 5 %"),
        ("cf1", f"LANDING: {old}"),
    ]


def test_a_robot_that_a_second_ctrl_c_stopped_on_its_way_down_is_a_failure_and_one_that_was_down_is_none():
    said = Said()
    log = TeamLog(said)
    now_s = time.time()
    said += [Change(now_s, "cf3", "POLICY", "STOPPED", "emergency stop")]  # by a person, who flies on with the others
    log.listen()
    time.sleep(0.01)
    log.end()
    now_s = time.time() + 0.01
    said += [Change(now_s, "cf1", "POLICY", "LANDING", ASKED), Change(now_s, "cf2", "DISARMED", "STOPPED", "stop")]
    said += [Change(now_s + 1, "cf1", "LANDING", "STOPPED", "emergency stop")]
    log.listen()
    failures = {failure["robot"]: failure["why"] for failure in log.result()["failures"]}
    assert failures == {"cf1": "STOPPED: emergency stop"}


def test_a_shield_that_ended_as_asked_is_no_failure_and_a_robot_that_did_not_come_down_is():
    said = Said()
    log = TeamLog(said)
    now_s = time.time()
    said.append(Change(now_s, "cf2", "POLICY", SILENT, "silent for 5 s"))
    log.listen()
    time.sleep(0.01)
    log.end()
    now_s = time.time() + 0.01
    said += [Change(now_s, robot, "POLICY", "LANDING", ASKED) for robot in ("arm1", "cf1", "cf3")]
    said += [Change(now_s + 1, robot, "LANDING", "DISARMED", "") for robot in ("arm1", "cf3")]
    said += [Change(now_s + 6, robot, "FAULT", SILENT, "silent for 5 s") for robot in ("arm1", "cf1")]
    log.listen()
    failures = {failure["robot"]: failure["why"] for failure in log.result()["failures"]}
    said.robots = tuple({"robot": name, "reason": ""} for name in ("arm1", "cf9"))
    assert log.idle() == [{"robot": "cf9", "why": "never armed: nothing is said of why"}]
    assert failures == {"cf1": "not down 30 s after it was asked to land", "cf2": f"{SILENT}: silent for 5 s"}
