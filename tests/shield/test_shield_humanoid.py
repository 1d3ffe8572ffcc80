"""The supervisor of humanoids in real physics: it stands while it can, and damps, never limp, when it falls."""

from dataclasses import replace

import numpy as np
import pytest
from shield_stand import Stand, tilt_rad

from benchmarks.humanoid_impacts import fall
from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield.types import NO_PEERS
from hardware import ActuatorCommand, RobotState, load_robot

ROBOTS = ("g1", "h1")


def crouch(stand: Stand) -> np.ndarray:
    """What bends the knees (U,) beside the targets of a stand, with level feet."""
    bend = {
        "knee": 0.3,
        "hip_pitch": -0.15,
        "ankle_pitch": -0.15,
        "left_ankle_joint": -0.15,
        "right_ankle_joint": -0.15,
    }
    return np.array([next((by for part, by in bend.items() if part in name), 0.0) for name in stand.spec.channel_names])


@pytest.mark.parametrize("name", ROBOTS)
def test_it_stands_before_its_first_request_and_under_a_policy_that_stands(name):
    stand = Stand(load_robot(name))
    _, report = stand.run(2.0, request=None)
    assert report.mode is Mode.HOLD and "waiting" in report.reason and tilt_rad(stand) < 0.1
    stand.run(3.0)
    assert set(stand.modes[-100:]) == {Mode.NOMINAL} and tilt_rad(stand) < 0.1


@pytest.mark.parametrize("name", ROBOTS)
def test_when_its_policy_dies_in_a_crouch_it_rises_to_its_home_pose_and_stands(name):
    stand = Stand(load_robot(name)).after_ramp()
    home = stand.home[stand.channel]
    for share in np.linspace(0.0, 1.0, 50):
        stand.step(beside=share * crouch(stand))
    crouched_m = stand.data.qpos[2]
    before = stand.data.ctrl[stand.ctrl].copy()
    sent, report = stand.run(stand.dt_s * (stand.params.act_periods), request=None)
    assert report.mode is Mode.HOLD and report.reason == "no request"
    np.testing.assert_allclose(sent, before, atol=0.05)  # no step in the targets
    sent, report = stand.run(3.0, request=None)
    assert report.mode is Mode.HOLD and tilt_rad(stand) < 0.1 and stand.data.qpos[2] > crouched_m + 0.01
    np.testing.assert_allclose(stand.pos, home, atol=0.15)  # a policy balances


def test_without_a_fallback_policy_it_is_brought_to_its_home_pose():
    """Drives of 600 N m/rad hold an H1 up by its pose alone."""
    spec = load_robot("h1")
    joints = tuple(replace(joint, stiffness=600.0, damping=12.0) for joint in spec.joints)
    stand = Stand(replace(spec, joints=joints, fallback_policy=None))
    stand.policy = None
    stand.model.actuator_gainprm[stand.ctrl, 0] = 600.0
    stand.model.actuator_biasprm[stand.ctrl, 1:3] = -600.0, -12.0
    sent, report = stand.after_ramp().run(0.5, beside=crouch(stand))
    sent, report = stand.run(3.0, request=None)
    assert report.mode is Mode.HOLD and tilt_rad(stand) < 0.1
    np.testing.assert_allclose(sent, stand.home[stand.channel], atol=1e-5)


def test_an_h1_that_is_pushed_after_its_policy_died_steps_and_stays_on_its_feet():
    for push_m_s in (0.4, -0.4):
        stand = Stand(load_robot("h1")).after_ramp()
        stand.run(0.3)
        stand.run(0.3, request=None)
        stand.data.qvel[0] += push_m_s
        stand.run(2.0, request=None)
        assert stand.modes[-1] is Mode.HOLD and tilt_rad(stand) < 0.1


def test_a_reset_while_it_stands_keeps_the_efforts_of_its_legs():
    stand = Stand(load_robot("g1")).after_ramp()
    for share in np.linspace(0.0, 1.0, 50):
        stand.step(beside=share * crouch(stand))
    before = stand.data.ctrl[stand.ctrl].copy()
    stand.shield.reset()
    sent, report = stand.step(request=None)
    assert report.mode is Mode.HOLD and "waiting" in report.reason
    np.testing.assert_allclose(sent, before, atol=0.02)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_fall_is_foreseen_and_damped_without_ever_letting_go(name):
    stand = Stand(load_robot(name)).after_ramp()
    stand.run(0.5)
    stand.data.qvel[0] = 2.0
    while stand.step()[1].mode is not Mode.DAMP:
        assert tilt_rad(stand) < stand.params.max_tilt_rad
    assert tilt_rad(stand) < 0.6  # the ground is still far
    began = (len(stand.modes) - 1) * stand.steps
    _, report = stand.run(4.0)
    assert report.mode is Mode.DAMP and "falling: tilt" in report.reason
    effort = np.abs(np.array(stand.torque)).sum(-1)
    falling = effort[began : began + 25 * stand.steps]
    assert falling.min() > 5.0
    for _ in range(100):
        stand.step()
        assert (np.abs(stand.vel) < 0.6).all()  # lies still
    assert stand.modes[-1] is Mode.DAMP  # until a person resets it


