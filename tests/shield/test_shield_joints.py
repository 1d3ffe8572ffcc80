"""The filter of joints: what passes, what is held back and why, and joints that adversaries cannot drive out."""

from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import torch
from shield_arm import Adversaries, filtered_with, three_joint_arm, without_shapes

from deploy.shield import (
    Context,
    JointShieldParams,
    ShieldParamsError,
    filter_command,
    joint_row_names,
    make_shield_params,
)
from deploy.shield.types import NO_PEERS
from hardware import RobotSpec, RobotState, load_robot
from sim.attack.arms import Rig

ROBOTS = ("three_joint_arm", "panda", "ur5e")


@pytest.fixture
def arm(tmp_path) -> RobotSpec:
    return three_joint_arm(tmp_path)


def load(name: str, folder) -> RobotSpec:
    return three_joint_arm(folder) if name == "three_joint_arm" else without_shapes(load_robot(name), folder)


def state(pos, vel, age=0.0) -> RobotState:
    pos, vel = np.asarray(pos, np.float32), np.asarray(vel, np.float32)
    none, quat = np.zeros((*pos.shape[:-1], 3)), np.zeros((*pos.shape[:-1], 4))
    return RobotState(pos, vel, none, quat, none, none, np.full(pos.shape[:-1], age, np.float32))


def tensors(value: RobotState) -> RobotState:
    return RobotState(*(torch.as_tensor(getattr(value, name)) for name in RobotState.__slots__))


def names_of(spec: RobotSpec, active: np.ndarray) -> list[str]:
    return [joint_row_names(spec)[index] for index in np.flatnonzero(active)]


def send(spec: RobotSpec, pos, vel, target, **overrides):
    params = make_shield_params(spec, **overrides)
    sent, info = filter_command(params, spec, Context(state(pos, vel), NO_PEERS), np.asarray(target, np.float32))
    return sent, info, names_of(spec, info.active)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_adversaries_drive_no_joint_out_of_its_range_or_far_beyond_its_speed(name, tmp_path):
    spec = load(name, tmp_path)
    turning = np.array([channel.unit == "rad" for channel in spec.channels])
    rng = np.random.default_rng(0)
    rig = Rig(spec, 9, rng)
    out = rig.run(Adversaries(spec, rng), filtered_with(make_shield_params(spec), spec), 20.0)
    print(f"{name}\n{out}")
    assert (out.beyond[turning] < 0.0).all()
    assert (out.speed[turning] < 1.05).all()
    # The test means something only where the joints got around, and fast.
    assert (out.travelled[turning] > 0.9).all() and (out.speed[turning] > 0.6).all()


@pytest.mark.slow
def test_where_the_servo_is_soft_it_is_hardly_ever_asked_for_more_than_its_effort(arm):
    rng = np.random.default_rng(1)
    out = Rig(arm, 9, rng).run(Adversaries(arm, rng), filtered_with(make_shield_params(arm), arm), 10.0)
    assert (out.saturated < 0.01).all()  # 0.93 % of the steps in the worst of six draws of these attacks


def test_without_the_filter_the_same_adversaries_break_every_limit(arm):
    rng = np.random.default_rng(0)
    out = Rig(arm, 9, rng).run(Adversaries(arm, rng), lambda now, r: np.nan_to_num(r).clip(-9.0, 9.0), 4.0)
    assert (out.beyond > 0.0).all() and (out.speed > 3.0).all() and (out.saturated > 0.2).all()


@pytest.mark.parametrize("name", ROBOTS)
def test_the_filter_leaves_a_joint_fast_enough_to_work_with(name, tmp_path):
    """From one end of its range to the other in at most twice the time that its speed limit allows."""
    spec = load(name, tmp_path)
    turning = [index for index, channel in enumerate(spec.channels) if channel.unit == "rad"]
    rng = np.random.default_rng(0)
    low, high = np.array(spec.command_low), np.array(spec.command_high)
    rig = Rig(spec, len(turning), rng)
    home = rig.datas[0].qpos[rig.qpos][rig.channel]
    for index, data in zip(turning, rig.datas, strict=True):
        data.qpos[rig.qpos[rig.channel[index]]] = low[index] + 0.05 * (high - low)[index]
    reached_s = np.full(len(turning), np.inf)
    request = np.tile(home, (len(turning), 1))
    request[range(len(turning)), turning] = high[turning]

    def policy(pos, vel, step):
        share = ((pos - low) / (high - low))[range(len(turning)), turning]
        reached_s[(share > 0.95) & np.isinf(reached_s)] = step / spec.control_hz
        return request

    rig.run(policy, filtered_with(make_shield_params(spec), spec), 8.0)
    speeds = np.array([spec.joints[i].max_velocity for i in rig.channel])[turning]
    assert (reached_s < 2.0 * 0.9 * (high - low)[turning] / speeds).all()


