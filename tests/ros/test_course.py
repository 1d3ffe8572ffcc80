"""Goals that are sent one after the other."""

import numpy as np
import pytest

from ros_nodes.plans.course import Course, CourseProgress

GOALS = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
FAR = np.array([0.0, 0.0, 5.0])


@pytest.fixture
def progress() -> CourseProgress:
    begun = CourseProgress(Course(GOALS, within_m=0.3, below_m_s=1.0))
    assert begun.step(False, FAR, 0.0, 1) is None and begun.step(True, FAR, 0.0, 2) is None, (
        "the first is in the orders"
    )
    return begun


def test_the_next_goal_is_sent_where_one_is_passed_near_slowly_and_by_its_policy(progress):
    near = GOALS[0] + [0.0, 0.29, 0.0]
    assert progress.step(True, GOALS[0] + [0.0, 0.31, 0.0], 0.0, 3) is None, "too far"
    assert progress.step(True, near, 1.1, 4) is None, "too fast"
    assert progress.step(True, GOALS[1], 0.0, 5) is None, "not the one that is due"
    assert progress.passed_ns == []
    assert (progress.step(True, near, 0.9, 6) == GOALS[1]).all()
    assert (progress.step(True, GOALS[1], 0.0, 7) == GOALS[2]).all()
    assert progress.step(True, GOALS[2], 0.0, 8) is None and progress.step(True, GOALS[2], 0.0, 9) is None
    assert progress.passed_ns == [6, 7, 8]


def test_nothing_is_passed_by_who_is_not_flown_by_its_policy_or_was_never_seen(progress):
    assert progress.step(False, GOALS[0], 0.0, 3) is None
    progress.step(True, np.full(3, np.nan), np.nan, 4)
    assert progress.passed_ns == []


def test_a_robot_that_is_started_again_is_sent_the_goal_that_was_due_once(progress):
    progress.step(True, GOALS[0], 0.0, 3)
    assert progress.step(False, FAR, 0.0, 4) is None, "it was stopped"
    assert (progress.step(True, FAR, 0.0, 5) == GOALS[1]).all()
    assert progress.step(True, FAR, 0.0, 6) is None, "it is sent once, and a person may send another one"
    assert (progress.step(True, GOALS[1], 0.0, 7) == GOALS[2]).all(), "the course goes on"


def test_a_robot_at_the_end_of_its_course_is_sent_nothing_when_it_is_started_again(progress):
    for now_ns, goal in enumerate(GOALS, 3):
        progress.step(True, goal, 0.0, now_ns)
    assert progress.step(False, FAR, 0.0, 8) is None and progress.step(True, FAR, 0.0, 9) is None
