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
from pathlib import Path

import numpy as np
import pytest
from patience import patience
from places import TESTS, ZOO

pytest.importorskip("rclpy")
from phalanx.commands.deploy import deploy
from phalanx.commands.report import report
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages.local_orders import ask_here
from ros_nodes.operation.robot_monitor import SILENT

pytestmark = pytest.mark.ros


@pytest.fixture
def terminal():
    """Its two ends: that of its window, and that of the programs in it."""
    ends = [os.fdopen(end, "wb", buffering=0) for end in os.openpty()]
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def flying(request, pd_bundle, tmp_path, terminal):
    """A team of two in the air, its process and its folder; as a parameter, what SIGINT does where it is started."""
    shutil.copy(pd_bundle, tmp_path / "pd.onnx")
    robots = [{"name": f"cf{i}", "bundle": "pd.onnx", "base_pose": [2.0 * i - 3.0, 0, 0, 0]} for i in (1, 2)]
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": robots, "recorder": False}))
    command = [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")]
    environment = os.environ | ros_environment(free_domain_id())
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup a closed terminal would end nothing
    on_sigint = signal.signal(signal.SIGINT, getattr(request, "param", signal.default_int_handler))
    team = subprocess.Popen(
        [*command, "--json"], env=environment, stdout=subprocess.PIPE, stderr=terminal[1], text=True
    )
    signal.signal(signal.SIGHUP, before)
    signal.signal(signal.SIGINT, on_sigint)
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


@pytest.mark.parametrize("flying", [signal.SIG_IGN], ids=["background"], indirect=True)
def test_sigterm_lands_a_team_that_was_started_in_the_background_of_a_script(flying):
    """There SIGINT is ignored, and SIGTERM ended it at once, without a word and without a result."""
    team, out, _ = flying
    team.send_signal(signal.SIGTERM)
    result = printed_and_kept(team, out)
    assert team.returncode == 0 and result["failures"] == []
    assert [event["from"] for event in result["events"] if event["to"] == "DISARMED"] == ["", "", "LANDING", "LANDING"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["ctrl-c", "a closed terminal"])
def test_what_ends_it_lands_the_team_and_the_result_tells_who_had_which_robot(flying, number, terminal):
    team, out, environment = flying
    look = [sys.executable, "-m", "phalanx", "monitor", "--json", "--once"]
    sharing, until = {}, time.monotonic() + patience(20.0)
    while number == signal.SIGINT and sharing != {"cf1": ["cf2"], "cf2": ["cf1"]}:  # they heard each other's shields
        assert time.monotonic() < until, sharing
        seen = subprocess.run(look, env=environment, capture_output=True, text=True, timeout=patience(60))
        sharing = {robot["robot"]: robot["peers_sharing"] for robot in json.loads(seen.stdout)["robots"]}
    if number == signal.SIGHUP:
        terminal[0].close()
    team.send_signal(number)
    if number == signal.SIGINT:
        wait_until_said(team, out, "shield", "so it lands first")
        held = ask_here("hold", ["cf1"], int(environment["ROS_DOMAIN_ID"]), patience(1.0))
        assert "its process is ending" in held["cf1"].said
    result = printed_and_kept(team, out)
    assert team.returncode == 0 and result["failures"] == [] and result["team"] == ["cf1", "cf2"]
    for robot in result["team"]:
        changes = [event for event in result["events"] if event["from"] != event["to"]]  # the others are delays
        states = [event["to"].split(" (")[0] for event in changes if event["robot"] == robot]  # "(holding)" is a part
        once = [state for state, _ in itertools.groupby(states)]
        assert once == ["DISARMED", "ARMED", "STARTING", "POLICY", "LANDING", "DISARMED"]
        assert result["rates_hz"][robot]["command"]["median"] == pytest.approx(50.0, rel=0.2)
    landed = {event["reason"] for event in result["events"] if event["to"] == "LANDING"}
    assert landed == {"on request: its program ends"}, "as after a person's `land`"
    assert any("shield" in name and 0.0 < share < 1.0 for name, share in result["cores"].items())


def test_a_second_ctrl_c_is_a_failure_of_the_result(flying):
    team, out, _ = flying
    team.send_signal(signal.SIGINT)
    time.sleep(0.5)  # into the landing
    team.send_signal(signal.SIGINT)
    failures = {failure["robot"]: failure["why"] for failure in printed_and_kept(team, out)["failures"]}
    why = "STOPPED: emergency stop; Ctrl-C was pressed a second time"
    assert team.returncode == 1 and failures == {"cf1": why, "cf2": why}


def process_of(team: subprocess.Popen, node: str) -> int:
    """The process that a `team` has started for a node of cf1, alone or with others."""
    line = f"{node}_node.*/cf1|cf1/{node}"
    return int(subprocess.run(["pgrep", "-P", str(team.pid), "-f", line], capture_output=True, text=True).stdout)


@pytest.mark.parametrize("at", [0.0, 0.5], ids=["at once", "on its way down"])
def test_a_shield_that_is_killed_before_its_robot_is_down_is_a_failure_of_the_result(flying, at):
    team, out, _ = flying
    shield = process_of(team, "shield")
    team.send_signal(signal.SIGINT)
    time.sleep(at)
    os.kill(shield, signal.SIGKILL)
    failures = printed_and_kept(team, out)["failures"]
    assert team.returncode == 1 and {failure["robot"] for failure in failures} == {"cf1"}
    assert "cf1_shield ended with code -9: it was killed" in [failure["why"] for failure in failures]


def test_it_is_said_at_once_which_simulated_robot_is_not_armed_and_it_is_a_failure(pd_bundle, tmp_path):
    shutil.copy(pd_bundle, tmp_path / "pd.onnx")
    robots = [{"name": f"cf{i}", "bundle": "pd.onnx", "base_pose": [2.0 * i - 3.0, 0, 0, 0]} for i in (1, 2)]
    robots[1]["shield"] = {"max_speed": 2.75}
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": robots, "recorder": False}))
    out = tmp_path / "out"
    (out / "stops").mkdir(parents=True)
    (out / "stops" / "cf2.stopped").write_text("a person's stop\n")
    command = [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(out), "--json"]
    environment = os.environ | ros_environment(free_domain_id())
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as team:
        assert team.stderr is not None
        said: list[str] = []
        while not (said and said[-1].startswith("cf2: never armed: STOPPED: a person's stop")):  # cf1 may have to wait
            said.append(team.stderr.readline())
            assert said[-1], said  # it has ended
        wide = "shield limit max_speed = 2.75, the robot's own is 2.5: what docs/shield.md guarantees was not tried"
        assert any(f"warning: cf2: {wide}" in line for line in said), said
        assert wide in (out / "logs" / "cf2_shield.log").read_text()
        team.send_signal(signal.SIGINT)
        result = printed_and_kept(team, out)
    assert team.returncode == 1
    assert [(each["robot"], each["why"].split(":")[0]) for each in result["failures"]] == [("cf2", "never armed")]
    assert "the machine" not in result["failures"][0]["why"], "it was so all the time"


def test_a_policy_that_refuses_when_started_again_is_said_and_its_robot_is_not_armed(flying):
    team, out, environment = flying
    (out.parent / "pd.onnx").unlink()
    os.kill(process_of(team, "policy"), signal.SIGKILL)
    wait_until_said(team, out, "cf1_shield", "-> FAULT")
    domain_id, until, said = int(environment["ROS_DOMAIN_ID"]), time.monotonic() + patience(20.0), ""
    while "the policy is silent for" not in said and "no status of the policy" not in said:
        assert time.monotonic() < until, said
        ask_here("reset", ["cf1"], domain_id, patience(5.0))
        said = ask_here("arm", ["cf1"], domain_id, patience(5.0))["cf1"].said
    wait_until_said(team, out, "operator", "/cf1/policy refused to configure")
    time.sleep(1.0)  # until that is read
    team.send_signal(signal.SIGINT)
    result = printed_and_kept(team, out)
    states = [event["to"] for event in result["events"] if event["robot"] == "cf1"]
    assert "ARMED" not in states[states.index("FAULT") :], "it was armed without its policy"
    whys = [failure["why"] for failure in result["failures"] if failure["robot"] == "cf1"]
    (again,) = (why for why in whys if "refused to configure after it was started again" in why)
    assert "pd.onnx: no such file" in again and team.returncode == 1


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
    assert report(out) == 0 and (out / "report.html").read_text() == page, "that of the same folder is another one"
    assert {e["robot"] for e in result["events"] if e["from"] == "LANDING" and e["to"] in ("DISARMED", "FAULT")} == {
        "cf1",
        "cf2",
    }


def test_a_driver_that_refuses_ends_its_team_and_its_robot_and_reason_are_said(
    pd_bundle, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    for name, value in ros_environment(free_domain_id()).items():
        monkeypatch.setenv(name, value)
    shutil.copy(pd_bundle, tmp_path / "pd.onnx")
    link = {"link": "udpin:127.0.0.1:0"}  # where nothing calls
    robot = {"name": "cf1", "bundle": "pd.onnx", "type": "crazyflie", "driver": "px4", "options": link}
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