def test_a_target_that_breaks_no_bound_passes_bit_by_bit(arm):
    rng = np.random.default_rng(1)
    pos = np.float32([0.1, -1.0, 0.2]) + rng.normal(0, 0.05, (64, 3)).astype(np.float32)
    target = pos + rng.normal(0, 0.01, (64, 3)).astype(np.float32)
    params = make_shield_params(arm)
    sent, info = filter_command(params, arm, Context(tensors(state(pos, 0 * pos)), NO_PEERS), torch.as_tensor(target))
    assert sent.numpy().tobytes() == target.tobytes()
    assert not info.active.any() and (info.intervention == 0).all() and info.feasible.all()
    one, info = filter_command(params, arm, Context(state(pos[0], 0 * pos[0]), NO_PEERS), target[0])
    assert one.tobytes() == target[0].tobytes() and info.intervention == 0


def test_one_robot_in_numpy_and_a_batch_in_torch_send_the_same():
    spec = load_robot("panda")
    rng = np.random.default_rng(2)
    low, high = np.array(spec.command_low), np.array(spec.command_high)
    channel = np.array(spec.joint_of_channel)
    pos = rng.uniform(low, high, (20, 10, len(low)))
    wild = np.where(np.arange(20) % 2, 1.0, 0.05)[:, None, None]  # of half of them the joints are where they may be
    pos = np.where(wild < 1.0, np.clip(pos, 0.9 * low + 0.1 * high, 0.1 * low + 0.9 * high), pos)
    speed = np.array([spec.joints[i].max_velocity for i in channel])
    joint_pos, joint_vel = np.zeros((2, 20, 10, len(spec.joints)))
    joint_pos[..., channel], joint_vel[..., channel] = pos, wild * rng.normal(0, 0.5, pos.shape) * speed
    target = (pos + wild * rng.normal(0, 0.02, pos.shape)).astype(np.float32)
    target[0, 0, 0] = np.nan
    now, before = state(joint_pos, joint_vel, 0.01), pos + rng.normal(0, 0.05, pos.shape)
    params = make_shield_params(spec)
    batch = Context(tensors(now), NO_PEERS, sent=torch.as_tensor(before))
    sent, info = filter_command(params, spec, batch, torch.as_tensor(target))
    assert sent.dtype == torch.float32 and torch.isfinite(sent).all()
    for index in np.ndindex(20, 10):
        own = RobotState(*(getattr(now, name)[index] for name in RobotState.__slots__))
        alone, alone_info = filter_command(params, spec, Context(own, NO_PEERS, sent=before[index]), target[index])
        np.testing.assert_allclose(alone, sent[index], atol=1e-6)
        np.testing.assert_allclose(alone_info.intervention, info.intervention[index], atol=1e-6)
        np.testing.assert_allclose(alone_info.margin, info.margin[index], atol=1e-6)
        assert (alone_info.active == info.active[index].numpy()).all()
        assert alone.dtype == np.float32
    assert 0.2 < (info.intervention > 0).double().mean() < 1.0


def test_a_joint_near_its_limit_brakes_and_says_so(arm):
    sent, info, names = send(arm, [1.6, -1, 0], [1.8, 0, 0], [1.75, -1, 0])
    assert names == ["shoulder: braking"]
    # The servo now pulls back: with what, is for the drive; that it does, is the point.
    assert 400.0 * (sent[0] - 1.6) - 40.0 * 1.8 < -10.0
    assert info.intervention == pytest.approx(1.75 - sent[0], abs=1e-5)
    assert info.margin == pytest.approx((1.8 - 1.6) / 3.6, abs=1e-5)


