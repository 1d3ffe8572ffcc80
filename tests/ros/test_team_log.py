"""What is made of what a team says: which of it is a failure, of which robot, and when the machine is to blame."""

import json
import shutil
import time
from contextlib import nullcontext

import pytest

pytest.importorskip("rclpy")
from deploy.shield.authority import ASKED
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.lifecycle.processes import Processes
from ros_nodes.mission import run_team, team_log
from ros_nodes.mission.team_log import TeamLog
from ros_nodes.operation.robot_monitor import SILENT, Change


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
    real = {"name": "cf2", "bundle": "pd.onnx", "driver": driver, "options": options, "base_pose": [1, 0, 0, 0]}
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


def busy(monkeypatch, load: float, others: float, stolen: float) -> MachineLoad:
    """A machine of two cores that is used so by others, in cores."""
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
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
    processes._process_of = dict.fromkeys(["cf1/driver", "cf1/shield"], "cf1_shield_host")
    processes._process_of["fleet/recorder"] = "fleet_recorder"
    (tmp_path / "fleet_recorder.log").write_text("[INFO] [17.3] [other.node]: news of another node is none of it\n")
    refused, late = run_team._not_up(processes, tmp_path / "not_up.json", busy(monkeypatch, 9.0, 1.9, 0.0))
    assert refused == ("cf1", "node /cf1/driver refused to configure: no answer")
    assert processes.last_line_of("/cf1/shield") == "x", "its news is all that is known of it"
    assert late[1].startswith("node /fleet/recorder did not configure within 30 s: no output; the machine may be too")


def test_a_robot_with_orders_whose_policy_never_had_it_is_named_with_what_it_waits_for():
    said = Said()
    log = TeamLog(said, ["arm", "other"])
    starts = [("DISARMED", "ARMED"), ("ARMED", "STARTING")]
    said += [Change(time.time(), robot, *change, "") for robot in ("arm", "other") for change in starts]
    why = "waiting for operator command on goal"
    said.robots = tuple({"robot": r, "state": "STARTING", "reason": why, "rates_hz": {}} for r in ("arm", "other"))
    log.listen()
    assert log.idle() == [], "it may be a person who gives the goal"
    assert log.idle({"arm"}) == [{"robot": "arm", "why": f"its policy never had it: {why}"}]
    said.append(Change(time.time(), "arm", "STARTING", "POLICY", "started"))
    log.listen()
    assert log.idle({"arm"}) == []


def test_a_trouble_is_told_once_when_it_comes_and_neither_what_was_asked_for_nor_what_was_so_before():
    said = Said()
    log = TeamLog(said, ["cf1", "cf2"])
    changes = [("", "STOPPED", "a person"), ("POLICY", "LANDING", "state 115 ms old"), ("POLICY", "LANDING", ASKED)]
    said += [Change(time.time(), "cf1", *change) for change in changes]
    assert log.listen() == [("cf1", "LANDING: state 115 ms old")]
    assert log.listen() == []


def test_a_robot_that_left_its_fence_is_said_at_once_and_is_a_failure():
    said, where = Said(), "outside the geofence: y = -5.94 m, allowed -2.4 .. 2.4"
    log = TeamLog(said, ["cf1"])
    said += [Change(time.time(), "cf1", "POLICY", "POLICY", "no request for 285 ms: the policy was late, or had ended")]
    said += [Change(time.time(), "cf1", "LANDING", "LANDING", where)]
    assert log.listen() == [("cf1", f"LANDING: {where}")]
    assert [failure["why"] for failure in log.result()["failures"]] == [f"LANDING: {where}"]


def test_the_rates_of_a_result_leave_no_robot_out(monkeypatch):
    monkeypatch.setattr(team_log, "RATES_S", 0.0)
    said = Said()
    log = TeamLog(said, ["cf1", "cf2"])
    never = {"robot": "cf2", "state": "ARMED", "rates_hz": {"odom": 99.0}}
    for rate_hz in (48.0, 50.0, 52.0):
        said.robots = ({"robot": "cf1", "state": "POLICY", "rates_hz": {"odom": rate_hz, "command": None}}, never)
        log.listen()
    unknown = {"requested": None, "command": None}
    assert log.result()["rates_hz"] == {
        "cf1": {"odom": {"median": 50.0, "min": 48.0}, **unknown},
        "cf2": {"odom": None, **unknown},
    }


def test_a_landing_that_ends_in_a_fault_is_one_failure_with_all_that_it_was_for():
    said = Said()
    log = TeamLog(said, ["cf1"])
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
    log = TeamLog(said, ["cf1"])
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
    log = TeamLog(said, ["cf1"])
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
    said.append(Change(now_s, "cf4", "STARTING", "POLICY", ""))  # its shield was killed before it could land
    log.listen()
    failures = {failure["robot"]: failure["why"] for failure in log.result()["failures"]}
    said.robots = tuple({"robot": name, "reason": ""} for name in ("arm1", "cf9"))
    assert log.idle() == [{"robot": "cf9", "why": "never armed: nothing is said of why"}]
    unknown = "not known to be down 0 s after it was asked to land: last in"
    assert failures == {"cf1": f"{unknown} LANDING", "cf2": f"{SILENT}: silent for 5 s", "cf4": f"{unknown} POLICY"}


def test_a_real_humanoid_that_ended_in_fault_is_left_to_a_person_and_no_simulated_one_nor_one_that_was_disarmed():
    running = object.__new__(run_team._RunningTeam)
    running._on_feet, running._simulated_robots = ["g1", "g2", "sim"], ["sim"]
    events = [{"robot": name, "to": "FAULT", "reason": "fallen"} for name in ("g1", "g2", "sim", "cf1")]
    events += [{"robot": "g2", "to": "DISARMED", "reason": ""}, {"robot": "g1", "to": SILENT, "reason": "silent"}]
    assert running._not_held(events) == {"g1": "FAULT: fallen"}


def test_who_is_not_armed_lies_damped_or_is_flown_by_somebody_else_is_left_as_it_is_and_no_other_robot():
    said, flown = Said(), "flown in mode POSCTL by its remote control"
    log = TeamLog(said, ["a", "z"])
    robots = [("a", "FAULT", "DAMP", ""), ("b", "FAULT", "HOLD", ""), ("c", "DISARMED", "OFF", "")]
    robots += [("d", "POLICY", "NOMINAL", "link lost"), ("e", "FAULT", "OFF", flown)]
    said.robots = tuple(dict(zip(("robot", "state", "mode", "device"), each, strict=True)) for each in robots)
    assert log.left_alone(False).items() - log.left_alone(True).items() == {("z", "not armed")}, "it was not heard"
    left = log.left_alone(True)
    assert left.pop("e").startswith(flown) and left == {"a": "damped", "c": "not armed"}
    said.robots[4]["device"] = "its driver is silent for 4 s"  # it has ended
    assert log.taken() == {"e": flown}
    said.robots[4]["device"] = ""
    assert log.taken() == {}


def test_a_fault_of_a_device_that_is_gone_says_how_it_connects_again():
    said, lost = Said(), "device: link lost: nothing heard since 12:00:00"
    log = TeamLog(said, ["ur"])
    said += [Change(time.time(), "ur", "POLICY", "FAULT", lost), Change(time.time(), "cf", "POLICY", "FAULT", "tilted")]
    (_, first), (_, second) = log.listen()
    assert first.startswith(f"FAULT: {lost}; ") and first.endswith("phalanx operate reconnect ur")
    assert second == "FAULT: tilted"
