"""A team of unlike robots in ROS 2: each is driven by its own role, and the whole is judged by the task."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from places import ZOO

pytest.importorskip("rclpy")
pytest.importorskip("torch")
from ros_rig import SPEC, Rig, standing
from sensor_msgs.msg import JointState
from test_ros_shield import Requests

from deploy.bundle import load_bundle
from deploy.shield import make_shield_params
from hardware import load_robot
from hardware.types import ActuatorCommand, ObjectState, RobotState
from phalanx.commands.deploy import policy_files
from phalanx.missions.criterion import task_criterion
from phalanx.missions.plan import plan_mission
from phalanx.missions.task import plan_task
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import empty_state
from ros_nodes.messages.joints import CommandConverter, JointConverter
from ros_nodes.mission.deploy import run_mission
from ros_nodes.mission.ground_truth import GroundTruth
from ros_nodes.plans.prepare import team_parameters
from sim.tasks.perch import PERCH, SEAT

FILES = [str(ZOO / f"perch-{role}.onnx") for role in ("drone", "arm")]
PANDA = load_robot("panda")


@pytest.fixture(scope="module")
def contracts():
    return {file: load_bundle(file).contract for file in FILES}


@pytest.mark.ros
def test_each_of_two_unlike_robots_does_what_its_own_topic_asks(tmp_path):
    mission = standing([[0.0, 1.5, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]], SPEC, PANDA)
    with Rig(tmp_path, mission=mission) as rig:
        rig.start("simulated_robots", "cf1/shield", "panda_1/shield")
        requests = Requests(rig)
        arm, converter = rig.publisher("panda_1"), CommandConverter(PANDA.channels)
        joints = Mailbox(rig.node, JointState, "/panda_1/joint_states", qos.SENSOR, raw=True)
        reader, measured = JointConverter(PANDA.joint_names), empty_state(len(PANDA.joints))
        target = np.array(PANDA.home)
        target[0] += 0.3

        def ask(_: float) -> None:
            requests.good((0.3, 1.5, 1.0))
            taken = joints.take()
            if taken is not None:
                stamp = reader.read(taken[0], measured)
                arm.publish(converter.write(ActuatorCommand(target), stamp))

        assert rig.fly("cf1", 2.5, ask) and rig.fly("panda_1", 0.5, ask)
        assert measured.joint_pos == pytest.approx(target, abs=0.02)
        assert rig.state("cf1")[0].base_pos == pytest.approx([0.3, 1.5, 1.0], abs=0.15)


@pytest.fixture(scope="module")
def perched(contracts, tmp_path_factory):
    """The drone's policy dies on its way to the tray."""
    mission, criterion = plan_mission(contracts, None, None, 0.5, seed=4)
    out = tmp_path_factory.mktemp("mission")
    return run_mission(mission, out, criterion), out


@pytest.mark.ros
def test_a_drone_whose_policy_dies_lands_by_its_shield_while_the_arm_goes_on(perched):
    result, _ = perched
    assert (result["task"], result["robot"], result["robots"]) == ("perch", "crazyflie, panda", 2)
    assert result["landed_safely"] is True and result["stopped_safely"] is None
    assert 0 < result["kill_to_fallback_ms"] < 200
    assert result["legs"] == [True, True]  # of the arm, which still has a policy
    assert result["failures"] == []
    assert result["shield"]["violations"] == 0 and result["min_separation_m"] is None
    assert result["control_hz"] == pytest.approx(50.0, rel=0.05)


@pytest.mark.ros
def test_the_bag_holds_what_drone_and_arm_know_of_each_other(perched):
    from rosbags.highlevel import AnyReader

    with AnyReader([perched[1] / "bag"]) as bag:
        counts = {connection.topic: connection.msgcount for connection in bag.connections}
    for topic in ("/objects/tray/odom", "/cf1/odom", "/panda_1/joint_states", "/panda_1/requested"):
        assert counts[topic] > 400, topic
    assert counts["/cf1/command"] > 200  # until it has landed, on the tray or on the floor
    for topic in ("/rosout", "/diagnostics", "/cf1/status", "/panda_1/policy/status", "/cf1/battery_state"):
        assert counts[topic] > 0, topic


