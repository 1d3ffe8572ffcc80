"""Shields as real processes know what is around: obstacles of the team file, people of a tracker, an arm's links."""

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
import rclpy
from geometry_msgs.msg import Point, Pose, PoseArray
from nav_msgs.msg import Odometry
from rclpy.serialization import serialize_message
from ros_rig import SPEC, IdleNode, Rig, standing
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from test_ros_shield import Requests

from deploy.shield.guards import check_obstacles
from deploy.shield.joints.arm_obstacles import arm_obstacles
from deploy.shield.obstacles import outward
from hardware import load_robot
from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MessageError, OdometryWriter, empty_state, set_stamp, write_poses
from ros_nodes.messages.joints import CommandConverter, JointConverter
from ros_nodes.messages.people import nearest_people, read_people, velocities
from ros_nodes.messages.scene import Obstacle, Scene
from ros_nodes.messages.subscriptions import place
from ros_nodes.messages.surroundings import Around
from ros_nodes.plans.prepare import surroundings_of

pytestmark = pytest.mark.ros
PANDA, G1 = load_robot("panda"), load_robot("g1")
HOME = np.array(PANDA.home)
SEEN_EVERY_S = 0.05


class Tracker:
    """Says where people are, at 20 Hz."""

    def __init__(self, rig: Rig):
        self._rig, self._publisher = rig, rig.node.create_publisher(PoseArray, "/people", qos.MEASURED)
        self._due_s = 0.0

    def close(self) -> None:
        self._rig.node.destroy_publisher(self._publisher)

    def say(self, *people: tuple[float, float, float]) -> None:
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + SEEN_EVERY_S
        message = PoseArray(poses=[Pose() for _ in people])
        message.header.frame_id = "world"
        set_stamp(message.header.stamp, time.time_ns())
        for pose, (pose.position.x, pose.position.y, pose.position.z) in zip(message.poses, people, strict=True):
            pose.orientation.w = 1.0
        self._publisher.publish(message)


def test_a_drone_keeps_off_a_wall_and_people_and_is_held_when_its_tracker_falls_silent(tmp_path):
    mission = standing([[0.0, 0.0, 1.0, 0.0]])
    scene = Scene(obstacles=(Obstacle("wall", (1.0, 0.0, 1.0, 0.0), (0.2, 4.0, 2.0)),))
    around = {"surroundings": surroundings_of(mission.team[0], mission, scene)}
    with Rig(tmp_path, mission=mission, parameters={"/cf1/shield": around}) as rig:
        rig.start("simulated_robots", "cf1/shield")
        requests, tracker, places = Requests(rig), Tracker(rig), []

        def at_the_wall(_: float) -> None:
            requests.good((1.5, 0.0, 1.0))
            places.append(rig.state("cf1")[0].base_pos.copy())

        assert rig.fly("cf1", 3.0, at_the_wall)
        rig.fly_until("cf1", lambda: rig.has_said("cf1", "kept off wall"), 5.0, at_the_wall)
        ahead = np.array(places)[:, 0]
        assert ahead[-1] > 0.5 and ahead.max() < 0.9 - 0.0975

        def while_a_person_comes(t_s: float) -> None:
            at_the_wall(t_s)
            tracker.say((0.6, max(-3.0 + t_s, -0.8), 1.2))

        rig.fly("cf1", 3.0, while_a_person_comes)
        assert np.linalg.norm(places[-1][:2] - [0.6, -0.8]) > 1.35

        def in_a_crowd(_: float) -> None:
            at_the_wall(0.0)
            tracker.say(*[(9.0 + number, 9.0, 1.2) for number in range(120)], (0.6, -0.8, 1.2))

        rig.watch("cf1", 0.5, in_a_crowd)
        assert "121 people: the 100 nearest count" in rig.processes.log_of("cf1_shield").read_text()
        rig.fly("cf1", 0.5, in_a_crowd)
        assert np.linalg.norm(places[-1][:2] - [0.6, -0.8]) > 1.35
        other = Tracker(rig)
        rig.fly_until("cf1", lambda: rig.has_said("cf1", "/people has 2 publishers where one is due"), 2.0, in_a_crowd)
        assert rig.mode("cf1") == "HOLD"
        other.close()
        rig.fly("cf1", 0.5, in_a_crowd)
        rig.fly_until("cf1", lambda: rig.has_said("cf1", "no word of people"), 2.0, at_the_wall)
        assert rig.authority("cf1") in ("POLICY", "LANDING") and rig.mode("cf1") in ("HOLD", "LAND")


