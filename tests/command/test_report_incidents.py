"""The rows of a report that say what happened to robots."""

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
