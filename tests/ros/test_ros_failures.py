"""A mission that fails says which robot, when and why; a hold that ends by itself is no failure."""

import os
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from deploy.shield import Mode, ShieldReport
from deploy.shield.authority import State
from hardware.types import RobotState
from phalanx.report.incidents import failure_lines
from ros_nodes.lifecycle.machine_load import MachineLoad
from ros_nodes.messages.diagnostics import ShieldMode, ShieldStatus, read_status
from ros_nodes.mission.deploy import unwritten
from ros_nodes.mission.failures import events, lost_robots, missed_goals, mission_failures, takeovers, terminated_robots
from ros_nodes.mission.ground_truth import GroundTruth
from ros_nodes.mission.mission_metrics import MODES, _kill_to_fallback_ms
from ros_nodes.mission.mission_success import MissionSuccess
from ros_nodes.plans.mission import plan_swap

MS = 1_000_000
MISSION = plan_swap(2, 10.0, None, seed=0)
TIME_S = np.arange(0.0, 10.0, 0.02)


def modes(*told) -> list[ShieldMode]:
    return [ShieldMode(mode, reason, latched, round(t_s * 1e9)) for t_s, mode, reason, latched in told]


CHANGES = {
    "cf1": modes(
        (-1.0, "NOMINAL", "", False), (2.0, "HOLD", "request 105 ms old", False), (2.2, "FILTERED", "", False)
    ),
    "cf2": modes(
        (-2.0, "HOLD", "waiting", False),
        (-1.0, "FILTERED", "", False),
        (4.0, "HOLD", "request 101 ms old", False),
        (4.5, "HOLD", "request 101 ms old", True),
        (6.0, "LAND", "request 101 ms old", True),
    ),
}


def test_a_takeover_is_told_with_robot_time_modes_and_reason():
    short, lasting = takeovers(CHANGES, 0)
    assert (short.robot, short.t_s, short.until_s, short.latched) == ("cf1", 2.0, 2.2, False)
    assert asdict(lasting) == {
        "robot": "cf2",
        "t_s": 4.0,
        "from_mode": "FILTERED",
        "to_mode": "HOLD",
        "reason": "request 101 ms old",
        "latched": True,
        "until_s": None,
    }


def test_a_robot_that_was_lost_just_before_the_mission_began_is_told():
    told = modes(
        (-3.0, "NOMINAL", "", False),
        (-2.0, "HOLD", "request 99 ms old", False),
        (-1.0, "NOMINAL", "", False),
        (-0.1, "HOLD", "request 104 ms old", False),
        (0.03, "LAND", "request 126 ms old", True),
    )
    (lost,) = takeovers({"cf1": told}, 0)
    assert (lost.t_s, lost.reason, lost.latched) == (-0.1, "request 126 ms old", True)


def test_a_robot_lost_for_good_is_a_failure_unless_its_policy_was_killed():
    (failure,) = lost_robots(MISSION, takeovers(CHANGES, 0), None)
    assert failure == {"robot": "cf2", "t_s": 4.0, "why": "shield FILTERED -> HOLD for good: request 101 ms old"}
    killed = plan_swap(2, 10.0, 3.9, seed=0)
    assert lost_robots(killed, takeovers(CHANGES, 0), 3.9)  # cf1 is the one that was killed
    killed_second = [t for t in takeovers(CHANGES, 0) if t.robot == "cf2"]
    killed_second[0].robot = "cf1"
    assert lost_robots(killed, killed_second, 3.9) == []


def test_every_change_of_hands_is_an_event():
    told = [
        ShieldMode("HOLD", "armed", False, -2_000_000_000, "ARMED"),
        ShieldMode("NOMINAL", "", False, 1_000_000_000, "POLICY"),
        ShieldMode("FILTERED", "separation cf2", False, 2_000_000_000, "POLICY"),
        ShieldMode("LAND", "request 700 ms old", True, 3_000_000_000, "LANDING"),
    ]
    assert [(e["t_s"], e["from"], e["to"], e["reason"]) for e in events({"cf1": told}, 0)] == [
        (-2.0, "", "ARMED", "armed"),
        (1.0, "ARMED", "POLICY", ""),
        (3.0, "POLICY", "LANDING", "request 700 ms old"),
    ]


def truth() -> GroundTruth:
    none = np.zeros((len(TIME_S), 3))
    state = RobotState(none[:, :0], none[:, :0], none, np.zeros((len(TIME_S), 4)), none, none, np.zeros(len(TIME_S)))
    return GroundTruth(TIME_S, [state] * 2, [np.zeros((len(TIME_S), 4))] * 2, {})


def test_a_missed_goal_and_a_failed_term_name_their_robot():
    success = np.ones((len(TIME_S), 2), bool)
    success[TIME_S > 9.5, 1] = False
    tipped = np.zeros_like(success)
    tipped[100:103, 0] = True
    outcome = MissionSuccess(success, {"tipped": tipped})
    assert missed_goals(MISSION, truth(), outcome, None) == [
        {"robot": "cf2", "t_s": 10.0, "why": "goal not held for 1 s"}
    ]
    (failure,) = terminated_robots(MISSION, truth(), outcome, None)
    assert failure == {"robot": "cf1", "t_s": 2.0, "why": "tipped, 3 moments"}
    assert terminated_robots(MISSION, truth(), outcome, 1.0) == []  # cf1's policy was dead by then


