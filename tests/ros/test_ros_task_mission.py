"""A mission that comes from a task: planned by its start, carried out in ROS 2, judged by its terms."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from places import ROOT, ZOO

pytest.importorskip("rclpy")
pytest.importorskip("torch")
from deploy.bundle import load_bundle
from deploy.shield import make_shield_params
from hardware import load_robot
from phalanx.missions.criterion import task_criterion
from phalanx.missions.film import load_mission_flight
from phalanx.missions.plan import plan_mission
from phalanx.missions.task import plan_task
from ros_nodes.lifecycle.series import CUT
from ros_nodes.mission.deploy import run_mission
from ros_nodes.mission.ground_truth import ground_truth_columns, read_ground_truth
from ros_nodes.mission.mission_metrics import load_recording, mission_metrics
from ros_nodes.plans.mission import Order, load_mission
from sim.tasks import load_task, task_names

pytestmark = pytest.mark.ros
FILE = ZOO / "reach.onnx"
CONTRACT = load_bundle(FILE).contract


@pytest.fixture(scope="module")
def conducted(tmp_path_factory):
    """An arm reaches for two poses; then its policy is killed."""
    out = tmp_path_factory.mktemp("mission")
    mission, criterion = plan_mission({str(FILE): CONTRACT}, None, 9.0, 7.0, seed=3)
    return run_mission(mission, out, criterion), out, mission


def test_an_arm_reaches_what_the_task_asks_for_until_its_policy_dies(conducted):
    result, _, mission = conducted
    assert mission.names == ("panda_1",) and mission.checks_s == (3.0, 6.0, 9.0)
    assert result["legs"] == [True, True]  # the team ends before the third
    assert result["stopped_safely"] is True and result["landed_safely"] is None
    assert result["failures"] == [] and result["shield"]["violations"] == 0
    assert 0 < result["kill_to_fallback_ms"] < 200
    assert result["control_hz"] == pytest.approx(50.0, rel=0.05)


def test_a_mission_of_an_arm_leaves_its_plan_its_figures_and_its_bag(conducted):
    from rosbags.highlevel import AnyReader

    result, out, mission = conducted
    assert json.loads((out / "result.json").read_text()) == result
    np.testing.assert_array_equal(load_mission(out / "plan.json").team[0].joint_pos, mission.team[0].joint_pos)
    with AnyReader([out / "bag"]) as bag:
        counts = {connection.topic: connection.msgcount for connection in bag.connections}
    assert counts["/panda_1/joint_states"] > 2000
    # The first is sent twice, before the mission and as it begins: a bag begun in between holds the second of them.
    assert counts["/panda_1/goal"] in (3, 4)
    assert counts["/panda_1/command"] > 400 and counts["/panda_1/odom"] > 400


def test_two_arms_close_their_fingers_on_a_bar_and_lift_it_behind_their_shields(tmp_path):
    """A file that closed them faster than a shield lets their targets move lifted none."""
    file = ZOO / "bimanual-lift.onnx"
    mission, criterion = plan_mission({str(file): load_bundle(file).contract}, None, None, None, seed=0)
    result = run_mission(mission, tmp_path, criterion)
    assert result["legs"] == [True], result["failures"]


def test_a_mission_whose_end_a_full_disk_does_not_hold_fails_for_that(conducted, tmp_path):
    _, out, mission = conducted
    shutil.copytree(out / "series", tmp_path / "series")
    file = tmp_path / "series" / "simulated_robots_truth.npy"
    rows = np.load(file)
    begin_s = float(rows["time_s"][0])
    rows["time_s"][np.argmax(rows["time_s"] > begin_s + 5.0)] = CUT  # as the writer marks it
    np.save(file, rows)
    recording = load_recording(tmp_path / "series", mission, round(begin_s * 1e9), None, {"panda_1": []})
    (failure,) = recording.cut
    assert failure["t_s"] == pytest.approx(5.0, abs=0.05)
    assert failure["why"].startswith("series/simulated_robots_truth.npy ends here, for the disk was full")
    _, criterion = plan_mission({str(FILE): CONTRACT}, None, 9.0, 7.0, seed=3)
    found = mission_metrics(recording, [make_shield_params(load_robot("panda"))], criterion)
    assert failure in found["failures"] and not found["mission_success"]


def test_a_policy_is_killed_when_something_has_been_judged_and_some_time_is_left():
    assert plan_task(load_task("reach"), 1, 4.0, 5.5, seed=0).duration_s == 9.0
    with pytest.raises(ValueError, match="kill_after_s = 2: must be after the first episode, 3 s"):
        plan_task(load_task("reach"), 1, 9.0, 2.0, seed=0)


def flyer(task: str = "swarm-swap"):
    """The contract of a Crazyflie's policy."""
    return structs.replace(load_bundle(ZOO / "swarm-swap.onnx").contract, task=task)


