"""Goals of a team file: the course of a robot, refused at once where it cannot be flown."""

import pytest

pytest.importorskip("rclpy")
from test_team_file import write

from ros_nodes.plans.mission import load_mission, plan_swap, save_mission
from ros_nodes.plans.prepare import prepare
from ros_nodes.plans.team import TeamError
from ros_nodes.plans.team_file import load_team
from ros_nodes.plans.team_mission import team_mission


def test_goals_of_a_robot_are_its_course_and_each_is_one_that_its_policy_takes(tmp_path):
    text = "robots: [{name: cf1, bundle: HOVER, goals: [[0, 0, 1], [1, 0, 1.5]], within_m: 0.2}]"
    team = load_team(write(tmp_path, text))
    mission = team_mission(team)
    assert mission.orders[0].commands["cf1"]["goal_pos"].tolist() == [0, 0, 1]
    prepare(mission, tmp_path / "out", team)
    course = load_mission(tmp_path / "out" / "plan.json").courses["cf1"]
    assert (course.goals.tolist(), course.within_m) == ([[0, 0, 1], [1, 0, 1.5]], 0.2)
    wide = text.replace("[1, 0, 1.5]", "[2.9, 0, 1.5]").replace("within", "shield: {geofence_high: [3, 3, 3]}, within")
    far = team_mission(load_team(write(tmp_path, wide)))
    with pytest.raises(ValueError, match=r"commands cf1 goal_pos = \[2.9, 0.0, 1.5\]; the policy was trained for"):
        prepare(far, tmp_path / "far", team)
    with pytest.raises(TeamError, match=r"within_m = -1: expected `float` > 0"):
        load_team(write(tmp_path, text.replace("0.2", "-1")))
    with pytest.raises(TeamError, match=r"within_m = inf: expected `float` <= 5"):
        load_team(write(tmp_path, text.replace("0.2", ".inf")))
    save_mission(plan_swap(1, 18.0, None, 0), tmp_path / "plan.json")
    with pytest.raises(TeamError, match=r"goals of cf1: the mission plan.json has orders of its own"):
        load_team(write(tmp_path, f"{{{text}, mission: plan.json}}"))


def test_a_course_is_for_a_policy_that_takes_positions_alone(tmp_path):
    says = (
        r"goals of arm: .*reach.onnx takes goal_pos and goal_quat; a course is for a policy that takes goal_pos alone"
    )
    with pytest.raises(TeamError, match=says):
        load_team(write(tmp_path, "robots: [{name: arm, bundle: REACH, goals: [[0.5, 0.1, 0.4]]}]"))


@pytest.mark.parametrize(
    ("goals", "says"),
    [
        (
            "[[0, 0, 1], [2.45, 0, 1]]",
            "[1] = [2.45, 0.0, 1.0]: outside its geofence, [-2.4, -2.4, 0.2] to [2.4, 2.4, 2.4]",
        ),
        ("[[0, 0, .nan]]", "[0] = [0.0, 0.0, nan]: outside its geofence"),
        ("[[1.5, 0, 1]]", "[0] = [1.5, 0.0, 1.0]: 0.20 m inside shelf, at least 0.10 needed"),
        ("[[1.25, 0, 1]]", "[0] = [1.25, 0.0, 1.0]: 0.05 m from shelf, at least 0.10 needed"),
        ("[[-1, 0, 1]]", "[0] = [-1.0, 0.0, 1.0]: 0.50 m inside walkway, at least 0.10 needed"),
        (f"[{', '.join(1001 * ['[0, 0, 1]'])}]", "1001 of them, at most 1000"),
    ],
)
def test_a_goal_that_its_shield_lets_nobody_pass_is_refused_at_once(tmp_path, goals, says):
    scene = (
        "scene: {obstacles: [{name: shelf, pose: [1.5, 0, 1, 0], size: [0.4, 1.2, 2]}],"
        " keep_out: [{name: walkway, low: [-2, -1, 0], high: [-0.5, 1, 2], robots: [cf1]}]}"
    )
    other = "{name: cf2, bundle: HOVER, base_pose: [-1, 0, 0.02, 0], goals: [[-1, 0, 1]]}"
    robots = f"robots: [{{name: cf1, bundle: HOVER, goals: %s}}, {other}]"
    load_team(write(tmp_path, f"{robots % '[[1, 0, 1]]'}\n{scene}"))
    with pytest.raises(TeamError) as caught:
        load_team(write(tmp_path, f"{robots % goals}\n{scene}"))
    assert f"robots[0].goals of cf1: {says}" in str(caught.value)
    assert "\n" not in str(caught.value)