def test_what_went_wrong_is_told_before_the_goals_that_were_missed_for_it_and_these_in_a_line_for_each_leg():
    success, none = np.zeros((len(TIME_S), 2), bool), np.zeros((len(TIME_S), 2), bool)
    late, early = ({"robot": "cf1", "t_s": t_s, "why": f"why {t_s:g}"} for t_s in (11.0, 3.0))
    told = mission_failures(MISSION, truth(), MissionSuccess(success, {"tipped": none}), None, [late, early])
    assert failure_lines(told) == [
        "cf1 at 3.0 s: why 3",
        "cf1 at 11.0 s: why 11",
        "cf1, cf2 at 5.0 s: goal not held for 1 s",
        "cf1, cf2 at 10.0 s: goal not held for 1 s",
    ]


def test_a_mode_travels_as_a_key_whatever_its_reason_says():
    status = ShieldStatus("cf1", 0.5)
    peers = {"cf2": 0.012, "cf3": None}
    report = ShieldReport(Mode.HOLD, "NOMINAL: a reason that looks like a mode", 1.0, (), 0.0)
    assert status.update(0.0, State.POLICY, "", report, 0.1)
    read = read_status(status.message(5 * MS, peers))
    assert read.peers == pytest.approx(peers)
    assert (read.state, read.mode, read.reason) == ("POLICY", "HOLD", report.reason)
    assert (read.latched, read.time_ns) == (False, 5 * MS)
    assert not status.update(0.1, State.POLICY, "", report, 0.1)
    latched = ShieldReport(Mode.HOLD, "", 1.0, (), 0.0, latched=True)
    assert status.update(0.2, State.LANDING, "no state", latched, 0.1) and read_status(status.message(6 * MS)).latched
    assert read_status(DiagnosticArray()).mode == "?"
    for number in ("inf", "nan", "-1", "1e300", "9" * 5000, "many"):
        pairs = [KeyValue(key="interventions", value=number), KeyValue(key="age of peers [ms]", value=number)]
        assert read_status(DiagnosticArray(status=[DiagnosticStatus(values=pairs)])).interventions == 0


@pytest.mark.parametrize(
    ("state", "mode", "level"),
    [
        (State.DISARMED, Mode.OFF, DiagnosticStatus.OK),
        (State.POLICY, Mode.FILTERED, DiagnosticStatus.OK),
        (State.POLICY, Mode.HOLD, DiagnosticStatus.WARN),
        (State.LANDING, Mode.LAND, DiagnosticStatus.WARN),
        (State.FAULT, Mode.OFF, DiagnosticStatus.ERROR),
        (State.STOPPED, Mode.ESTOP, DiagnosticStatus.ERROR),
    ],
)
def test_diagnostics_have_the_level_of_the_robot(state, mode, level):
    status = ShieldStatus("cf1", 0.5)
    status.update(0.0, state, "why", ShieldReport(mode, "why", 1.0, (), 0.0), 0.1)
    found, message, values = status.summary()
    assert found == level and values["state"] == state.name
    assert message == ("" if level == DiagnosticStatus.OK else f"{state.name} ({mode.name}): why")


@pytest.mark.parametrize(
    ("told", "expected_ms"),
    [
        ([(0.0, "NOMINAL"), (5.1, "HOLD")], 100.0),
        ([(0.0, "NOMINAL"), (4.0, "HOLD"), (4.4, "FILTERED"), (5.1, "HOLD")], 100.0),  # had the robot, and gave it back
        ([(0.0, "NOMINAL"), (4.0, "HOLD")], None),  # had the robot before: the kill took nothing from it
        ([(0.0, "NOMINAL")], None),
    ],
)
def test_a_kill_is_measured_where_it_made_the_shield_take_over(told, expected_ms):
    mode = np.zeros(len(TIME_S))
    for t_s, name in told:
        mode[t_s - 1e-9 <= TIME_S] = MODES.index(name)
    recording = SimpleNamespace(
        killed_s=5.0, mission=SimpleNamespace(kill_robot=0), shields=[{"time_s": TIME_S, "mode": mode}]
    )
    assert _kill_to_fallback_ms(recording) == (expected_ms and pytest.approx(expected_ms))


def test_this_program_s_own_work_is_not_that_of_others():
    load = MachineLoad()
    total = sum(k * k for k in range(2_000_000))
    assert total and load.others() is not None and 0.0 <= load.others() < 256
    assert load.stolen() is not None and 0.0 <= load.stolen() < 256


def test_others_cannot_have_used_more_cores_than_there_are():
    """In a moment the kernel's ticks count for more than there was."""
    load = MachineLoad()
    busy_s, *rest = load._begin
    load._begin = busy_s - 1000.0, *rest
    assert load.others() == os.cpu_count()


def test_what_cannot_be_written_is_said_and_raises_nothing_and_no_part_of_it_stays(tmp_path):
    full, part = Path("/dev/full"), tmp_path / "result.json"

    def write_a_part():
        part.write_text("{")
        full.write_text("}")

    assert unwritten(full, lambda: full.write_text("{}")) == ["/dev/full: No space left on device"]
    assert unwritten(part, write_a_part) == [f"{part}: No space left on device"]
    assert full.exists() and not part.exists()
    assert unwritten(full, lambda: None) == []
