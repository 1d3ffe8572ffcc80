"""What anybody may send as a robot's course."""

import pytest

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from ros_nodes.messages import course


def _said(goals: str, passed: str) -> DiagnosticArray:
    values = [KeyValue(key=course.GOALS, value=goals), KeyValue(key=course.PASSED, value=passed)]
    return DiagnosticArray(status=[DiagnosticStatus(values=values)])


def test_what_was_said_is_read() -> None:
    assert course.read(course.message("cf1", 3, [10**9, 2 * 10**9])) == {"goals": 3, "passed_s": [1.0, 2.0]}


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "nan", "1" * 5000, "²"])
def test_words_that_are_no_numbers_end_no_command_that_watches(text: str) -> None:
    assert course.read(_said(text, text)) == {"goals": 0, "passed_s": []}
