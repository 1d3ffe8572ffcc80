"""What the shield of a humanoid believes of the state that it is given."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from shield_stand import Stand, tilt_rad

from deploy.shield import Mode, make_shield_params
from deploy.shield.joints.guards import check_upright
from hardware import RobotState, load_robot


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"base_quat": np.zeros(4)}, "unit length"),
        ({"base_pos": np.array([np.nan, 0, 1])}, "state not finite"),
        ({"base_ang_vel": np.zeros(2)}, "shape"),
        ({"joint_pos": np.zeros(7, np.float32)}, "shape (7,) where (29,) is due"),
    ],
)
def test_a_bad_base_or_joint_state_is_named(fields, reason):
    stand = Stand(load_robot("g1")).after_ramp()
    assert stand.step(state=replace(stand.state(), **fields))[1].mode is Mode.NOMINAL
    stand.step()
    for _ in range(stand.params.act_periods + 1):
        _, report = stand.step(state=replace(stand.state(), **fields))
    assert report.mode is Mode.HOLD and reason in report.reason


def turned(state: RobotState, pitch: float) -> RobotState:
    quat = np.zeros(4)
    mujoco.mju_mulQuat(quat, state.base_quat, np.array([np.cos(pitch / 2), 0.0, np.sin(pitch / 2), 0.0]))
    return replace(state, base_quat=quat)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: turned(state, 1.2),
        lambda state: turned(state, -2.5),
        lambda state: replace(state, base_ang_vel=np.array([6.0, -5.0, 1.0])),
        lambda state: replace(state, base_pos=np.array([0.0, 0.0, 0.1])),
        lambda state: replace(state, joint_pos=state.joint_pos + np.float32(np.arange(29) == 3)),
        lambda state: replace(state, base_quat=np.zeros(4)),
    ],
    ids=["pitched", "upside down", "rates", "height", "joint", "no quaternion"],
)
@pytest.mark.parametrize("apart", [1, 7])
def test_one_bad_sample_does_not_take_the_robot_from_its_policy(spoil, apart):
    """Two of them, `apart` periods from one another, with good ones between where there is room."""
    stand = Stand(load_robot("g1")).after_ramp()
    for step in range(20):
        bad = step == 4 or (apart > 1 and step == 4 + apart)
        _, report = stand.step(state=spoil(stand.state()) if bad else stand.state())
        assert report.mode in (Mode.NOMINAL, Mode.FILTERED) and not report.latched
    assert tilt_rad(stand) < 0.1


def test_what_two_samples_say_counts():
    stand = Stand(load_robot("g1")).after_ramp()
    for _ in range(2):
        _, report = stand.step(state=replace(stand.state(), base_ang_vel=np.array([6.0, -5.0, 1.0])))
    assert report.mode is Mode.DAMP and report.latched


@pytest.mark.parametrize(
    ("seen", "by"),
    [
        (lambda state, error: replace(state, base_ang_vel=np.array([0.0, 4.0 + 0.2 * error, 0.0])), "falling"),
        (lambda state, error: replace(state, base_pos=np.array([0.0, 0.0, 0.43 + 0.01 * error])), "base"),
    ],
    ids=["tilt to come", "height"],
)
def test_a_robot_on_its_limit_is_damped_though_every_second_measurement_is_short_of_it(seen, by):
    stand = Stand(load_robot("g1")).after_ramp()
    for error in (1, -1, 1, -1):
        _, report = stand.step(state=seen(stand.state(), error))
    assert report.mode is Mode.DAMP and by in report.reason


def test_upright_is_judged_by_tilt_tilt_to_come_and_height():
    spec = load_robot("g1")
    params = make_shield_params(spec)
    none = np.zeros(3)

    def judge(roll=0.0, pitch=0.0, rate=(0.0, 0.0, 0.0), height_m=spec.home_height_m) -> str:
        quat = np.zeros(4)
        mujoco.mju_euler2Quat(quat, np.array([roll, pitch, 0.3]), "XYZ")
        state = RobotState(none, none, np.array([0, 0, height_m]), quat, none, np.array(rate), np.zeros(()))
        return check_upright(params, spec, state)

    assert judge() == "" and judge(roll=0.5) == "" and judge(pitch=-0.5) == ""
    assert judge(rate=(0, 0, 9.0)) == ""  # turning round is no fall
    assert judge(roll=0.9).startswith("tilted 0.9") and judge(pitch=-0.9).startswith("tilted 0.9")
    assert judge(roll=0.4, rate=(2.5, 0, 0)).startswith("falling") and judge(roll=0.4, rate=(-2.5, 0, 0)) == ""
    assert judge(pitch=0.4, rate=(0, 2.5, 0)).startswith("falling") and judge(pitch=0.4, rate=(0, -2.5, 0)) == ""
    assert judge(height_m=0.3).startswith("base 0.30 m above ground")