def test_a_drone_flies_over_the_links_of_an_arm_which_slows_down_for_people(tmp_path):
    mission = standing([[0.3, 0.8, 0.65, 0.0], [0.0, 0.0, 0.0, 0.0]], SPEC, PANDA)
    given = {f"/{m.name}/shield": {"surroundings": surroundings_of(m, mission, Scene())} for m in mission.team}
    given["/cf1/shield"]["team"] = ["cf1"]
    given["/panda_1/shield"]["team"] = ["panda_1"]
    with Rig(tmp_path, mission=mission, parameters=given) as rig:
        rig.start("simulated_robots", "cf1/shield", "panda_1/shield")
        requests, tracker = Requests(rig), Tracker(rig)
        arm, converter = rig.publisher("panda_1"), CommandConverter(PANDA.channels)
        joints = Mailbox(rig.node, JointState, "/panda_1/joint_states", qos.SENSOR, raw=True)
        reader, measured = JointConverter(PANDA.joint_names), empty_state(len(PANDA.joints))
        place(measured, 0.0, 0.0, 0.0, 0.0)
        home = HOME
        gaps, goal, seen, turned = [], [(0.3, -0.8, 0.65)], [None], [0.0]

        def ask(t_s: float) -> None:
            requests.good(goal[0])
            if seen[0] is not None:
                tracker.say(seen[0])
            if (taken := joints.take()) is not None:
                stamp = reader.read(taken[0], measured)
                target = home + np.array([turned[0], *np.zeros(len(home) - 1)])
                arm.publish(converter.write(ActuatorCommand(np.float32(target)), stamp))
                pos = rig.state("cf1")[0].base_pos
                gaps.append(outward(np, pos, arm_obstacles(PANDA, measured))[1].min())

        straight = np.linspace([0.3, 0.8, 0.65], [0.3, -0.8, 0.65], 50)
        through = arm_obstacles(PANDA, _at_home(home))
        assert min(outward(np, point, through)[1].min() for point in straight) < 0.0  # asked for is a way through it
        rig.fly("cf1", 3.0, ask)
        for goal[0] in ((0.3, 0.5, 1.3), (0.3, -0.6, 1.3)):  # over it
            rig.fly("cf1", 3.0, ask)
        assert rig.state("cf1")[0].base_pos == pytest.approx([0.3, -0.6, 1.3], abs=0.2)
        assert min(gaps) > 0.0975 - 0.01  # what is measured is noisy
        rig.fly("cf1", 0.5, ask)
        turned[0] = 0.4
        rig.fly_until("panda_1", lambda: measured.joint_pos[0] == pytest.approx(0.4, abs=0.05), 5.0, ask)
        seen[0], turned[0] = (0.9, 0.3, 1.2), -0.4
        rig.watch("panda_1", 2.0, ask)
        assert measured.joint_pos[0] == pytest.approx(0.4, abs=0.1)  # a person is within reach of its hand
        rig.fly_until("panda_1", lambda: rig.mode("panda_1") == "FILTERED", 5.0, ask)


def test_a_drone_is_not_armed_before_it_has_heard_of_bodies_near_keeps_off_and_is_held_when_they_fall_silent(tmp_path):
    """An arm far away and a humanoid, both of which are the test itself."""
    starts = [[0.0, 0.0, 1.0, 0.0], [2.5, 2.5, 0.0, 0.0], [-2.0, 0.0, 0.75, 0.0]]
    mission = standing(starts, SPEC, PANDA, G1)
    given = {"team": ["cf1"], "surroundings": surroundings_of(mission.team[0], mission, Scene())}
    with Rig(tmp_path, mission=standing(starts[:1]), parameters={"/cf1/shield": given}) as rig:
        rig.start("simulated_robots", "cf1/shield", armed=False)
        assert "never heard where the body of panda_1, g1_1 is" in rig.asked("cf1", "arm")
        publisher = rig.node.create_publisher(JointState, "/panda_1/joint_states", qos.MEASURED)
        converter, state, requests = JointConverter(PANDA.joint_names), _at_home(HOME), Requests(rig)
        legs, writer = rig.node.create_publisher(Odometry, "/g1_1/odom", qos.MEASURED), OdometryWriter("g1_1/base_link")
        standing_there, places, goal = empty_state(0), [], [(0.0, 0.0, 1.0)]
        place(standing_there, *starts[2])

        def they_speak(_: float) -> None:
            requests.good(goal[0])
            publisher.publish(converter.write(state, time.time_ns()))
            legs.publish(writer.base(standing_there, time.time_ns()))
            places.append(rig.state("cf1")[0].base_pos.copy())

        rig.watch("cf1", 1.0, they_speak)
        rig.restart("cf1", they_speak)
        assert rig.fly("cf1", 1.0, they_speak)
        goal[0] = (-2.0, 0.0, 1.0)
        rig.watch("cf1", 2.0, they_speak)
        apart = np.linalg.norm(np.array(places) - starts[2][:3], axis=-1)
        assert G1.radius_m + 0.0975 < apart.min() < 1.7
        silence = "panda_1, g1_1 not heard for over 0.3 s"
        rig.fly_until("cf1", lambda: rig.has_said("cf1", silence), 2.0, lambda _: requests.good())
        assert rig.mode("cf1") == "HOLD"


