"""Who has an arm or a humanoid: home, parked, held when it is disarmed, or on its feet until a person disarms it."""

import mujoco
import numpy as np
import pytest
from operated import OperatedStand

from deploy.shield import Context, Mode, make_shield_params
from deploy.shield.authority import State
from deploy.shield.fallback import StartCfg
from deploy.shield.types import NO_PEERS
from hardware import load_robot


def test_an_arm_waits_for_its_operator_for_as_long_as_its_policy_does():
    spec = load_robot("ur5e")
    home = np.array(spec.home)
    arm = OperatedStand(spec).run(0.1)
    arm.authority.arm()
    arm.authority.ask("start", arm.now_s)
    for _ in range(8):  # the policy has not spoken yet: its silence is no reason
        arm.run(0.02)
        assert arm.authority.reason == arm.report.reason == "started on request"
    arm.authority.policy_waits = "waiting for operator command on goal"
    arm.run(17.0)
    assert arm.authority.state is State.STARTING
    assert arm.authority.reason == arm.report.reason == "waiting for operator command on goal"
    arm.authority.policy_waits = ""
    arm.run(0.2, request=home)
    assert arm.authority.state is State.POLICY


def test_an_arm_that_waits_for_its_operator_may_miss_a_measurement():
    spec = load_robot("ur5e")
    arm = OperatedStand(spec).run(0.1)
    arm.authority.arm()
    arm.authority.ask("start", arm.now_s)
    arm.authority.policy_waits = "waiting for operator command on goal"
    arm.run(17.0)
    arm.now_s += 0.02
    arm.authority.step(arm.now_s, Context(None, NO_PEERS), None, 0.01)
    arm.run(1.0)
    assert arm.authority.state is State.STARTING


def test_an_arm_goes_home_if_asked_parks_and_is_held_on_when_it_is_disarmed():
    spec = load_robot("ur5e")
    home = np.array(spec.home)
    arm = OperatedStand(spec, home + 0.4, StartCfg(home=True)).run(0.1)
    assert arm.sent == 0
    arm.authority.arm()
    arm.run(0.3)
    assert np.abs(arm.pos - home - 0.4).max() < 0.05
    arm.authority.ask("start", arm.now_s)
    arm.run(4.0, request=home)
    assert arm.authority.state is State.POLICY and np.abs(arm.pos - home).max() < 0.05
    arm.run(0.4, request=home + 0.3)
    arm.authority.ask("land", arm.now_s)
    arm.run(1.5, request=home + 0.5)
    assert arm.authority.state is State.DISARMED
    pos, sent = arm.pos, arm.sent
    arm.run(1.0)
    assert arm.sent > sent and np.abs(arm.pos - pos).max() < 0.01
    arm.authority.arm()
    arm.run(0.5)
    assert np.abs(arm.pos - pos).max() < 0.01


def test_a_humanoid_that_is_asked_down_stands_until_a_person_disarms_it():
    robot = OperatedStand(load_robot("g1")).run(0.1)
    robot.authority.arm()
    robot.authority.ask("start", robot.now_s)
    robot.run(1.2, request="hold")
    assert robot.authority.state is State.POLICY
    robot.authority.ask("land", robot.now_s)
    robot.run(robot.params.stand_s + 1.0)
    assert robot.authority.state is State.ARMED and robot.report.mode is Mode.HOLD
    sent = robot.sent
    assert not robot.authority.ask("disarm", robot.now_s)
    robot.run(0.2)
    assert robot.sent == sent


@pytest.mark.parametrize(("name", "gains"), [("g1", 1.0), ("g1", 0.9), ("h1", 1.0)])
def test_a_humanoid_that_is_armed_is_stood_and_a_push_before_its_first_request_does_not_fell_it(name, gains):
    for seed in range(6):
        spec, rng = load_robot(name), np.random.default_rng(seed)
        robot = OperatedStand(spec, np.array(spec.home) + rng.normal(0.0, 0.01, len(spec.home))).run(0.1)
        robot.model.actuator_gainprm[robot.ctrl, 0] *= gains
        robot.model.actuator_biasprm[robot.ctrl, 1] *= gains
        assert not robot.authority.arm()
        robot.run(0.5)
        angle = rng.uniform(0.0, 2.0 * np.pi)
        robot.data.qvel[:2] += 0.3 * np.array([np.cos(angle), np.sin(angle)])
        robot.run(4.0)
        assert robot.report.mode is Mode.HOLD and robot.data.qpos[2] > 0.95 * spec.home_height_m