def test_damping_at_once_meets_the_ground_more_softly_than_pulling_on():
    """Of a G1 that is pushed over from six sides, by what `benchmarks.humanoid_impacts` measures."""
    force_n = {how: sum(fall("g1", how, number)[0] for number in range(6)) for how in ("damped", "fading")}
    assert force_n["damped"] < 0.9 * force_n["fading"]


def test_damped_joints_are_slower_than_limp_ones():
    """The limbs of a robot that damps swing less than those of one whose drives are off."""

    def swing(damp: bool) -> float:
        stand = Stand(load_robot("g1")).after_ramp()
        stand.model.opt.gravity[:] = 0.0
        stand.data.qpos[2] = 3.0
        stand.shield.estop()
        if not damp:
            stand.model.actuator_gainprm[:] = stand.model.actuator_biasprm[:] = 0.0
        stand.run(stand.params.damp_s + 0.2)
        stand.data.qvel[stand.qvel] = np.where(np.arange(len(stand.qvel)) % 2, 1.0, -1.0)
        stand.run(0.3)
        return float(np.square(stand.vel).sum())

    assert swing(damp=True) < 0.3 * swing(damp=False)


@pytest.mark.parametrize("name", ROBOTS)
def test_an_emergency_stop_damps_at_once(name):
    stand = Stand(load_robot(name)).after_ramp()
    before = np.abs(stand.torque[-1]).sum()
    stand.shield.estop()
    _, report = stand.step()
    assert report.mode is Mode.ESTOP and np.abs(stand.torque[-1]).sum() > 0.5 * before
    _, report = stand.run(6.0)
    assert report.mode is Mode.ESTOP
    lead = stand.data.ctrl[stand.ctrl] - stand.pos
    low, high = np.array(stand.params.position_low), np.array(stand.params.position_high)
    soft = 0.11 * (high - low)
    inside = (stand.pos > low + soft) & (stand.pos < high - soft)
    assert (np.abs(lead)[inside] < 0.05).all()  # targets follow the joints


def test_it_falls_back_to_damping_when_it_lies_at_the_first_request():
    spec = load_robot("g1")
    stand = Stand(spec)
    stand.data.qpos[2:7] = 0.15, np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0
    _, report = stand.run(0.2, request=None)
    assert report.mode is Mode.HOLD
    _, report = stand.step()
    assert report.mode is Mode.DAMP and "tilt" in report.reason


@pytest.mark.parametrize(("name", "blind_s"), [("g1", 0.5), ("h1", 1.0)])
def test_blind_for_a_while_it_keeps_its_last_targets_and_its_feet(name, blind_s):
    """A G1, whose drives are soft, stands on them for half a second and not for a whole one."""
    stand, noticed_s = Stand(load_robot(name)).after_ramp(), 0.12
    stand.run(noticed_s, state=None)
    before = stand.data.ctrl[stand.ctrl].copy()
    _, report = stand.run(blind_s - noticed_s, state=None)
    assert report.mode is Mode.HOLD and report.reason == "no state" and tilt_rad(stand) < 0.1
    np.testing.assert_allclose(stand.data.ctrl[stand.ctrl], before, atol=1e-3)
    stand.run(3.0)
    assert Mode.DAMP not in stand.modes and tilt_rad(stand) < 0.1


def test_a_robot_that_fell_while_it_was_blind_damps_once_it_sees_that():
    stand = Stand(load_robot("g1")).after_ramp()
    while tilt_rad(stand) < 1.0:
        assert stand.step(state=None)[1].mode in (Mode.NOMINAL, Mode.FILTERED, Mode.HOLD)
    assert stand.step()[1].mode is Mode.DAMP