def test_a_target_outside_the_range_ends_inside_its_margin(arm):
    sent, _, names = send(arm, [1.72, -1, 0], [0, 0, 0], [1.8, -1, 0])
    assert sent[0] == pytest.approx(1.8 - 0.02 * 3.6) and "shoulder: range" in names


def test_effort_is_held_back_before_the_drive_saturates(arm):
    sent, _, names = send(arm, [0, -1, 0], [0, 0, 0], [0, -1, 0.5], speed_share=1.0, approach_gain=9.0)
    picked_up = 0.8 * 20.0 * 0.02  # rad/s, in one period, half of which it is late by
    fades = (0.5 * 0.02 * 100.0 + 6.0) * picked_up
    assert names == ["wrist: effort"] and 100.0 * sent[2] == pytest.approx(0.9 * 12.0 + fades, rel=1e-5)


@pytest.mark.parametrize(("pickup_share", "least", "most"), [(0.0, 0.0, 0.8), (None, 0.9, 1.01)])
def test_a_stiff_wrist_starts_nearly_as_fast_as_without_the_filter(pickup_share, least, most):
    """It would not if the fading of the servo's effort while the joint picks up speed were forgotten."""
    spec = load_robot("panda")
    chosen = {} if pickup_share is None else {"pickup_share": pickup_share}
    wrist = spec.channel_names.index("joint6")
    joint = spec.joints[wrist]
    lead = np.zeros(len(spec.channels))
    lead[wrist] = 1.0 * (joint.damping / joint.stiffness + 0.01)  # of a joint that runs at 1 rad/s

    def way(guard) -> float:
        rig = Rig(spec, 1, np.random.default_rng(0))
        start = rig.truth()[0][0, wrist]
        rig.run(lambda pos, vel, step: pos + lead, guard, 0.1)
        return rig.truth()[0][0, wrist] - start

    free = way(lambda now, request: request)
    assert least < way(filtered_with(make_shield_params(spec, **chosen), spec)) / free < most


@pytest.mark.parametrize("name", ["g1", "h1"])
@pytest.mark.parametrize("far", [-9.0, 9.0])
def test_no_drive_of_a_humanoid_at_rest_is_asked_for_more_than_its_share(name, far):
    spec = load_robot(name)
    home = np.array(spec.home)
    sent, _, _ = send(spec, home, np.zeros(len(home)), np.full(len(spec.channels), far))
    driven = [spec.joints[joint] for joint in spec.joint_of_channel]
    asked = [
        abs(joint.stiffness * (to - joint.home)) / joint.max_effort for joint, to in zip(driven, sent, strict=True)
    ]
    assert max(asked) == pytest.approx(0.9, rel=1e-5)


def test_speed_is_held_back(arm):
    _, _, names = send(arm, [0, -1, 0], [1.6, 0, 0], [0.3, -1, 0])
    assert names == ["shoulder: speed"]


def test_power_is_shared_by_all_joints_that_drive(arm):
    loose = {"speed_share": 1.0, "approach_gain": 9.0, "effort_share": 1.0}
    moving = [0, -1, 0], [1.0, 1.0, -1.0]
    free, _, _ = send(arm, *moving, [0.25, -0.8, 0.0], **loose)
    sent, _, names = send(arm, *moving, [0.25, -0.8, 0.0], **loose, max_power_w=20.0)
    assert names == ["shoulder: power", "elbow: power"]  # the wrist brakes
    assert sent[2] == free[2] and sent[0] < free[0] and sent[1] < free[1]


def test_a_request_that_is_not_finite_brakes_all_joints(arm):
    for bad in (np.nan, np.inf, -np.inf):
        sent, info, _ = send(arm, [0, -1, 0], [1.0, 0, 0], [0.1, -1, bad])
        np.testing.assert_allclose(sent, [0, -1, 0], atol=0.02)
        assert info.intervention > 1.0


