"""Values of a team file that cannot be: one line names key and value, cut where it is long, and what is allowed."""

import time

import pytest

pytest.importorskip("rclpy")
from test_team_file import write

from ros_nodes.plans.team import TeamError
from ros_nodes.plans.team_file import load_team

ROBOT, LONG = "robots: [{name: cf1, bundle: HOVER, %s}]", "d" * 5000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ROBOT % "shield: {ramp_s: a}", "robots[0].shield of cf1: shield parameter ramp_s = 'a': must be a number"),
        (ROBOT % "shield: {max_speed: }", "shield parameter max_speed = None: must be a number"),
        (
            ROBOT % "shield: {geofence_low: [1, a, 2]}",
            "shield parameter geofence_low = [1, 'a', 2]: must be a list of numbers",
        ),
        (ROBOT % f"driver: {LONG}", f"robots[0].driver = {LONG[:60]}: expected `str` of length <= 1000"),
        (ROBOT % f"driver: {LONG[:900]}", f"driver of cf1: driver '{LONG[:60]}'...: a name has 300 characters at most"),
        (ROBOT % f"group: {LONG}", f"robots[0].group = {LONG[:60]}: expected `str` of length <= 100"),
        (
            f"{ROBOT % ''}\nscene: {{obstacles: [{{name: {LONG}}}]}}",
            f"name = {LONG[:60]}: expected `str` of length <= 100",
        ),
        (
            ROBOT % "base_pose: [1e300, 0, 1, 0]",
            "base_pose[0] = 1e300: expected `float`, got `str`: YAML takes it for text, write 1.0e+300",
        ),
        (
            ROBOT % "base_pose: [0, -2.5e1, 1, 0]",
            "-2.5e1: expected `float`, got `str`: YAML takes it for text, write -2.5e+1",
        ),
        (
            ROBOT % "base_pose: [1.0e+300, 0, 1, 0]",
            "robots[0].base_pose of cf1: 1e+300: every number must be from -10000 to 10000",
        ),
        (ROBOT % "within_m: 0.2", "robots[0].goals of cf1: none, so within_m = 0.2 is of no goal"),
        (f"requires: {LONG}\nrobots: [{{name: cf1, bundle: HOVER}}]", f"requires '{LONG[:60]}': choose from verified"),
    ],
    ids=[
        "text",
        "nothing",
        "list",
        "driver",
        "module",
        "group",
        "obstacle",
        "no point",
        "no sign",
        "far",
        "no goals",
        "level",
    ],
)
def test_a_value_that_cannot_be_is_one_short_line_that_names_it(tmp_path, text, says):
    with pytest.raises(TeamError) as refused:
        load_team(write(tmp_path, text))
    assert says in str(refused.value) and len(str(refused.value).removeprefix(str(tmp_path))) < 200


def test_an_empty_file_is_called_so(tmp_path):
    with pytest.raises(TeamError, match=r"team.yaml: is empty; a team file lists its robots"):
        load_team(write(tmp_path, "# nothing yet"))


def test_paths_of_a_team_file_may_begin_with_the_home_of_its_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for text, key in (("bundle: ~/none.onnx", "bundle"), ("bundle: HOVER, type: ~/cf1.yaml", "type")):
        with pytest.raises(TeamError, match=rf"{key} of cf1: {tmp_path}/user/.*: no such file"):
            load_team(write(tmp_path, f"robots: [{{name: cf1, {text}}}]"))
    with pytest.raises(TeamError, match=f"mission: {tmp_path}/user/plan.json: cannot be read"):
        load_team(write(tmp_path, "{robots: [{name: cf1, bundle: HOVER}], mission: ~/plan.json}"))


def test_a_team_that_no_computer_carries_is_refused_at_once(tmp_path):
    """10,000 robots were looked at one by one, for longer than 40 s."""
    robots = ", ".join(f"{{name: cf{n}, bundle: HOVER}}" for n in range(10_000))
    began_s = time.process_time()
    with pytest.raises(TeamError, match=r"team.yaml: robots: 10000 of them, 256 at most$"):
        load_team(write(tmp_path, f"robots: [{robots}]"))
    assert time.process_time() - began_s < 10.0