def test_an_arm_does_not_turn_into_a_drone_of_its_team_and_is_held_when_the_drone_falls_silent(tmp_path):
    """The drone is the test itself: it hovers where the arm's hand is asked to go, and does not make way."""
    mission = standing([[0.0, 0.0, 0.0, 0.0], [2.0, 2.0, 1.0, 0.0]], PANDA, SPEC)
    given = {"team": ["panda_1"], "surroundings": surroundings_of(mission.team[0], mission, Scene())}
    alone = standing([[0.0, 0.0, 0.0, 0.0]], PANDA)
    with Rig(tmp_path, mission=alone, parameters={"/panda_1/shield": given}) as rig:
        rig.start("simulated_robots", "panda_1/shield", armed=False)
        assert "never heard where the body of cf1 is" in rig.asked("panda_1", "arm")
        drone, writer = rig.node.create_publisher(Odometry, "/cf1/odom", qos.MEASURED), OdometryWriter("cf1/base_link")
        arm, converter = rig.publisher("panda_1"), CommandConverter(PANDA.channels)
        joints = Mailbox(rig.node, JointState, "/panda_1/joint_states", qos.SENSOR, raw=True)
        reader, measured = JointConverter(PANDA.joint_names), _at_home(HOME)
        links = arm_obstacles(PANDA, measured).pos
        far = links[np.hypot(links[:, 0], links[:, 1]).argmax()]
        asked_rad, turned_rad, gaps = 1.6, [0.0], []
        along = 1.3 * np.hypot(far[0], far[1])  # m: farther out, for its shoulder is as near otherwise
        hovers = np.array([along * np.cos(asked_rad), along * np.sin(asked_rad), far[2]])
        hovering = empty_state(0)
        place(hovering, *hovers, 0.0)

        def ask(_: float) -> None:
            if (taken := joints.take()) is not None:
                stamp = reader.read(taken[0], measured)
                target = HOME + np.array([turned_rad[0], *np.zeros(len(HOME) - 1)])
                arm.publish(converter.write(ActuatorCommand(np.float32(target)), stamp))
                gaps.append(outward(np, hovers, arm_obstacles(PANDA, measured))[1].min())

        def beside_the_drone(t_s: float) -> None:
            drone.publish(writer.base(hovering, time.time_ns()))
            ask(t_s)

        rig.watch("panda_1", 1.0, beside_the_drone)
        rig.restart("panda_1", beside_the_drone)
        assert rig.fly("panda_1", 1.0, beside_the_drone)
        turned_rad[0] = asked_rad
        rig.fly("panda_1", 6.0, beside_the_drone)
        assert 0.2 < measured.joint_pos[0] < 1.4 and min(gaps) > 0.0975
        hovering.base_pos[0] += 5.0  # it flies off
        rig.fly_until("panda_1", lambda: abs(measured.joint_pos[0] - asked_rad) < 0.05, 5.0, beside_the_drone)
        silence = "cf1 not heard for over 0.3 s"
        rig.fly_until("panda_1", lambda: rig.has_said("panda_1", silence), 2.0, ask)
        assert rig.mode("panda_1") == "HOLD"


