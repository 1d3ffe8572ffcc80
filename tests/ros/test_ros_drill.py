"""One row of the drill for real: its table tells what happened."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from places import ZOO

pytest.importorskip("rclpy")
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from ros_rig import HOVER, SPEC, Rig

from hardware import load_robot
from hardware.types import ActuatorCommand, RobotState
from phalanx.commands.drill import drill as command
from ros_nodes.drill.drill import Outcome, _End, _outcome, drill, plan_drill, rows_for
from ros_nodes.drill.faults import ROWS
from ros_nodes.drill.relay import changed, delay, duplicates, loss, reordering, silence, unchanged
from ros_nodes.messages import qos
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.mission.ground_truth import GroundTruth
from ros_nodes.plans.mission import Member, Mission, Order, plan_swap, save_mission

STARTS = (("left", 0.0), ("right", 1.4))
pytestmark = pytest.mark.ros


class Driver:
    """Of a robot that is not there: a drill needs none."""


def test_a_killed_policy_is_held_landed_and_a_fault_and_its_neighbour_flies_on(tmp_path):
    """Robots of a team file, one of them behind a driver on the day: here both are simulated."""
    team = tmp_path / "team.yaml"
    robots = [f"  - {{name: {name}, bundle: {ZOO / 'swarm-swap.onnx'}, base_pose: [{x}, 0, 1, 0]" for name, x in STARTS]
    team.write_text("robots:\n" + robots[0] + "}\n" + robots[1] + ', driver: "test_ros_drill:Driver"}\n')
    (outcome,) = drill(team, tmp_path / "out", rows=["policy killed"])
    assert (outcome.state, outcome.other_state, outcome.cut_in_air) == ("FAULT", "POLICY", 0), outcome
    assert 2.0 < outcome.reaction_periods < 12.0 and 1.0 < outcome.least_distance_m < 1.5
    assert "request" in outcome.reason


def test_where_two_say_where_a_robot_is_no_request_is_obeyed_for_its_policy_hears_both(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as team:
        team.start("simulated_robots", "cf1/shield")
        publisher, converter = team.publisher("cf1"), CommandConverter(SPEC.channels)

        def request(_: float) -> None:
            publisher.publish(converter.write(ActuatorCommand(HOVER), team.state("cf1")[1]))

        team.fly("cf1", 1.0, request)
        stranger = team.node.create_publisher(Odometry, "/cf1/odom", qos.MEASURED)
        team.watch("cf1", 2.0, request)
        assert team.authority("cf1") in ("LANDING", "FAULT")
        assert "/cf1/odom has 2 publishers where one is due" in team.processes.log_of("cf1_shield").read_text()
        team.node.destroy_publisher(stranger)


def test_an_unknown_row_is_named_before_there_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"unknown row 'disk is full'; did you mean 'disk full'\?; known: "):
        command(ZOO / "swarm-swap.onnx", rows=("disk is full",))
    assert not list(tmp_path.iterdir())


def test_a_lost_shield_is_told_as_it_is_and_its_neighbour_flies_on(tmp_path):
    """No node says that it is a fault: the shield is silent, and the robot's own watchdog stops its motors."""
    (outcome,) = drill(ZOO / "swarm-swap.onnx", tmp_path, rows=["shield killed"])
    assert (outcome.state, outcome.other_state, outcome.passed) == ("SILENT", "POLICY", True), outcome
    # With the thrust of its last command, which may be a little more or less than its weight; after 2.3 s it falls.
    assert 0.5 < outcome.down_s < 4.0 and outcome.down_m_s > 0.3, outcome


def test_every_fault_has_a_name_of_its_own():
    titles = [row.title for row in ROWS]
    assert len({*titles}) == len(titles)


def arm_team(folder, task):
    """A team file of an arm, whose mission has a first order, of `task`."""
    spec, plan = load_robot("panda"), folder / "plan.json"
    pose = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    goal = {"goal_pos": np.array([0.5, 0.0, 0.4]), "goal_quat": np.array([0.0, 1.0, 0.0, 0.0])}
    arm = Member("arm", "panda", "panda", pose, np.array(spec.home))
    save_mission(Mission((arm,), (Order(0.0, {"arm": goal}),), 60.0, (60.0,), 1.0, task=task), plan)
    team = folder / "team.yaml"
    team.write_text(f"{{robots: [{{name: arm, bundle: {ZOO / 'reach.onnx'}}}], mission: plan.json}}")
    return team


def test_an_arm_has_no_faults_that_only_drones_can_have(tmp_path):
    team = arm_team(tmp_path, "reach")
    titles = [row.title for row in rows_for(plan_drill(team)[1])]
    assert "policy killed" in titles and not {"policy killed, STARTING", "late peer"} & {*titles}
    with pytest.raises(ValueError, match="row 'late peer' is for drones"):
        drill(team, tmp_path / "out", rows=["late peer"])