@pytest.mark.parametrize("blind_s", [0.0, 0.04, 1.0])
def test_an_emergency_stop_without_a_state_damps_all_the_same(blind_s):
    stand = Stand(load_robot("g1")).after_ramp()
    for share in np.linspace(0.0, 1.0, 50):
        stand.step(beside=share * crouch(stand))
    stand.run(0.3, beside=crouch(stand))
    seen = stand.pos
    lead = np.abs(stand.data.ctrl[stand.ctrl] - seen)
    assert lead.max() > 0.02  # what carries the robot
    stand.run(blind_s, state=None) if blind_s else None
    stand.shield.estop()
    _, report = stand.step(state=None)
    assert report.mode is Mode.ESTOP
    _, report = stand.run(stand.params.damp_s + 0.2, state=None)
    assert report.mode is Mode.ESTOP
    np.testing.assert_allclose(stand.data.ctrl[stand.ctrl], seen, atol=0.01)  # nothing pulls but what resists


def test_a_robot_that_damps_goes_on_damping_when_its_state_is_lost():
    stand = Stand(load_robot("g1")).after_ramp()
    stand.data.qvel[0] = 2.0
    while stand.step()[1].mode is not Mode.DAMP:
        pass
    stand.run(0.3, state=None)
    assert set(stand.modes[-10:]) == {Mode.DAMP}


def test_a_robot_that_falls_before_its_first_request_is_not_held_stiff():
    stand = Stand(load_robot("g1"))
    stand.run(0.2, request=None)
    stand.data.qvel[0] = 2.0
    for _ in range(100):
        _, report = stand.step(request=None)
    assert report.mode is Mode.DAMP and "tilt" in report.reason


def test_it_rises_without_a_jump_after_a_second_gap_of_its_state():
    stand = Stand(load_robot("g1")).after_ramp()
    for share in np.linspace(0.0, 1.0, 50):
        stand.step(beside=share * crouch(stand))
    stand.run(0.2, state=None, beside=crouch(stand))
    stand.run(0.2)  # half of the way up
    stand.run(0.2, state=None)
    assert stand.modes[-1] is Mode.HOLD
    before = stand.data.ctrl[stand.ctrl].copy()
    sent, report = stand.step()
    assert report.mode is Mode.HOLD
    np.testing.assert_allclose(sent, before, atol=0.02)


def test_a_robot_of_a_new_class_brings_its_own_fallback(tmp_path, monkeypatch):
    """Named as module:CLASS in its specification, it answers for the lost policy; what is not there is refused."""
    (tmp_path / "four_legs.py").write_text(
        "from deploy.shield.fallback import FallbackCommand, Mode\n"
        "from deploy.shield.joints.fallback import JointFallback\n\n\n"
        "class FourLegs(JointFallback):\n"
        "    def trip(self):\n        self.reset()\n\n"
        "    def fall_back(self, state, sent, since_s, elapsed_s, stop):\n"
        "        return FallbackCommand(self._measured(state), Mode.HOLD, self.params)\n\n"
        "    go_blind = fall_back\n"
    )
    monkeypatch.chdir(tmp_path)
    spec = replace(load_robot("g1"), name="quad", kind="quadruped", fallback="four_legs:FourLegs")
    shield, still = Shield(make_shield_params(spec), spec), np.zeros(len(spec.joints))
    pose = np.float32([0.5 * (joint.low + joint.high) for joint in spec.joints])
    state = RobotState(pose, still, np.array([0, 0, 0.8]), np.array([1.0, 0, 0, 0]), *np.zeros((2, 3)), np.zeros(()))
    context, request = Context(state, NO_PEERS), ActuatorCommand(pose[list(spec.joint_of_channel)] + np.float32(0.1))
    modes = set()
    for step in range(100):  # the policy dies after ten requests
        sent, report = shield.step(0.02 * step, context, request if step < 10 else None, 0.0)
        modes.add(report.mode)
    assert Mode.FILTERED in modes or Mode.NOMINAL in modes
    assert report.mode is Mode.HOLD and report.latched
    np.testing.assert_allclose(sent.target, pose[list(spec.joint_of_channel)], atol=0.05)
    with pytest.raises(ValueError, match="'four_legs' has no 'ThreeLegs'"):
        Shield(make_shield_params(spec), replace(spec, fallback="four_legs:ThreeLegs"))


def test_a_target_of_a_soft_drive_may_run_ahead_faster_than_its_joint():
    """Ankles of an H1 turn at 9 rad/s at most, 0.18 rad in a period: a policy that balances was held back by that."""
    stand = Stand(load_robot("h1")).after_ramp()
    ankles = np.array(["ankle" in name for name in stand.spec.channel_names])
    before = stand.data.ctrl[stand.ctrl].copy()
    sent, report = stand.step(request=before + 0.3 * ankles)  # of 40 N m at 40 N m/rad
    assert report.mode is Mode.NOMINAL
    np.testing.assert_allclose(sent, before + 0.3 * ankles, atol=1e-6)
