"""Mission files: what is written is read, and bad ones are named."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

pytest.importorskip("rclpy")
from ros_nodes.mission import Mission, MissionError, Order, load_mission, plan_swap, save_mission, yaw_of


def assert_same(found: Mission, expected: Mission) -> None:
    for field in fields(Mission):
        np.testing.assert_equal(getattr(found, field.name), getattr(expected, field.name), err_msg=field.name)


def test_a_mission_survives_its_file(tmp_path):
    swap = plan_swap(3, 18.0, 11.0, seed=4)
    cube = replace(
        swap, scene="push", noise={"pos_m": 0.001}, objects={"cube": np.array([0.4, 0.0, 0.02, 1.0, 0.0, 0.0, 0.0])}
    )
    arm = replace(swap, robot="panda", joint_pos=np.arange(24.0).reshape(3, 8) / 7, kill_s=None)
    for mission in (swap, cube, arm):
        save_mission(mission, tmp_path / "plan.json")
        found = load_mission(tmp_path / "plan.json")
        assert [order.t_s for order in found.orders] == [order.t_s for order in mission.orders]
        for read, said in zip(found.orders, mission.orders, strict=True):
            np.testing.assert_equal(dict(read.commands), dict(said.commands))
        assert_same(replace(found, orders=()), replace(mission, orders=()))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data | {"format": "phalanx-mission/9"}, "format 'phalanx-mission/9' is not"),
        (lambda data: [], "is not a mission"),
        (lambda data: data | {"wind": 3}, "is not a mission: .*wind"),
        (lambda data: {k: v for k, v in data.items() if k != "names"}, "is not a mission: 'names'"),
        (lambda data: data | {"base_pose": [[0, 0, 1]]}, "is not a mission: cannot reshape"),
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


def test_the_command_in_force_is_the_last_one_said():
    orders = tuple(Order(t, {"velocity": np.array([[x, 0.0, 0.0]])}) for t, x in ((1.0, 0.5), (3.0, -0.5)))
    mission = replace(plan_swap(1, 10.0, None, seed=0), orders=orders)
    found = mission.command_at("velocity", np.array([0.5, 1.0, 2.9, 3.0, 9.0]))[:, 0, 0]
    np.testing.assert_array_equal(found, [np.nan, 0.5, 0.5, -0.5, -0.5])


def test_the_swap_begins_and_ends_where_it_says():
    mission = plan_swap(4, 18.0, 11.0, seed=1)
    there, back = mission.orders
    np.testing.assert_allclose(there.commands["goal_pos"][:, :2], -mission.base_pose[:, :2])
    np.testing.assert_allclose(back.commands["goal_pos"], mission.base_pose[:, :3])
    assert mission.checks_s == (back.t_s, 18.0) and back.t_s < mission.kill_s
    np.testing.assert_allclose([yaw_of(p)[:3] for p in mission.base_pose], mission.base_pose[:, :3])