def test_an_arm_that_no_order_would_move_is_refused_at_once_with_what_the_team_file_lacks(tmp_path):
    """Each row waited 30 s for it, and did not say why it was not flown."""
    with_orders_never_sent = arm_team(tmp_path, task="")
    without = tmp_path / "no_mission.yaml"
    without.write_text(f"robots: [{{name: arm, bundle: {ZOO / 'reach.onnx'}}}]")
    for team in (without, with_orders_never_sent):
        with pytest.raises(ValueError, match=f"^{team}: arm waits for goal_pos and goal_quat.*`mission: FILE`"):
            command(team, out_dir=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_table_says_why_a_row_was_not_flown(tmp_path, monkeypatch, capsys):
    why = "arm: its policy did not get it within 30 s"
    outcome = Outcome("policy killed", "FAULT", False, "NOT FLOWN", reason=why)
    monkeypatch.setattr("ros_nodes.drill.drill.drill", lambda *_: [outcome])
    assert command(ZOO / "swarm-swap.onnx", rows=("policy killed",), out_dir=tmp_path) == 1
    assert f"policy killed: {why}" in capsys.readouterr().out


def flown(row, states, reasons, moved_m=0.0, **end):
    """The outcome of `row` for two Crazyflies that hover, the first of which goes `moved_m` aside."""
    mission = replace(plan_swap(2, 60.0, None, seed=0), orders=())
    time_s = np.arange(0.0, 3.0, 0.02)
    bases = np.repeat([[[0.0, 0.0, 1.0]], [[1.5, 0.0, 1.0]]], len(time_s), axis=1)
    bases[0, -1, 1] = moved_m
    robots = [RobotState(*[np.zeros(0)] * 2, base, *[np.zeros(0)] * 4) for base in bases]
    truth = GroundTruth(time_s, robots, [np.tile(HOVER, (len(time_s), 1))] * 2, {})
    end = {"changes": [], "refusals": [], "lost": []} | end
    return _outcome(row, mission, truth, 1.0, _End(states, reasons, **end))


def test_a_row_that_ends_in_a_fault_says_why_also_where_no_change_was_seen(tmp_path, monkeypatch, capsys):
    """On a machine with a load of 10 'disk full' ended in FAULT, and nothing was said of why."""
    disk_full = next(row for row in ROWS if row.title == "disk full")
    failed = flown(disk_full, ["FAULT", "POLICY"], ["state 130 ms old", ""])
    assert not failed.passed and failed.reason == "cf1 is FAULT: state 130 ms old; nothing said 'recorder ended'"
    its_peer = flown(disk_full, ["POLICY", "LANDING"], ["", "request 120 ms old"], lost=["recorder ended with code 1"])
    assert its_peer.reason == "cf2 is LANDING: request 120 ms old; recorder ended with code 1"
    moved = flown(disk_full, ["POLICY", "POLICY"], ["", ""], 0.5, lost=["recorder ended with code 1"])
    assert not moved.passed and moved.reason.startswith("it left its place by 0.5 m")
    gone = [{"t_s": 0.1, "from": "POLICY", "to": "LANDING", "reason": "request 120 ms old", "robot": "cf1"}]
    killed = next(row for row in ROWS if row.title == "policy killed")
    passed = flown(killed, ["FAULT", "POLICY"], ["request 120 ms old", ""], changes=gone)
    assert (passed.passed, passed.reason) == (True, "request 120 ms old")
    monkeypatch.setattr("ros_nodes.drill.drill.drill", lambda *_: [failed, passed])
    assert command(ZOO / "swarm-swap.onnx", rows=("disk full",), out_dir=tmp_path) == 1
    said = capsys.readouterr().out
    assert f"disk full: {failed.reason}" in said and f"policy killed: {passed.reason}" in said


@pytest.mark.parametrize(
    ("file", "why"),
    [("reach", "is for 'panda'"), ("payload-lift", "observes 'load'"), ("perch-drone", "group 'drone'")],
)
def test_a_policy_file_that_two_crazyflies_cannot_fly_is_refused_by_its_name_before_anything_is_written(
    file, why, tmp_path
):
    with pytest.raises(ValueError, match=f"^{ZOO / file}.onnx: .*{why}"):
        drill(ZOO / f"{file}.onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_ways_lose_delay_double_and_overtake_as_many_as_they_say():
    random, sent = Random(0), [bytes([number]) for number in range(200)]

    def arrived(way):
        due = [(0.02 * at + late_s, message) for at, m in enumerate(sent) for late_s, message in way(m, random)]
        return [message for _, message in sorted(due)]

    assert arrived(unchanged) == arrived(delay(0.2)) == sent and arrived(silence) == []
    assert 40 < len(sent) - len(arrived(loss(0.3))) < 80
    assert arrived(duplicates)[::2] == arrived(duplicates)[1::2] == sent
    mixed = arrived(reordering(0.3, 0.05))
    assert sorted(mixed) == sent and 20 < sum(np.diff([m[0] for m in mixed]) < 0) < 80
    ((late_s, message),) = changed(Odometry, lambda m: setattr(m, "child_frame_id", "x"))(
        serialize_message(Odometry()), random
    )
    assert (late_s, deserialize_message(message, Odometry).child_frame_id) == (0.0, "x")