@pytest.mark.parametrize(
    ("part", "bad"), [("joint_vel", 1e9), ("joint_vel", 40.0), ("joint_pos", 50.0), ("joint_pos", np.nan)]
)
def test_joints_that_an_arm_cannot_have_count_as_its_silence_and_not_as_a_fault_of_who_hears_it(monkeypatch, part, bad):
    domain = free_domain_id()
    for name, value in ros_environment(domain).items():
        monkeypatch.setenv(name, value)
    mission = standing([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]], SPEC, PANDA)
    text = surroundings_of(mission.team[0], mission, Scene())
    rclpy.init(domain_id=domain)
    try:
        node = IdleNode("listener")
        around = Around(node, SPEC, text, "/people", 10)
        publisher = node.create_publisher(JointState, "/panda_1/joint_states", qos.SENSOR)
        state, converter, now_ns = _at_home(HOME), JointConverter(PANDA.joint_names), time.time_ns()

        def said(stamp_ns: int, until: Callable[[], bool], give_up: float) -> None:
            while not until() and time.monotonic() < give_up:
                publisher.publish(converter.write(state, stamp_ns))
                time.sleep(0.01)
                around.update(stamp_ns, None)

        said(now_ns, lambda: not around.missing(), time.monotonic() + patience(3.0))
        assert not around.missing()
        before = around.obstacles.pos.copy()
        getattr(state, part)[1] = bad
        said(now_ns + 10**9, lambda: False, time.monotonic() + 0.3)
        assert "panda_1 not heard for over 0.3 s" in around.lost
        assert not check_obstacles(around.obstacles)
        np.testing.assert_array_equal(around.obstacles.pos, before)
        node.stop()
        node.destroy_node()
    finally:
        rclpy.shutdown()


def test_a_message_of_people_is_read_as_it_was_written_and_what_is_none_is_refused():
    message = PoseArray(poses=[Pose() for _ in range(3)])
    message.header.frame_id = "world"
    set_stamp(message.header.stamp, 5_000_000_001)
    write_poses(message, np.arange(21.0).reshape(3, 7), 5_000_000_001)
    stamp_ns, pos = read_people(serialize_message(message))
    assert stamp_ns == 5_000_000_001
    np.testing.assert_array_equal(pos, np.arange(21.0).reshape(3, 7)[:, :3])
    message.poses[1].position.y = 1e300
    for poses, frame, says in (
        (message.poses, "world", "people that are not finite, or beyond 10000 m"),
        ([Pose(position=Point(x=math.nan))], "world", "not finite"),
        ([], "cf1/base_link", "people in the frame 'cf1/base_link': must be 'world'"),
    ):
        wrong = PoseArray(poses=poses, header=Header(frame_id=frame, stamp=message.header.stamp))
        with pytest.raises(MessageError, match=says):
            read_people(serialize_message(wrong))
    with pytest.raises(MessageError, match="without a stamp"):
        read_people(serialize_message(PoseArray()))
    message.poses = []
    assert read_people(serialize_message(message))[1].shape == (0, 3)
    message.poses = [Pose()] * 3
    whole = bytes(serialize_message(message))
    for damaged in (b"", whole[:30], whole[:-40], whole[:24] + b"\xff" * 8 + whole[32:], b"\x07\x07" + whole[2:20]):
        with pytest.raises(MessageError):
            read_people(damaged)


def test_of_too_many_people_those_who_are_nearest_are_kept_and_none_where_they_are_not_known():
    pos = np.random.default_rng(0).uniform(-50.0, 50.0, (1000, 3))
    own = np.array([3.0, -2.0, 1.0])
    kept = nearest_people(pos, own, 100)
    apart = np.linalg.norm(pos[:, :2] - own[:2], axis=-1)
    np.testing.assert_allclose(np.sort(np.linalg.norm(kept[:, :2] - own[:2], axis=-1)), np.sort(apart)[:100])
    assert nearest_people(pos, None, 1000) is pos
    with pytest.raises(MessageError, match="1000 people, and the robot does not know which 100 are nearest"):
        nearest_people(pos, None, 100)


def test_how_fast_people_are_follows_from_who_was_nearest():
    past = [(1_000_000_000, np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0]]))]
    now = np.array([[2.2, 0.1, 1.0], [0.0, -0.2, 1.0], [9.0, 9.0, 1.0]])  # in another order, and somebody new
    found = velocities(now, 1_200_000_000, past)
    np.testing.assert_allclose(found, [[1.0, 0.5, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-9)
    assert not velocities(now, 1_200_000_000, []).any()


def _at_home(home: np.ndarray):
    state = empty_state(len(home))
    place(state, 0.0, 0.0, 0.0, 0.0)
    state.joint_pos[:], state.joint_vel[:] = home, 0.0
    return state
