"""Mission files: what is written is read, and bad ones are named."""

import json
import os
from dataclasses import asdict, replace

import numpy as np
import pytest

pytest.importorskip("rclpy")
from ros_nodes.plans.mission import (
    HEIGHT_M,
    Member,
    MissionError,
    Order,
    load_mission,
    plan_swap,
    save_mission,
    team_names,
    yaw_of,
)


def test_a_mission_survives_its_file(tmp_path):
    swap = plan_swap(3, 18.0, 11.0, seed=4)
    cube = replace(
        swap, scene="push", noise={"pos_m": 0.001}, objects={"cube": np.array([0.4, 0.0, 0.02, 1.0, 0.0, 0.0, 0.0])}
    )
    arm = Member("panda_1", "panda", "arm", np.array([0.1, 0, 0, 1, 0, 0, 0]), np.arange(8.0) / 7)
    orders = tuple(Order(o.t_s, {"cf1": o.commands["cf1"], "panda_1": {"grip": np.zeros(1)}}) for o in swap.orders)
    mixed = replace(swap, team=(swap.team[0], arm), orders=orders, kill_s=None)
    for mission in (swap, cube, mixed.flown_by({"crazyflie": "one.onnx", "arm": "other.onnx"})):
        save_mission(mission, tmp_path / "plan.json")
        np.testing.assert_equal(asdict(load_mission(tmp_path / "plan.json")), asdict(mission))


def test_a_file_of_the_format_before_is_read(tmp_path):
    path, mission = tmp_path / "plan.json", plan_swap(2, 10.0, None, seed=0)
    save_mission(mission, path)
    old = path.read_text().replace('"group"', '"role"').replace("phalanx-mission/3", "phalanx-mission/2")
    assert '"role"' in old
    path.write_text(old)
    np.testing.assert_equal(asdict(load_mission(path)), asdict(mission))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data | {"format": "phalanx-mission/9"}, "format 'phalanx-mission/9' is not"),
        (lambda data: [], "is not a mission"),
        (lambda data: data | {"wind": 3}, "is not a mission: .*wind"),
        (lambda data: data | {"team": data["team"] + data["team"][:1]}, "each with a name of its own"),
        (lambda data: data | {"team": [data["team"][0] | {"name": "a b/c"}]}, "'a b/c': a name is letters"),
        (lambda data: data | {"team": []}, "at least one"),
        (lambda data: data | {"duration_s": float("nan")}, "duration_s = nan"),
        (lambda data: data | {"kill_robot": 9}, "kill_robot = 9: there are"),
        (lambda data: data | {"orders": data["orders"][::-1]}, "finite times, in order"),
        (lambda data: data | {"objects": {"load": [0.0] * 7}}, "load: pose .* is not a finite place"),
        (lambda data: {k: v for k, v in data.items() if k != "team"}, "is not a mission: 'team'"),
        (
            lambda data: data | {"team": [data["team"][0] | {"base_pose": [0, 0, 1]}]},
            "is not a mission: cannot reshape",
        ),
        (lambda data: data | {"team": [{"name": "cf1"}]}, "is not a mission: .*'base_pose' and 'joint_pos'"),
    ],
)
def test_a_bad_file_is_named_in_one_line(tmp_path, change, complaint):
    path = tmp_path / "plan.json"
    save_mission(plan_swap(2, 10.0, None, seed=0), path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(MissionError, match=complaint) as error:
        load_mission(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissionError, match=r"none\.json: cannot be read: No such file"):
        load_mission(tmp_path / "none.json")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_no_mission_and_is_not_waited_for(make, tmp_path):
    make(tmp_path / "plan.json")
    with pytest.raises(MissionError, match=r"plan\.json: is no file"):
        load_mission(tmp_path / "plan.json")


def test_the_command_in_force_is_the_last_one_said_to_that_robot():
    orders = (
        Order(1.0, {"cf1": {"velocity": np.array([0.5, 0.0, 0.0])}}),
        Order(2.0, {"cf2": {"velocity": np.array([9.0, 0.0, 0.0])}}),
        Order(3.0, {"cf1": {"velocity": np.array([-0.5, 0.0, 0.0])}}),
    )
    mission = replace(plan_swap(2, 10.0, None, seed=0), orders=orders)
    found = mission.command_at("velocity", np.array([0.5, 1.0, 2.9, 3.0, 9.0]), [0, 1])[..., 0]
    np.testing.assert_array_equal(found[:, 0], [np.nan, 0.5, 0.5, -0.5, -0.5])
    np.testing.assert_array_equal(found[:, 1], [np.nan, np.nan, 9.0, 9.0, 9.0])


def test_the_swap_begins_and_ends_where_it_says():
    mission = plan_swap(4, 18.0, 11.0, seed=1)
    there, back = mission.orders
    for member in mission.team:
        np.testing.assert_allclose(there.commands[member.name]["goal_pos"][:2], -member.base_pose[:2])
        np.testing.assert_allclose(back.commands[member.name]["goal_pos"][:2], member.base_pose[:2])
        assert member.base_pose[2] < 0.05 < HEIGHT_M[0] <= back.commands[member.name]["goal_pos"][2], "from the ground"
        np.testing.assert_allclose(yaw_of(member.base_pose)[:3], member.base_pose[:3])
    assert mission.checks_s == (back.t_s, 18.0) and back.t_s < mission.kill_s


def test_robots_are_named_by_what_they_are_and_counted_by_kind():
    names = team_names(["crazyflie", "panda", "crazyflie", "g1"])
    assert names == ["cf1", "panda_1", "cf2", "g1_1"]
