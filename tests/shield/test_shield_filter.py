"""filter_command: what passes, what does not, the same for one robot and for a batch, and how fast."""

import time

import numpy as np
import pytest
import torch

from deploy.shield import Context, constraint_rows, filter_command, make_shield_params, row_names
from deploy.shield.drone.params import THRUST_ERROR
from hardware import Peers, RobotState, load_robot

SPEC = load_robot("crazyflie")
PARAMS = make_shield_params(SPEC)
HOVER = np.array([SPEC.flight.hover_thrust_n, 0, 0, 0], np.float32)


def scenes(rng: np.random.Generator, shape: tuple[int, ...], num_peers: int, size_m: float = 1.5):
    """Random float32 states, peers and requests of a batch `shape`, from calm to desperate."""

    def real(*values):
        return (np.asarray(value, np.float32) for value in values)

    quat = np.array([1.0, 0, 0, 0]) + rng.normal(0, 0.15, (*shape, 4))
    quat /= np.linalg.norm(quat, axis=-1, keepdims=True)
    pos = np.array([0, 0, 1.6]) + rng.uniform(-size_m, size_m, (*shape, 3))
    others = np.array([0, 0, 1.6]) + rng.uniform(-size_m, size_m, (*shape, num_peers, 3))
    none = np.zeros((*shape, 0))
    state = RobotState(
        *real(none, none, pos, quat, rng.normal(0, 0.7, pos.shape), rng.normal(0, 1, pos.shape), np.full(shape, 0.01))
    )
    told = real(others, rng.normal(0, 0.5, others.shape), np.full(others.shape[:-1], 0.02))
    request = rng.uniform(SPEC.command_low, SPEC.command_high, (*shape, 4)).astype(np.float32)
    return state, Peers(*told, rng.random(others.shape[:-1]) < 0.9), request


def tensors(value):
    return type(value)(*(torch.as_tensor(getattr(value, name)) for name in value.__slots__))


def one(value, index):
    return type(value)(*(getattr(value, name)[index] for name in value.__slots__))


def test_one_robot_by_daqp_and_a_batch_in_torch_send_the_same():
    state, peers, request = scenes(np.random.default_rng(0), (600,), 5, size_m=0.8)
    request[::50] = np.nan
    sent, info = filter_command(PARAMS, SPEC, Context(tensors(state), tensors(peers)), torch.as_tensor(request))
    for index in range(len(request)):
        alone, alone_info = filter_command(PARAMS, SPEC, Context(one(state, index), one(peers, index)), request[index])
        np.testing.assert_allclose(alone, sent[index], atol=1e-6, rtol=1e-6)
        assert alone.dtype == np.float32 and np.isfinite(alone).all()
        assert bool(alone_info.feasible) == bool(info.feasible[index])
        np.testing.assert_allclose(alone_info.margin, info.margin[index], atol=1e-6)
        np.testing.assert_allclose(alone_info.intervention, info.intervention[index], atol=1e-5)
        assert (alone_info.active == info.active[index].numpy()).all()
    share = float((info.intervention > 0).double().mean())
    assert 0.3 < share < 1.0
    assert not info.feasible.all()


def test_a_request_that_breaks_no_rule_passes_bit_by_bit():
    rng = np.random.default_rng(1)
    calm, peers, _ = scenes(rng, (64, 4), 3)
    calm.base_pos[:], calm.base_quat[:] = [0, 0, 1.5], [1, 0, 0, 0]
    peers.pos[:] = [9, 9, 1]
    calm.base_lin_vel *= 0.2
    calm.base_ang_vel *= 0.1
    request = (HOVER * rng.uniform(0.95, 1.05, (64, 4, 1)) + rng.normal(0, 0.2, (64, 4, 4)) * [0, 1, 1, 1]).astype(
        np.float32
    )
    sent, info = filter_command(PARAMS, SPEC, Context(tensors(calm), tensors(peers)), torch.as_tensor(request))
    assert sent.numpy().tobytes() == request.tobytes()
    assert not info.active.any() and (info.intervention == 0).all()
    # ... also for those of a batch whose neighbours in the batch are corrected.
    request[0, 0] = [0.8, 6, 6, 3]
    sent, info = filter_command(PARAMS, SPEC, Context(tensors(calm), tensors(peers)), torch.as_tensor(request))
    assert info.intervention[0, 0] > 0 and (sent[0, 0].numpy() != request[0, 0]).any()
    assert sent.numpy()[1:].tobytes() == request[1:].tobytes()


def test_what_is_out_of_a_channel_is_clamped_and_nothing_else():
    state, peers, _ = scenes(np.random.default_rng(2), (), 0)
    state.base_pos[:], state.base_lin_vel[:], state.base_ang_vel[:], state.base_quat[:] = (
        [0, 0, 1.5],
        0,
        0,
        [1, 0, 0, 0],
    )
    sent, _ = filter_command(PARAMS, SPEC, Context(state, peers), np.float32([0.43, 0.1, 0.2, 99.0]))
    assert sent.tolist() == np.float32([0.43, 0.1, 0.2, 3.0]).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_request_that_is_not_finite_never_leaves(bad):
    state, peers, _ = scenes(np.random.default_rng(3), (200,), 4)
    request = np.tile(HOVER, (200, 1))
    request[np.arange(200), np.arange(200) % 4] = bad
    sent, _ = filter_command(PARAMS, SPEC, Context(tensors(state), tensors(peers)), torch.as_tensor(request))
    assert np.isfinite(sent.numpy()).all()


