"""How far a robot has come on its course, from the operator to who watches."""

from collections.abc import Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from ros_nodes.messages.diagnostics import value_of

TOPIC = "course"
GOALS, PASSED = "goals", "passed [ns]"  # how many there are, and when each was passed, robot time


def message(robot: str, goals: int, passed_ns: Sequence[int]) -> DiagnosticArray:
    """That `robot` has passed so many of its `goals`, and when, robot time."""
    values = {GOALS: str(goals), PASSED: " ".join(map(str, passed_ns))}
    status = DiagnosticStatus(
        name=f"{robot}: course",
        hardware_id=robot,
        message=f"{len(passed_ns)} of {goals} goals passed",
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )
    return DiagnosticArray(status=[status])


def read(said: DiagnosticArray) -> dict[str, object]:
    """Of a `message`: how many `goals` there are, and `passed_s` of those that were passed, s of robot time."""
    count, passed = value_of(GOALS, said), value_of(PASSED, said).split()
    return {
        "goals": int(count) if _is_count(count) else 0,
        "passed_s": [int(ns) * 1e-9 for ns in passed if _is_count(ns)],
    }


def _is_count(text: str) -> bool:
    """Anybody may say anything on a topic."""
    return text.isdecimal() and len(text) < 20