def test_a_policy_of_an_unknown_task_is_refused_and_swaps_places_only_when_asked_to():
    with pytest.raises(ValueError, match=r"yaw.onnx: unknown task 'hover-yaw'.*With --mission swap"):
        plan_mission({"yaw.onnx": flyer("hover-yaw")}, None, None, "auto", seed=0)
    mission, _ = plan_mission({"yaw.onnx": flyer("hover-yaw")}, None, None, "auto", seed=0, swap=True)
    assert len(mission.names) == 4 and not mission.task
    alone, _ = plan_mission({"hover.onnx": flyer("hover")}, None, None, "auto", seed=0)
    assert alone.task == "hover" and len(alone.names) == 1
    with pytest.raises(ValueError, match=r"reach.onnx: is for robot 'panda'; the swap is for 'crazyflie'"):
        plan_mission({"reach.onnx": CONTRACT}, None, None, "auto", seed=0, swap=True)


@pytest.mark.parametrize("duration_s", [4.0, 5.0, 18.0, 600.0])
def test_a_kill_that_was_not_asked_for_fits_any_duration(duration_s):
    mission, _ = plan_mission({"swap.onnx": flyer()}, None, duration_s, "auto", seed=0)
    assert 3.0 <= mission.kill_s <= duration_s - 1.0
    with pytest.raises(ValueError, match="kill_after_s = 700: must be from 3 to"):
        plan_mission({"swap.onnx": flyer()}, None, duration_s, 700.0, seed=0)


@pytest.mark.parametrize("duration_s", [4.0, 7.5, 599.0])
def test_a_duration_that_may_be_is_never_rounded_to_one_that_may_not(duration_s):
    mission, _ = plan_mission({"reach.onnx": CONTRACT}, None, duration_s, None, seed=0)
    assert 4.0 <= mission.duration_s <= 600.0


@pytest.mark.parametrize("task", ["reach", "swarm-swap"])
def test_figures_that_no_mission_has_are_refused_and_only_missing_ones_are_the_tasks(task):
    policies = {"policy.onnx": flyer() if task == "swarm-swap" else CONTRACT}
    for robots in (0, -1):
        with pytest.raises(ValueError, match=f"robots = {robots}: a team needs at least one"):
            plan_mission(policies, robots, None, None, seed=0)
    for duration_s in (0.0, -3.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"duration_s = {duration_s:g}: must be from 4 to 600"):
            plan_mission(policies, None, duration_s, None, seed=0)
    for kill_s in (np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match=f"kill_after_s = {kill_s:g}: must be "):
            plan_mission(policies, None, None, kill_s, seed=0)
    mission, _ = plan_mission(policies, None, None, None, seed=0)
    assert (len(mission.names), mission.duration_s) == ((1, 6.0) if task == "reach" else (4, 18.0))


@pytest.mark.parametrize(("robots", "duration_s"), [(8, 18.0), (16, 36.0)])
def test_a_large_team_has_time_to_pass_the_middle(robots, duration_s):
    mission, _ = plan_mission({"swap.onnx": flyer()}, robots, None, "auto", seed=0)
    assert mission.duration_s == duration_s and mission.kill_s == 11 / 18 * duration_s
    assert mission.checks_s[0] > duration_s / 2, "the way there takes as long as a swap in simulation, and a take-off"


def test_the_report_shows_the_arm_and_where_its_tool_was_sent(conducted):
    _, out, mission = conducted
    flight = load_mission_flight(out / "flight.npz", mission)
    assert flight.film is not None and len(flight.film.pos) == len(flight.t) > 400
    moved = np.linalg.norm(flight.film.pos[-1] - flight.film.pos[0], axis=-1)
    assert moved.max() > 0.1
    (marker,) = flight.film.markers
    np.testing.assert_allclose(marker.pos[100], mission.orders[0].commands["panda_1"]["goal_pos"])


