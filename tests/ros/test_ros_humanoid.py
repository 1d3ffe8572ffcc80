"""A humanoid in ROS 2: told a velocity, held up by its shield when the policy dies, damped when that dies too."""

import time

import numpy as np
import pytest
from places import ZOO

pytest.importorskip("rclpy")
pytest.importorskip("torch")
from ros_rig import Rig, standing
from test_ros_surroundings import Tracker

from deploy.shield.joints.way import BODY_M
from hardware import load_robot
from hardware.types import ActuatorCommand
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.scene import Obstacle, Scene
from ros_nodes.plans.prepare import surroundings_of

pytestmark = pytest.mark.ros
SPEC = load_robot("g1")
WALKS = ZOO / "velocity.onnx"


def test_a_walking_humanoid_stands_before_a_wall_of_its_team_file_and_before_a_person(tmp_path):
    mission = standing([[0.0, 0.0, SPEC.home_height_m, 0.0]], SPEC)
    scene = Scene(obstacles=(Obstacle("wall", (1.7, 0.0, 1.0, 0.0), (0.2, 6.0, 2.0)),))
    around = {"surroundings": surroundings_of(mission.team[0], mission, scene)}
    given = {"/g1_1/shield": around, "/simulated_robots": around}
    with Rig(tmp_path, bundle=WALKS, mission=mission, parameters=given, commands=["velocity"]) as rig:
        rig.start("simulated_robots", "g1_1/shield", "g1_1/policy")
        tracker, places = Tracker(rig), []

        def walk(m_s: float, *people: tuple[float, float, float]) -> None:
            rig.node.send("g1_1", {"velocity": np.array([m_s, 0.0, 0.0])})
            tracker.say(*people)
            places.append(rig.state("g1_1")[0].base_pos.copy())

        rig.fly("g1_1", 1.0, lambda _: walk(0.0))
        rig.watch_until("g1_1", lambda: rig.kept_from("wall is ", "g1_1"), 8.0, lambda _: walk(0.6))
        rig.watch("g1_1", 1.5, lambda _: walk(0.6))
        assert 0.3 < places[-1][0] < 1.6 - BODY_M and places[-1][2] > 0.9 * SPEC.home_height_m
        behind = places[-1][0] - 2.0
        rig.restart("g1_1", lambda _: walk(0.0))

        def walk_back(_: float) -> None:
            walk(-0.4, (behind, 0.0, 1.2))

        rig.watch_until("g1_1", lambda: rig.kept_from("a person is ", "g1_1"), 8.0, walk_back)
        rig.watch("g1_1", 1.5, walk_back)
        assert behind + BODY_M + 0.4 < places[-1][0] < behind + 1.95 and places[-1][2] > 0.9 * SPEC.home_height_m


@pytest.fixture
def rig(tmp_path):
    mission = standing([[0.0, 0.0, SPEC.home_height_m, 0.5]], SPEC)
    with Rig(tmp_path, bundle=WALKS, mission=mission, commands=["velocity"]) as rig:
        rig.start("simulated_robots", "g1_1/shield", "g1_1/policy")
        yield rig


def height(rig: Rig) -> float:
    time.sleep(0.05)
    return float(rig.state("g1_1")[0].base_pos[2])


def test_a_humanoid_walks_as_it_is_told_for_as_long_as_that_is_said(rig):
    def speed(act=lambda t: None) -> float:
        """m/s, over a second."""
        place, began_s = rig.state("g1_1")[0].base_pos[:2].copy(), time.monotonic()
        rig.fly("g1_1", 1.0, act)
        way_m = float(np.linalg.norm(rig.state("g1_1")[0].base_pos[:2] - place))
        return way_m / (time.monotonic() - began_s)

    def walk(_: float) -> None:
        rig.node.send("g1_1", {"velocity": np.array([0.4, 0.0, 0.0])})

    rig.fly("g1_1", 1.5)
    assert speed() < 0.1
    rig.fly("g1_1", 2.0, walk)
    assert speed(walk) == pytest.approx(0.4, abs=0.15)
    rig.fly("g1_1", 2.0)
    assert speed() < 0.1 and height(rig) > 0.93 * SPEC.home_height_m


def test_its_shield_holds_it_up_without_a_policy_and_its_drives_damp_without_a_shield(rig):
    rig.fly("g1_1", 1.5)
    rig.processes.kill("g1_1_policy")
    commands = rig.watch("g1_1", 1.5)
    assert len(commands) > 60
    assert rig.mode("g1_1") not in ("NOMINAL", "FILTERED", "OFF", "ESTOP")
    assert height(rig) > 0.9 * SPEC.home_height_m
    rig.processes.kill("g1_1_shield")
    rig.watch("g1_1", 0.6)
    assert height(rig) > 0.5 * SPEC.home_height_m  # it does not drop
    rig.watch("g1_1", 4.0)
    assert height(rig) < 0.8 * SPEC.home_height_m


def test_a_request_that_would_throw_it_over_ends_in_damping_not_in_flailing(rig):
    rig.watch("g1_1", 1.0)
    rig.processes.kill("g1_1_policy")
    publisher, converter = rig.publisher("g1_1"), CommandConverter(SPEC.channels)
    rng = np.random.default_rng(1)

    def flail(_: float) -> None:
        target = rng.uniform(SPEC.command_low, SPEC.command_high).astype(np.float32)
        publisher.publish(converter.write(ActuatorCommand(target), time.time_ns()))

    commands = rig.watch("g1_1", 3.0, flail)
    low, high = np.float32(SPEC.command_low), np.float32(SPEC.command_high)
    assert all(np.isfinite(c.target).all() and (low <= c.target).all() and (c.target <= high).all() for c in commands)
    assert rig.mode("g1_1") in ("HOLD", "DAMP")