def test_perch_is_judged_by_each_role_s_own_terms():
    """The drone sits on the tray in the first moment and has fallen off it in the second."""
    mission = plan_task(PERCH, None, 4.0, None, seed=0)
    arm = mission.team[1]
    assert [(m.name, m.robot, m.group) for m in mission.team] == [
        ("cf1", "crazyflie", "drone"),
        ("panda_1", "panda", "arm"),
    ]
    tray = mission.objects["tray"]
    seat = tray[:3] + np.array([0.0, 0.0, SEAT["seat_m"]])
    none, no_joints, age = np.zeros((2, 3)), np.zeros((2, 0)), np.zeros(2)
    upright, over = [1.0, 0, 0, 0], [0, 1.0, 0, 0]
    joint_pos = np.stack([arm.joint_pos] * 2)
    states = [
        RobotState(no_joints, no_joints, np.stack([seat] * 2), np.array([upright, over]), none, none, age),
        RobotState(joint_pos, np.zeros((2, 8)), none, np.array([upright] * 2), none, none, age),
    ]
    still = ObjectState(np.stack([tray[:3]] * 2), np.stack([tray[3:]] * 2), none, none, age)
    truth = GroundTruth(np.array([0.0, 0.02]), states, [np.zeros((2, 4)), joint_pos], {"tray": still})
    outcome = task_criterion(PERCH)(mission, truth)
    assert outcome.success.tolist() == [[True, True], [False, True]]
    fallen = outcome.terminations["drone/tipped"]
    assert fallen.tolist() == [[False, False], [True, False]] and not outcome.terminations["arm/outside"].any()


def test_a_team_that_is_not_whole_is_answered_with_the_roles(contracts):
    drone, arm = FILES
    cases = [{drone: contracts[drone]}, {arm: contracts[arm]}, {drone: contracts[drone], "copy": contracts[drone]}]
    for policies, given in zip(cases, ("drone", "arm", "drone, drone"), strict=True):
        complaint = f"task 'perch' takes policies for drone and arm; given: {given}$"
        with pytest.raises(ValueError, match=complaint):
            plan_mission(policies, None, None, None, seed=0)
    with pytest.raises(ValueError, match="policies of different tasks cannot be combined: 'perch' and 'reach'"):
        plan_mission({**contracts, "x": load_bundle(ZOO / "reach.onnx").contract}, None, None, None, seed=0)
    with pytest.raises(ValueError, match=r"perch has groups \(drone, arm\) with team sizes of their own"):
        plan_mission(contracts, 3, None, None, seed=0)


def test_robots_of_a_mixed_team_that_share_no_policy_get_their_own(contracts):
    """As `--network.independent` names their files."""
    apart = {file: structs.replace(each, group=f"{each.group}-robot-1") for file, each in contracts.items()}
    mission, _ = plan_mission(apart, None, None, None, seed=0)
    assert {member.bundle: member.group for member in mission.team} == dict(zip(FILES, ("drone", "arm"), strict=True))
    file, contract = next(iter(apart.items()))
    with pytest.raises(ValueError, match=f"takes policies for drone-robot-1 and arm; given: {contract.group}$"):
        plan_mission({file: contract}, None, None, None, seed=0)


def test_each_node_is_told_of_its_own_robot_and_shields_keep_drones_apart_from_drones(tmp_path):
    mission = standing([[0, 0, 1, 0], [2, 0, 0, 0.5], [0, 1, 1, 0]], SPEC, PANDA, SPEC)
    specs = {"cf1": SPEC, "panda_1": PANDA, "cf2": SPEC}
    given = team_parameters(
        mission,
        {name: make_shield_params(spec) for name, spec in specs.items()},
        dict.fromkeys(specs, ""),
        tmp_path,
        (),
    )
    for name, spec in specs.items():
        shield, policy = (given[f"/{name}/{node}"]["ros__parameters"] for node in ("shield", "policy"))
        assert shield["robot_type"] == policy["robot_type"] == spec.name
        assert policy["team"] == list(specs)
        assert shield["team"] == (["panda_1"] if spec is PANDA else ["cf1", "cf2"])
    assert given["/panda_1/policy"]["ros__parameters"]["base_pose"] == pytest.approx([2.0, 0.0, 0.0, 0.5])


def test_files_or_a_task_are_flown_and_not_both():
    assert [str(path) for path in policy_files(["perch"])] == FILES
    assert [str(path) for path in policy_files(FILES)] == FILES
    for subjects in ([], ["perch", FILES[0]], ["perch", "reach"]):
        with pytest.raises(ValueError, match="which policy"):
            policy_files(subjects)


def test_a_policy_of_the_other_role_is_refused_before_anything_starts(contracts, tmp_path):
    mission, criterion = plan_mission(contracts, None, None, None, seed=0)
    drone, arm = FILES
    with pytest.raises(ValueError, match="is for robot 'panda', this robot has 'crazyflie'"):
        run_mission(mission.flown_by({"drone": arm, "arm": drone}), tmp_path / "out", criterion)
    renamed = replace(mission, team=(replace(mission.team[0], group="courier"), mission.team[1]))
    with pytest.raises(ValueError, match=r"perch-drone\.onnx: is for group 'drone', cf1 is in 'courier'"):
        run_mission(renamed, tmp_path / "out", criterion)
    assert not (tmp_path / "out").exists()
