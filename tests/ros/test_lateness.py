"""A landing that this computer is to blame for says so: its own loops know by how much they were late."""

import pytest

pytest.importorskip("rclpy")
from ros_nodes.lifecycle.lateness import Lateness


@pytest.mark.parametrize(
    ("late_s", "load", "says"),
    [
        (0.001, 1.5, ""),
        (0.085, 1.5, "this computer was late: a loop of its process woke up 85 ms late, load 1.5 on 2 cores"),
        (0.001, 6.0, "this computer is busy: load 6.0 on 2 cores"),
    ],
)
def test_it_says_how_late_a_loop_was_or_that_the_computer_is_busy(monkeypatch, late_s, load, says):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    lateness = Lateness()
    lateness.note(10.0, late_s)
    lateness.note(10.1, 0.0)
    assert lateness.says(10.6) == says
    assert "was late" not in lateness.says(13.0), "too long ago to explain anything"