def test_where_no_acceleration_is_good_enough_the_backup_leads_away():
    state, peers, _ = scenes(np.random.default_rng(4), (), 3)
    state.base_pos[:], state.base_quat[:], state.base_lin_vel[:] = [0, 0, 1.5], [1, 0, 0, 0], 0
    state.base_ang_vel[:] = 0
    peers.pos[:] = [[0.2, 0.02, 1.5], [-0.2, 0.02, 1.5], [0, 0.25, 1.5]]
    peers.lin_vel[:] = [[-0.5, 0, 0], [0.5, 0, 0], [0, -0.5, 0]]
    peers.valid[:] = True
    sent, info = filter_command(PARAMS, SPEC, Context(state, peers), HOVER)
    assert not info.feasible and info.margin < 0
    assert sent[1] > 2.0 and abs(sent[2]) < 1.0  # rolls towards -y, the only side without a peer


def test_the_active_rows_have_names():
    state, peers, _ = scenes(np.random.default_rng(5), (), 1)
    state.base_pos[:], state.base_quat[:], state.base_lin_vel[:] = [0, 0, 1.5], [1, 0, 0, 0], [1, 0, 0]
    peers.pos[:], peers.lin_vel[:], peers.valid[:] = [[0.8, 0, 1.5]], 0, True
    _, info = filter_command(PARAMS, SPEC, Context(state, peers), HOVER)
    assert [row_names(Context(state, peers))[i] for i in np.flatnonzero(info.active)] == ["peer_0"]


def test_one_robot_with_eight_peers_is_filtered_within_half_a_millisecond():
    state, peers, request = scenes(np.random.default_rng(6), (300,), 8)
    cases = [(Context(one(state, i), one(peers, i)), request[i]) for i in range(300)]
    times_s = []
    for _ in range(3):
        for case in cases:
            start_s = time.thread_time()
            filter_command(PARAMS, SPEC, *case)
            times_s.append(time.thread_time() - start_s)
    assert np.median(times_s) < 0.5e-3  # about 0.1 ms on an idle core; this only catches an order of magnitude


@pytest.mark.parametrize("name", ["crazyflie", "x500"])
def test_a_drone_that_falls_can_be_braked_for_its_floor(name):
    spec = load_robot(name)
    rest = np.zeros(0), np.zeros(0), np.array([0.0, 0.0, 0.7]), np.array([1.0, 0, 0, 0]), np.array([0.0, 0.0, -2.0])
    state = RobotState(*rest, np.zeros(3), np.array(0.02))
    no_peers = Peers(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, bool))
    down = np.array([spec.command_low[0], 0, 0, 0], np.float32)
    sent, info = filter_command(make_shield_params(spec), spec, Context(state, no_peers), down)
    assert info.feasible and sent[0] > 1.2 * spec.flight.hover_thrust_n


def climbing(height_m: float, climb_m_s: float, peer_m: float = 0.0, age_s: float = 0.01) -> Context:
    """A level drone, alone or with a peer that rests `peer_m` above it."""
    rest, pos, level = np.zeros(0), np.array([0.0, 0.0, height_m]), np.array([1.0, 0.0, 0.0, 0.0])
    state = RobotState(rest, rest, pos, level, np.array([0.0, 0.0, climb_m_s]), np.zeros(3), np.float64(age_s))
    above = np.array([[0.0, 0.0, height_m + peer_m]] if peer_m else []).reshape(-1, 3)
    return Context(state, Peers(above, 0.0 * above, np.zeros(len(above)), np.ones(len(above), bool)))


@pytest.mark.parametrize("robot", ["crazyflie", "x500"])
def test_full_thrust_is_sent_as_it_is_where_nothing_is_near_and_held_back_below_the_ceiling(robot):
    spec = load_robot(robot)
    params, full = make_shield_params(spec), np.array([spec.command_high[0], 0, 0, 0], np.float32)

    def sent(height_m, climb_m_s, peer_m=0.0):
        return filter_command(params, spec, climbing(height_m, climb_m_s, peer_m), full)[0]

    most_n = spec.mass_kg * (9.81 + params.max_climb_accel)
    assert (sent(1.5, 0.0) == full).all()
    near_m = 1.1 * params.downwash_ratio * params.separation_m
    for held in (sent(2.5, 0.0), sent(1.5, 1.5), sent(1.5, 0.0, near_m)):
        assert held[0] <= 1.001 * most_n < full[0]


@pytest.mark.parametrize("robot", ["crazyflie", "x500"])
def test_after_full_thrust_that_no_prediction_counts_on_rows_leave_the_climb_that_is_let_through_near_things(robot):
    """75 ms of it: a state's age, a period and the rotors' lag, with rotors as strong as the guarantee allows."""
    spec, unseen_s = load_robot(robot), 0.075
    params, full = make_shield_params(spec), np.array([spec.command_high[0], 0, 0, 0], np.float32)
    accel = (1.0 + THRUST_ERROR) * full[0] / spec.mass_kg - 9.81
    ceiling_m, left = params.geofence_high[2], []
    for speed in np.arange(-1.0, 1.5, 0.25):
        for height_m in np.arange(ceiling_m - 1.5, ceiling_m, 0.02):
            if (filter_command(params, spec, climbing(height_m, speed, age_s=0.0), full)[0] == full).all():
                higher_m = height_m + speed * unseen_s + 0.5 * accel * unseen_s**2
                context = climbing(higher_m, speed + accel * unseen_s, age_s=0.0)
                _, bound = constraint_rows(params, context)
                left.append(bound[row_names(context).index("fence_high_z")])
    assert len(left) > 50 and min(left) > params.max_climb_accel
