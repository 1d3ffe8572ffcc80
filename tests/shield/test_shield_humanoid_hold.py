"""Robots on legs whose policy a person takes away, or whose measurements stop for a while: they stay on their feet."""

import mujoco
import numpy as np
import pytest
from operated import OperatedStand
from places import ZOO

from deploy.runtime import PolicyRuntime
from deploy.shield import Context, Mode
from deploy.shield.authority import State
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import ActuatorCommand, Peers, load_robot

FILES = {"g1": ZOO / "velocity.onnx", "h1": ZOO / "stand-h1.onnx"}


class Led(OperatedStand):
    """A robot that its shipped policy leads, walking as commanded, from a start that a person asked for."""

    def __init__(self, name: str, seed: int = 0):
        spec = load_robot(name)
        super().__init__(spec, np.array(spec.home) + np.random.default_rng(seed).normal(0.0, 0.01, len(spec.home)))
        self.policy = PolicyRuntime.load(FILES[name])
        self.policy.reset()
        self.commands = {command.name for command in self.policy.contract.commands}
        self.obstacles, self.people = None, NO_PEERS
        self.seen: list[Mode] = []

    def go(self, seconds: float, walk=(0.0, 0.0, 0.0), is_measured: bool = True, speaks: bool = True) -> "Led":
        dt_s = self.params.control_dt_s
        for _ in range(round(seconds / dt_s)):
            self.now_s += dt_s
            state, command = self.state(), {name: np.array(walk) for name in self.commands}
            asked = None
            if speaks:
                asked = ActuatorCommand(np.float32(self.policy.step(state, NO_PEERS, command).requested.target))
            context = Context(state if is_measured else None, NO_PEERS, people=self.people, obstacles=self.obstacles)
            sent, self.report = self.authority.step(self.now_s, context, asked, 0.01)
            if sent is not None:
                self.data.ctrl[self.ctrl] = sent.target
            for _ in range(self.steps):
                mujoco.mj_step(self.model, self.data)
            self.seen.append(self.report.mode)
        return self

    def before_wall(self, ahead_m: float) -> "Led":
        x, y, _ = self.state().base_pos
        place, level = np.array([[x + ahead_m + 0.1, y, 1.0]]), np.array([[1.0, 0.0, 0.0, 0.0]])
        half = np.array([[0.1, 2.0, 1.0]])
        self.obstacles = Obstacles(place, level, half, np.zeros(1), np.zeros(1), np.array([True]))
        return self

    def start(self) -> "Led":
        self.go(0.1)
        assert not self.authority.arm()
        self.go(0.1)
        assert not self.authority.ask("start", self.now_s)
        self.go(1.0)
        assert self.authority.state is State.POLICY
        return self


@pytest.mark.parametrize("walk", [(0.6, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.6)])
def test_a_robot_that_walks_is_held_on_its_feet_and_starts_again(walk):
    robot = Led("g1").start().go(2.0, walk)
    assert not robot.authority.ask("hold", robot.now_s)
    robot.go(3.0, walk)
    assert robot.authority.state is State.ARMED and Mode.DAMP not in robot.seen
    assert np.abs(robot.data.qvel[:3]).max() < 0.2
    assert not robot.authority.ask("start", robot.now_s)
    robot.go(3.0)
    assert robot.authority.state is State.POLICY and Mode.DAMP not in robot.seen


def test_a_start_that_follows_a_hold_at_once_waits_until_the_robot_stands():
    robot = Led("g1").start().go(2.0, (0.8, 0.0, 0.0))
    robot.authority.ask("hold", robot.now_s)
    robot.go(0.1)
    robot.authority.ask("start", robot.now_s)
    robot.go(1.5)
    assert robot.authority.state is State.STARTING
    robot.go(4.0)
    assert robot.authority.state is State.POLICY and Mode.DAMP not in robot.seen


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("begun", ["armed", "starting", "held"])
def test_measurements_that_stop_for_a_while_fell_no_robot_that_stands(name, begun):
    for seed in range(3):
        robot = Led(name, seed)
        robot.go(0.1)
        robot.authority.arm()
        robot.go(0.3, speaks=False)
        if begun != "armed":
            robot.authority.ask("start", robot.now_s)
            robot.go(0.2 if begun == "starting" else 1.0, speaks=begun == "held")
        if begun == "held":
            robot.authority.ask("hold", robot.now_s)
            robot.go(0.5)
        robot.go(0.14, is_measured=False, speaks=False)
        robot.go(4.0, speaks=False)
        assert Mode.HOLD in robot.seen and Mode.DAMP not in robot.seen