def test_a_joint_found_beyond_its_margin_is_brought_back_slowly(arm):
    rig = Rig(arm, 1, np.random.default_rng(0))
    rig.datas[0].qpos[rig.qpos[0]] = 1.79
    out = rig.run(lambda pos, vel, step: np.array([[1.8, -1.2, 0.0]]), filtered_with(make_shield_params(arm), arm), 2.0)
    assert 1.6 < rig.truth()[0][0, 0] < 1.8 - 0.02 * 3.6 + 0.01 and out.speed[0] < 0.3


def test_a_gripper_may_press_with_its_effort_against_what_it_holds_and_touch_its_stops():
    spec = load_robot("panda")
    finger = spec.channel_names.index("finger")
    home = np.array(spec.home_target)
    held = home.copy()
    held[finger] = 0.02
    target = held.copy()
    target[finger] = 0.02 - 0.8 * spec.joints[spec.joint_of_channel[finger]].max_effort / spec.joints[-1].stiffness
    sent, _, names = send(spec, held, 0 * held, target)
    assert names == [] and sent[finger] == np.float32(target[finger])
    held[finger] = 0.0005
    target[finger] = 0.0
    assert send(spec, held, 0 * held, target)[0][finger] == 0.0


def test_parameters_are_plain_numbers_and_named_when_wrong(arm):
    params = make_shield_params(arm)
    assert isinstance(params, JointShieldParams)
    for field in fields(params):
        value = getattr(params, field.name)
        assert isinstance(value, (int, float)) or all(type(v) is float for v in value)
    assert make_shield_params(arm, **asdict(params)) == params
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(params).items()}
    assert make_shield_params(arm, **listed) == params
    with pytest.raises(ShieldParamsError, match=r"unknown shield parameter 'separation_m'; known: .*max_power_w"):
        make_shield_params(arm, separation_m=1.0)
    with pytest.raises(ShieldParamsError, match=r"effort_share = -1\.0: must be greater than 0"):
        make_shield_params(arm, effort_share=-1.0)
    for name in ("ramp_s", "ground_z_m", "latency_s"):
        with pytest.raises(ShieldParamsError, match=f"{name} = nan: must be finite"):
            make_shield_params(arm, **{name: float("nan")})
    for name in ("max_velocity", "position_low"):
        with pytest.raises(ShieldParamsError, match=f"{name} = .*nan.*: must be finite"):
            make_shield_params(arm, **{name: (1.0, float("nan"), 1.0)})
    with pytest.raises(ShieldParamsError, match=r"effort_share = 1\.2: must be at most 1"):
        make_shield_params(arm, effort_share=1.2)
    with pytest.raises(ShieldParamsError, match=r"act_periods = 1000: must be at most 25"):
        make_shield_params(arm, act_periods=1000)
    with pytest.raises(ShieldParamsError, match=r"act_periods = 2\.5: must be a whole number"):
        make_shield_params(arm, act_periods=2.5)
    for name in ("position_high", "max_velocity", "max_acceleration", "max_effort"):
        wide = [2.0 * getattr(params, name)[0], *getattr(params, name)[1:]]
        with pytest.raises(ShieldParamsError, match=f"{name} of shoulder = .*: must be at most"):
            make_shield_params(arm, **{name: wide})
    with pytest.raises(ShieldParamsError, match=r"position_low of wrist = -3: must be at least -2"):
        make_shield_params(arm, position_low=(-1.0, -1.0, -3.0))
    with pytest.raises(ShieldParamsError, match="one number per channel"):
        make_shield_params(arm, max_velocity=(1.0,))
    with pytest.raises(ShieldParamsError, match="position_low = 3 must be below"):
        make_shield_params(arm, position_low=(3.0, -1.0, -1.0))
    with pytest.raises(ShieldParamsError, match="'elbow' has no stiffness"):
        make_shield_params(replace(arm, joints=(arm.joints[0], replace(arm.joints[1], stiffness=0.0), arm.joints[2])))


def test_parameters_of_another_class_of_robot_are_refused(arm):
    drone = load_robot("crazyflie")
    for params, spec in ((make_shield_params(arm), drone), (make_shield_params(drone), arm)):
        with pytest.raises(ValueError, match="are not the shield parameters of"):
            filter_command(
                params, spec, Context(state(np.zeros(3), np.zeros(3)), NO_PEERS), np.zeros(len(spec.channels))
            )
