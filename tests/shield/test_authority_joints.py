"""Who has an arm or a humanoid: home, parked, held when it is disarmed, or on its feet until a person disarms it."""

import numpy as np
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
    spec = load_robot("g1")
    home = np.array(spec.home_target)
    robot = OperatedStand(spec).run(0.1)
    robot.authority.arm()
    robot.authority.ask("start", robot.now_s)
    robot.run(0.6, request=home)
    assert robot.authority.state is State.POLICY
    robot.authority.ask("land", robot.now_s)
    robot.run(robot.params.stand_s + 1.0)
    assert robot.authority.state is State.ARMED and robot.report.mode is Mode.HOLD
    sent = robot.sent
    assert not robot.authority.ask("disarm", robot.now_s)
    robot.run(0.2)
    assert robot.sent == sent


def test_a_stop_from_before_the_start_moves_nothing():
    spec = load_robot("ur5e")
    arm = OperatedStand(spec, np.array(spec.home_target) + 0.2)
    arm.authority.estop("kept on disk")
    arm.run(0.5)
    assert arm.sent == 0 and arm.authority.state is State.STOPPED
    assert make_shield_params(spec) == arm.params