def test_a_robot_whose_policy_has_asked_for_one_thing_only_stands_when_it_dies():
    for seed in range(3):
        robot = Led("g1", seed)
        robot.go(0.1)
        robot.authority.arm()
        robot.go(0.1)
        robot.authority.ask("start", robot.now_s)
        while robot.authority.state is not State.POLICY:
            robot.go(0.02)
        robot.go(3.0, speaks=False)
        assert Mode.DAMP not in robot.seen


def test_a_g1_that_is_not_measured_for_a_while_right_after_it_was_armed_or_started_stays_on_its_feet():
    for seed in range(6):
        for starts in (False, True):
            robot = Led("g1", seed).go(0.1)
            robot.authority.arm()
            robot.go(0.3, speaks=False)
            if starts:
                robot.authority.ask("start", robot.now_s)
                robot.go(0.2)
            robot.go(0.3, is_measured=False, speaks=starts).go(4.0, speaks=starts)
            assert Mode.DAMP not in robot.seen


def test_a_policy_that_walks_at_a_wall_before_it_is_given_the_robot_is_stopped_by_the_motion():
    """It is in the middle of its gait then: its first request does not say that it sets out."""
    robot = Led("g1").before_wall(0.7).go(0.1)
    robot.authority.arm()
    robot.go(0.1)
    robot.authority.ask("start", robot.now_s)
    robot.go(4.0, (1.0, 0.0, 0.0))
    assert "obstacle_0 is 0." in robot.authority.reason and Mode.DAMP not in robot.seen
    assert np.linalg.norm(robot.state().base_pos[:2]) < 0.5


def test_a_start_right_after_a_hold_is_balanced_by_what_is_measured_now():
    for seed in (143, 149, 5, 28):  # each fell, where its state was that of the period before
        robot = Led("g1", seed).start().go(2.0 + 0.02 * (seed % 36), (1.0, 0.0, 0.0))
        robot.authority.ask("hold", robot.now_s)
        robot.authority.ask("start", robot.now_s)
        robot.go(0.2, (1.0, 0.0, 0.0))
        angle = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi)
        robot.data.qvel[:2] += 0.4 * np.array([np.cos(angle), np.sin(angle)])
        robot.go(3.0)
        assert Mode.DAMP not in robot.seen


def test_a_policy_that_was_stopped_before_a_wall_has_the_robot_again_once_it_asks_for_another_way():
    robot = Led("g1").start().go(1.0).before_wall(0.7)
    x = robot.state().base_pos[0]
    robot.go(0.06, (1.0, 0.0, 0.0))
    assert robot.report.mode is Mode.HOLD and "where it begins to walk" in robot.report.reason
    robot.go(0.3)
    assert robot.report.mode in (Mode.NOMINAL, Mode.FILTERED), robot.report.reason
    robot.go(2.0, (-0.5, 0.0, 0.0))
    assert robot.authority.state is State.POLICY and Mode.DAMP not in robot.seen
    assert robot.state().base_pos[0] < x - 0.3


def test_a_robot_in_fault_is_kept_on_its_feet_until_a_person_disarms_it():
    robot = Led("h1").start()
    robot.authority.come_down(robot.now_s, "device: battery empty")
    robot.go(4.0, speaks=False)
    assert robot.authority.state is State.FAULT and robot.report.mode is Mode.HOLD
    assert not robot.authority.rests, "its shield would leave it alone"
    assert not robot.authority.ask("disarm", robot.now_s)
    assert robot.authority.state is State.DISARMED and robot.authority.rests


def test_a_robot_is_not_armed_beside_a_person():
    for at_m, said in ((0.7, "0.30 m from a person, at least 0.45 needed"), (0.9, "")):
        robot = Led("h1")
        robot.people = Peers(np.array([[at_m, 0.0, 1.0]]), np.zeros((1, 3)), np.zeros(1), np.array([True]))
        robot.go(0.1)
        assert robot.authority.arm() == said
