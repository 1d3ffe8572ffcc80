"""The rows of a report that say what happened to robots."""

import json

import pytest

from phalanx.commands.report import report
from phalanx.report.incidents import incident_rows

LATE = "the policy was late, or had ended"


def test_changes_come_first_and_delays_of_a_robot_are_one_row():
    events = [{"t_s": 0.0, "robot": "cf1", "from": "", "to": "POLICY (NOMINAL)", "reason": ""}]
    for k in range(100):
        reason = f"no request for {101 + k} ms: {LATE}"
        events.append({"t_s": 1.0 + k, "robot": "cf1", "from": "POLICY", "to": "POLICY", "reason": reason})
    stood = "no command for 250 ms: the shield's process stood still"
    events.append({"t_s": 7.0, "robot": "cf2", "from": "POLICY", "to": "POLICY", "reason": stood})
    events.append({"t_s": 120.0, "robot": "cf1", "from": "POLICY", "to": "LANDING", "reason": "state 126 ms old"})
    assert incident_rows(events) == [
        {"robot": "cf1", "t_s": 0.0, "what": "start to POLICY (NOMINAL)", "why": ""},
        {"robot": "cf1", "t_s": 120.0, "what": "POLICY to LANDING", "why": "state 126 ms old"},
        {"robot": "cf1", "t_s": 1.0, "what": "100 delays until 100.0 s", "why": f"no request for up to 200 ms: {LATE}"},
        {"robot": "cf2", "t_s": 7.0, "what": "delay", "why": stood},
    ]


def test_a_team_without_a_failure_gets_a_page_and_a_folder_without_a_result_is_named(tmp_path):
    events = [{"t_s": 1.0, "robot": "cf1", "from": "ARMED", "to": "POLICY", "reason": "started"}]
    with pytest.raises(ValueError, match=f"^{tmp_path}: has no result.json; give the folder of a deployment"):
        report(tmp_path)
    with pytest.raises(ValueError, match=f"^{tmp_path}/nowhere: no such folder"):
        report(tmp_path / "nowhere")
    (tmp_path / "result.json").write_text(json.dumps({"failures": [], "events": events}))
    assert report(tmp_path) == 0
    page = (tmp_path / "report.html").read_text()
    assert f"<title>{tmp_path.name}: deployed without a failure</title>" in page and '"success":true' in page
    for wrong, says in (("{", "is damaged"), ("[]", "is no result of a deployment")):
        (tmp_path / "result.json").write_text(wrong)
        with pytest.raises(ValueError, match=says):
            report(tmp_path)