def test_what_the_policy_would_refuse_is_refused_before_anything_starts(tmp_path):
    mission, criterion = plan_mission({str(FILE): CONTRACT}, None, None, None, seed=0)
    for asked, complaint in (
        (
            {"goal_pos": np.array([0.5, 0.0, 2.0])},
            r"commands panda_1 goal_pos = \[0.5, 0.0, 2.0\]; the policy was trained for",
        ),
        ({"velocity": np.zeros(3)}, "commands 'velocity'; the policy takes: goal_pos, goal_quat"),
        ({"goal_quat": np.zeros(4)}, "goal_quat = .*; a quaternion wxyz has a length of 1"),
    ):
        with pytest.raises(ValueError, match=complaint):
            run_mission(replace(mission, orders=(Order(0.0, {"panda_1": asked}),)), tmp_path / "out", criterion)
    (member,) = mission.team
    for joint_pos, complaint in (
        (np.zeros(0), "the mission begins with 0 joint_pos of panda_1; panda has 8"),
        (np.full(8, 9.0), "begins with joint1 of panda_1 at 9; its range is -2.8973 to 2.8973"),
        (np.full(8, np.nan), "begins with joint1 of panda_1 at nan"),
    ):
        with pytest.raises(ValueError, match=complaint):
            run_mission(replace(mission, team=(replace(member, joint_pos=joint_pos),)), tmp_path / "out", criterion)
    with pytest.raises(ValueError, match="is for robot 'panda', this robot has 'ur5e'"):
        run_mission(replace(mission, team=(replace(mission.team[0], robot="ur5e"),)), tmp_path / "out", criterion)
    assert not (tmp_path / "out").exists()


def test_what_a_mission_cannot_show_is_refused():
    with pytest.raises(ValueError, match="velocity-rough: a mission is on a level floor"):
        plan_task(load_task("velocity-rough"), None, 4.0, None, seed=0)
    with pytest.raises(ValueError, match=r"robots = 40: .* at most 16"):
        plan_task(load_task("hover"), 40, 4.0, None, seed=0)
    with pytest.raises(ValueError, match="velocity is for one robot at the origin, not for 2"):
        plan_task(load_task("velocity"), 2, 4.0, None, seed=0)


@pytest.mark.parametrize("name", [name for name in task_names() if name != "velocity-rough"])
def test_every_task_becomes_a_mission_that_its_own_terms_can_judge(name, tmp_path):
    """The robots stand still at their start for the whole mission: that is judged, and is mostly no success."""
    task = load_task(name)
    mission = plan_task(task, None, 4.0, None, seed=5)
    assert all(order.t_s >= 0.0 for order in mission.orders) and mission.checks_s[-1] == mission.duration_s >= 4.0
    time_s = np.arange(0.0, mission.duration_s, 0.02)
    series = {column: np.zeros(len(time_s)) for column in ground_truth_columns(mission)} | {"time_s": time_s}
    for member in mission.team:
        row = [*member.base_pose, *np.zeros(6), *member.joint_pos]
        series |= {f"{member.name}_{i}": np.full(len(time_s), value) for i, value in enumerate(row)}
    for thing, pose in mission.objects.items():
        series |= {f"{thing}_{i}": np.full(len(time_s), value) for i, value in enumerate(pose)}
    outcome = task_criterion(task)(mission, read_ground_truth(series, mission))
    assert outcome.success.shape == (len(time_s), len(mission.names))
    assert all(failed.shape == outcome.success.shape for failed in outcome.terminations.values())
    assert not any(failed[0].any() for failed in outcome.terminations.values()), "a start that has already failed"


def test_a_mission_finds_a_task_of_the_users_own_again(monkeypatch):
    root = ROOT
    monkeypatch.syspath_prepend(root / "examples")
    contract = load_bundle(root / "zoo" / "swarm-swap.onnx").contract
    own = structs.replace(contract, task="own_task:NARROW_SWAP")
    mission, _ = plan_mission({"own.onnx": own}, 4, None, None, 0)
    assert load_task(mission.task).name == "narrow-swap"
