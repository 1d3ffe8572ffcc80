"""Robots of a team file that stand where they could never be armed are refused when it is read."""

import pytest
from places import ZOO

pytest.importorskip("rclpy")
from ros_nodes.plans.team import TeamError
from ros_nodes.plans.team_file import load_team

REACH = ZOO / "reach.onnx"
REAL = "driver: 'mujoco_driver:MujocoDriver', options: {log: x}"


def arms(folder, apart_m: float, yaw: float = 0.0, keys: str = "", scene: str = ""):
    """A team file of two Pandas, the second `apart_m` ahead of the first and turned by `yaw`."""
    file = folder / "team.yaml"
    of_right = f"base_pose: [{apart_m}, 0, 0, {yaw}]{', ' * bool(keys)}{keys}"
    file.write_text(
        f"robots: [{{name: left, bundle: {REACH}}}, {{name: right, bundle: {REACH}, {of_right}}}]\n{scene}\n"
    )
    return file


@pytest.mark.parametrize("keys", ["", REAL], ids=["simulated", "real"])
def test_two_arms_in_one_place_are_refused_at_once_with_both_names_and_how_far_they_are_apart(tmp_path, keys):
    """Nothing was said for 80 s, in which neither shield let its arm be armed. Of a real one the base is known."""
    for apart_m in (0.0, 0.05):
        says = rf"left: its base is 0\.\d+ m inside that of right; left and right stand {apart_m:.2f} m apart"
        with pytest.raises(TeamError, match=says):
            load_team(arms(tmp_path, apart_m, keys=keys))
    assert len(load_team(arms(tmp_path, 1.2, keys=keys)).robots) == 2


def test_a_simulated_arm_does_not_begin_inside_of_another_nor_of_what_stands_there(tmp_path):
    """A real one may: nothing is known of its joints before it is measured."""
    with pytest.raises(TeamError, match=r"left: in its home pose 0\.\d+ m inside right.*right stand 0\.60 m apart"):
        load_team(arms(tmp_path, 0.6, 3.14159))
    assert len(load_team(arms(tmp_path, 0.6, 3.14159, REAL)).robots) == 2
    shelf = "scene: {obstacles: [{name: shelf, pose: [0.4, 0, 0.6, 0], size: [0.3, 0.3, 0.3]}]}"
    with pytest.raises(TeamError, match=r"left: in its home pose 0\.\d+ m inside shelf, at least 0\.00 needed$"):
        load_team(arms(tmp_path, 1.5, scene=shelf))


def test_humanoids_that_stand_nearer_to_each_other_or_to_a_wall_than_they_are_armed_are_refused(tmp_path):
    def team(apart_m: float, scene: str = ""):
        file, bundle = tmp_path / "team.yaml", ZOO / "stand-h1.onnx"
        places = ((name, x) for name, x in (("left", 0.0), ("right", apart_m)))
        robots = ", ".join(f"{{name: {name}, bundle: {bundle}, base_pose: [{x}, 0, 1.04, 0]}}" for name, x in places)
        file.write_text(f"robots: [{robots}]\n{scene}\n")
        return load_team(file)

    says = r"left: 0\.02 m inside right, at least 0\.45 needed; left and right stand 1\.30 m apart"
    with pytest.raises(TeamError, match=says):
        team(1.3)
    wall = "scene: {obstacles: [{name: wall, pose: [-0.5, 0, 1, 0], size: [0.2, 3, 2]}]}"
    with pytest.raises(TeamError, match=r"left: 0\.40 m from wall, at least 0\.45 needed$"):
        team(1.9, wall)
    assert len(team(1.9).robots) == 2