class Hanging:
    """A G1 whose feet are 10 cm up: the rope is 1 m long, gives by 16 cm under its weight, and swings little."""

    def __init__(self, pose: dict[str, float]):
        spec = load_robot("g1")
        off = [next((to for part, to in pose.items() if part in joint.name), joint.home) for joint in spec.joints]
        self.robot = OperatedStand(spec, np.array(off))
        self.robot.data.qpos[2] += 0.1
        mujoco.mj_forward(self.robot.model, self.robot.data)
        self.torso = self.robot.model.body("torso_link").id
        self.hook = self.robot.data.xipos[self.torso] + np.array([0.0, 0.0, 0.1])

    def run(self, seconds: float, request=None) -> tuple[float, float]:
        """How far a joint moved, rad, and the fastest one, rad/s."""
        robot, weight_n, moved, fastest = self.robot, 9.81 * self.robot.spec.mass_kg, 0.0, 0.0
        stiffness, began = weight_n / np.array([1.0, 1.0, 0.16]), robot.pos  # N/m
        for _ in range(round(seconds / robot.dt_s)):
            pull = stiffness * (self.hook - robot.data.xipos[self.torso]) - 300.0 * robot.data.qvel[:3]
            robot.data.xfrc_applied[self.torso, :3] = pull + np.array([0.0, 0.0, weight_n])
            robot.run(robot.dt_s, request)
            moved, fastest = max(moved, np.abs(robot.pos - began).max()), max(fastest, np.abs(robot.vel).max())
        return moved, fastest


def test_a_g1_that_is_armed_as_it_hangs_from_a_rope_moves_its_joints_little_and_comes_to_rest():
    hanging = Hanging({})
    hanging.run(1.0)
    assert not hanging.robot.authority.arm()
    moved, fastest = hanging.run(4.0)
    assert moved < 0.3 and fastest < 1.5
    assert hanging.run(4.0)[1] < 0.2 and hanging.robot.report.mode is Mode.HOLD


@pytest.mark.parametrize(
    "pose",
    [
        {"knee": 0.8, "hip_pitch": -0.5, "shoulder_pitch": -1.2},
        {"left_knee": 1.6, "left_hip_pitch": -1.0},
        {"knee": 0.0, "hip_pitch": 0.0, "ankle_pitch": 0.0, "elbow": 0.0},
    ],
)
def test_a_g1_that_hangs_in_another_pose_moves_home_slowly(pose):
    hanging = Hanging(pose)
    hanging.run(1.0)
    assert not hanging.robot.authority.arm()
    assert hanging.run(4.0)[1] < 2.5  # rad/s; it kicked at 13
    robot = hanging.robot
    robot.authority.ask("start", robot.now_s)
    assert hanging.run(3.0, request="hold")[1] < 2.5
    assert robot.authority.state is State.POLICY and robot.report.mode is not Mode.DAMP


def test_a_humanoid_that_its_own_device_has_damped_is_down_until_a_person_acts():
    """It lies, or hangs in its gantry: it was called on its feet, and ARMED after a reset."""
    spec = load_robot("g1")

    def at_fault() -> OperatedStand:
        robot = OperatedStand(spec).run(0.1)
        robot.authority.arm()
        robot.authority.ask("start", robot.now_s)
        robot.run(1.6, request="hold")
        assert robot.authority.state is State.POLICY
        return robot

    obeys, limp = at_fault(), at_fault()
    obeys.authority.come_down(obeys.now_s, "battery at 5 %")
    limp.authority.device_waits = "device: it is not armed yet"
    limp.authority.come_down(limp.now_s, "device: L2+B pressed on the remote")
    for robot, mode in ((obeys, Mode.HOLD), (limp, Mode.DAMP)):
        robot.run(robot.params.stand_s + 1.0)
        assert robot.authority.state is State.FAULT and robot.report.mode is mode
    limp.authority.device_waits = ""  # its driver has ended, and says nothing any more
    limp.run(0.5)
    assert not obeys.authority.rests and limp.authority.rests and limp.report.mode is Mode.DAMP
    for robot, state in ((obeys, State.ARMED), (limp, State.DISARMED)):
        assert not robot.authority.ask("reset", robot.now_s) and robot.authority.state is state
    assert not limp.authority.arm() and limp.authority.state is State.ARMED
    limp.run(0.2)
    assert limp.report.mode is Mode.HOLD


def test_a_stop_from_before_the_start_moves_nothing():
    spec = load_robot("ur5e")
    arm = OperatedStand(spec, np.array(spec.home_target) + 0.2)
    arm.authority.estop("kept on disk")
    arm.run(0.5)
    assert arm.sent == 0 and arm.authority.state is State.STOPPED
    assert make_shield_params(spec) == arm.params
