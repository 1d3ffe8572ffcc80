import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from bundle_fixture import (
    MAX_PEERS,
    TeamPolicy,
    export_onnx,
    make_contract,
    random_inputs,
    record_probes,
    save_policy,
    torch_step,
)

from deploy.bundle import BundleError, load_bundle, save_bundle
from deploy.contract import TeamSpec
from deploy.graph_inputs import InputError
from deploy.peers import nearest_peers
from deploy.robot_match import RobotMismatchError
from deploy.runtime import PolicyOutputError, PolicyRuntime
from hardware import Joint, Peers, RobotState, load_robot

NO_PEERS = Peers(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, bool))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("runtime") / "policy.onnx"
    return path, save_policy(path)


@pytest.fixture
def runtime(trained):
    return PolicyRuntime.load(trained[0], load_robot("crazyflie"))


def robot_view(inputs, step=0, robot=0):
    """State, peers and command of one robot at one step of `random_inputs`."""
    x = {name: value[step, robot] for name, value in inputs.items()}
    none = np.zeros(0, np.float32)
    state = RobotState(none, none, x["base_pos"], x["base_quat"], x["base_lin_vel"], x["base_ang_vel"], np.float32(0.0))
    peers = Peers(x["peers_pos"], x["peers_lin_vel"], x["peers_age"], x["peers_valid"])
    return state, peers, {"goal_pos": x["goal_pos"]}


def shuffled(peers: Peers, order) -> Peers:
    return Peers(peers.pos[order], peers.lin_vel[order], peers.age[order], peers.valid[order])


def test_twenty_periods_of_one_robot_equal_torch(trained, runtime):
    inputs = random_inputs(5, 20, 1, MAX_PEERS)
    reference = torch_step(trained[1], runtime.contract)
    memory = runtime.initial_memory(1)
    for t in range(20):
        result = runtime.step(*robot_view(inputs, t))
        expected = reference({name: value[t] for name, value in inputs.items()} | memory)
        memory = {"last_action": expected["last_action_out"]}
        for found, name in ((result.requested.target, "target"), (result.obs, "obs"), (result.action, "action")):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected[name][0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("batch", "peers"), [(1, 1), (5, 3), (64, 20)])
def test_a_batch_equals_torch(trained, runtime, batch, peers):
    inputs = {name: value[0] for name, value in random_inputs(6, 1, batch, peers).items()}
    inputs |= runtime.initial_memory(batch)
    found = runtime.step_batch(inputs)
    for name, expected in torch_step(trained[1], runtime.contract)(inputs).items():
        np.testing.assert_allclose(found[name], expected, atol=1e-6, rtol=0)


def test_memory_is_carried_and_reset_starts_again(runtime):
    view = robot_view(random_inputs(7, 1, 1, 3))
    first, second = (runtime.step(*view).requested.target for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    runtime.reset()
    np.testing.assert_array_equal(runtime.step(*view).requested.target, first)


def test_results_are_not_overwritten_by_the_next_period(runtime):
    inputs = random_inputs(8, 2, 1, 3)
    first = runtime.step(*robot_view(inputs, 0))
    kept = first.requested.target.copy()
    runtime.step(*robot_view(inputs, 1))
    np.testing.assert_array_equal(first.requested.target, kept)


def test_the_order_of_peers_does_not_matter(runtime):
    state, peers, command = robot_view(random_inputs(9, 1, 1, 5))
    peers.valid[:] = [True, False, True, True, True]
    targets = []
    for order in itertools.permutations(range(5)):
        runtime.reset()
        targets.append(runtime.step(state, shuffled(peers, list(order)), command).requested.target)
    assert np.ptp(targets, axis=0).max() == 0  # bit for bit, for they are sorted before the graph sees them


def test_slots_without_a_peer_do_not_matter_whatever_they_hold(runtime):
    state, peers, command = robot_view(random_inputs(10, 1, 1, 3))
    peers.valid[:] = True
    alone = runtime.step(state, peers, command).requested.target
    runtime.reset()
    garbage = np.full((4, 3), np.nan, np.float32)
    padded = Peers(
        np.concatenate([garbage, peers.pos]),
        np.concatenate([garbage, peers.lin_vel]),
        np.concatenate([garbage[:, 0], peers.age]),
        np.concatenate([np.zeros(4, bool), peers.valid]),
    )
    np.testing.assert_array_equal(runtime.step(state, padded, command).requested.target, alone)


def test_only_the_nearest_peers_in_range_are_shown(runtime):
    state, _, command = robot_view(random_inputs(11, 1, 1, 1))
    state.base_pos[:] = 0
    distances = np.array([6.0, 0.5, 4.9, 5.1, *np.linspace(1, 3, 9), 0.1], np.float32)
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(distances.size, 3))
    pos = (distances[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32)
    peers = Peers(pos, rng.normal(size=pos.shape), np.zeros(distances.size), np.ones(distances.size, bool))
    everyone = runtime.step(state, peers, command).requested.target
    runtime.reset()
    nearest = np.argsort(distances)[:MAX_PEERS]
    assert 5.1 not in distances[nearest]
    np.testing.assert_array_equal(runtime.step(state, shuffled(peers, nearest), command).requested.target, everyone)


def test_nearest_peers_by_hand():
    pos = np.array([[3, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 1], [9, 9, 9]], np.float32)
    here, valid = np.zeros(3, np.float32), np.array([True, True, True, True, True])
    assert nearest_peers(here, pos, valid, 5.0, 8).tolist() == [1, 3, 2, 0]
    assert nearest_peers(here, pos, valid, 3.0, 8).tolist() == [1, 3, 2, 0]  # the limit itself is in range
    assert nearest_peers(here, pos, valid, 2.5, 2).tolist() == [1, 3]
    assert nearest_peers(here, pos, valid, 5.0, 0).tolist() == []
    assert nearest_peers(here, pos, ~valid, 5.0, 8).tolist() == []


def test_hearing_nobody_is_the_same_as_hearing_one_invalid_peer(runtime):
    state, peers, command = robot_view(random_inputs(12, 1, 1, 1))
    peers.valid[:] = False
    expected = runtime.step(state, peers, command).requested.target
    runtime.reset()
    np.testing.assert_array_equal(runtime.step(state, NO_PEERS, command).requested.target, expected)
    inputs = {name: value[0] for name, value in random_inputs(12, 1, 2, 0).items()}
    assert runtime.step_batch(inputs | runtime.initial_memory(2))["target"].shape == (2, 4)


def test_peers_that_fall_silent_are_forgotten(runtime):
    state, peers, command = robot_view(random_inputs(19, 1, 1, 5))
    peers.valid[:] = True
    two = shuffled(peers, [0, 1])
    expected = runtime.step(state, two, command).requested.target
    runtime.reset()
    with_five = runtime.step(state, peers, command).requested.target
    runtime.reset()
    np.testing.assert_array_equal(runtime.step(state, two, command).requested.target, expected)
    assert np.abs(with_five - expected).max() > 1e-6
    assert not runtime._graph.inputs["peers_pos"][0, 2:].any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["base_pos", "base_quat", "base_lin_vel", "base_ang_vel"])
def test_a_state_that_is_not_finite_is_named_and_leaves_no_trace(runtime, field, value):
    inputs = random_inputs(13, 1, 1, 3)
    expected = runtime.step(*robot_view(inputs)).requested.target
    runtime.reset()
    state, peers, command = robot_view({name: array.copy() for name, array in inputs.items()})
    getattr(state, field)[1] = value
    with pytest.raises(InputError, match=rf"^not finite: \['{field}'\]$"):
        runtime.step(state, peers, command)
    np.testing.assert_array_equal(runtime.step(*robot_view(inputs)).requested.target, expected)


@pytest.mark.parametrize(("field", "names"), [("pos", "peers.pos"), ("lin_vel", "peers_lin_vel"), ("age", "peers_age")])
def test_a_valid_peer_that_is_not_finite_is_named(runtime, field, names):
    state, peers, command = robot_view(random_inputs(14, 1, 1, 12))
    peers.valid[:] = True
    nearest = int(np.linalg.norm(peers.pos - state.base_pos, axis=1).argmin())
    getattr(peers, field)[nearest] = np.nan
    with pytest.raises(InputError, match=names):
        runtime.step(state, peers, command)


def test_wrong_shapes_and_dtypes_are_named(runtime):
    state, peers, command = robot_view(random_inputs(15, 1, 1, 3))
    for bad, complaint in (
        (replace(state, base_pos=np.zeros(1)), r"base_pos: has shape \(1,\), not \(3,\)"),
        (replace(state, base_quat=np.zeros((1, 4))), r"base_quat: has shape \(1, 4\), not \(4,\)"),
        (replace(state, base_pos=np.array(["a", "b", "c"])), "base_pos: is <U1, not float32"),
        (replace(state, base_pos=None), r"base_pos: has shape \(\)"),
    ):
        with pytest.raises(InputError, match=complaint):
            runtime.step(bad, peers, command)
    with pytest.raises(InputError, match=r"peers\.age: has shape \(2,\), not \(3,\)"):
        runtime.step(state, replace(peers, age=np.zeros(2)), command)
    with pytest.raises(InputError, match=r"peers\.pos: has shape \(3, 2\), not \(3, 3\)"):
        runtime.step(state, replace(peers, pos=np.zeros((3, 2))), command)


def test_commands_must_be_the_right_ones_and_in_range(runtime):
    state, peers, command = robot_view(random_inputs(16, 1, 1, 3))
    for bad, complaint in (
        ({}, r"command: got \[\], the policy needs \['goal_pos'\]"),
        ({"gaol_pos": command["goal_pos"]}, r"got \['gaol_pos'\], the policy needs \['goal_pos'\]"),
        ({"goal_pos": np.zeros(2)}, r"command goal_pos: has shape \(2,\), not \(3,\)"),
        ({"goal_pos": np.array([0, 0, 9.0])}, r"command goal_pos: \[0.0, 0.0, 9.0\] m is outside of"),
        ({"goal_pos": np.array([0, np.nan, 1.0])}, r"command goal_pos: \[0.0, nan, 1.0\] m is outside of"),
    ):
        with pytest.raises(InputError, match=complaint):
            runtime.step(state, peers, bad)
        with pytest.raises(InputError, match=complaint):
            runtime.check_command(bad)
    on_the_limit = {"goal_pos": np.array([-3.0, 3.0, 0.2])}  # 0.2 is not a float32
    runtime.check_command(on_the_limit)
    assert np.isfinite(runtime.step(state, peers, on_the_limit).requested.target).all()


def test_a_batch_is_checked_against_the_contract(runtime):
    inputs = {name: value[0] for name, value in random_inputs(17, 1, 2, 3).items()} | runtime.initial_memory(2)
    for change, complaint in (
        ({"base_pos": np.zeros((3, 3))}, r"base_quat: has shape \(2, 4\), not \('batch', 4\) with"),
        ({"peers_age": np.zeros((2, 4))}, r"peers_age: has shape \(2, 4\)"),
        ({"peers_valid": np.zeros((2, 3))}, "peers_valid: is float64, not bool"),
        ({"wind": np.zeros(2)}, "inputs: got"),
    ):
        with pytest.raises(InputError, match=complaint):
            runtime.step_batch(inputs | change)


def test_an_output_that_is_not_finite_is_an_error_and_is_not_remembered(tmp_path):
    class Divides(TeamPolicy):
        def forward(self, *inputs):
            target, obs, action, memory = super().forward(*inputs)
            return target / inputs[0][:, :1], obs, action, memory / inputs[0][:, :1]

    policy, contract = Divides(), make_contract()
    save_bundle(export_onnx(policy, contract), contract, record_probes(policy, contract), tmp_path / "policy.onnx")
    runtime = PolicyRuntime.load(tmp_path / "policy.onnx")
    inputs = random_inputs(18, 1, 1, 3)
    expected = runtime.step(*robot_view(inputs)).requested.target
    runtime.reset()
    state, peers, command = robot_view({name: array.copy() for name, array in inputs.items()})
    state.base_pos[0] = 0
    with pytest.raises(PolicyOutputError, match=r"output is not finite: \['target', 'last_action_out'\]"):
        runtime.step(state, peers, command)
    np.testing.assert_array_equal(runtime.step(*robot_view(inputs)).requested.target, expected)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "go1"}, "is for robot 'crazyflie', this robot has 'go1'"),
        ({"kind": "manipulator"}, "is for kind 'drone', this robot has 'manipulator'"),
        (
            {"joints": (Joint("elbow", -1, 1, 0, 1, 1, 1, 1, 1, 1, 0),)},
            r"is for joint names \[\], this robot has \['elbow'\]",
        ),
        ({"channels": load_robot("crazyflie").channels[::-1]}, r"is for channel names \['thrust', 'roll_rate'"),
        ({"control_hz": 100.0}, "is for a control rate of 50 Hz, this robot runs at 100 Hz"),
        (
            {"channels": tuple(replace(c, high=c.high / 2) for c in load_robot("crazyflie").channels)},
            r"may ask channel 'thrust' for \[0.0854505, 0.8\] N, this robot allows \[0.0854505, 0.4\]",
        ),
    ],
)
def test_another_robot_is_refused(trained, change, complaint):
    path = trained[0]
    with pytest.raises(RobotMismatchError, match=complaint) as error:
        PolicyRuntime.load(path, replace(load_robot("crazyflie"), **change))
    assert isinstance(error.value, BundleError)
    assert str(error.value).startswith(f"{path}: ")


def test_a_policy_that_never_saw_peers_flies_in_a_team(tmp_path):
    """A team of one: slots are there for the graph, but nobody is ever shown."""
    policy, contract = TeamPolicy(), make_contract(team=TeamSpec(trained_with=1, peer_range_m=0.0, max_peers=0))
    save_bundle(export_onnx(policy, contract), contract, record_probes(policy, contract), tmp_path / "policy.onnx")
    runtime = PolicyRuntime.load(tmp_path / "policy.onnx")
    state, peers, command = robot_view(random_inputs(19, 1, 1, 3))
    peers.valid[:] = True
    heard = runtime.step(state, peers, command).requested.target
    runtime.reset()
    np.testing.assert_array_equal(runtime.step(state, NO_PEERS, command).requested.target, heard)


def test_two_runtimes_of_one_file_do_not_share_anything(trained):
    inputs = random_inputs(20, 2, 1, 3)
    bundle = load_bundle(trained[0])
    one, two = PolicyRuntime(bundle), PolicyRuntime(bundle)
    first = one.step(*robot_view(inputs, 0)).requested.target
    two.step(*robot_view(inputs, 1))
    second = one.step(*robot_view(inputs, 0)).requested.target
    two.reset()
    np.testing.assert_array_equal(two.step(*robot_view(inputs, 0)).requested.target, first)
    np.testing.assert_array_equal(two.step(*robot_view(inputs, 0)).requested.target, second)


def test_a_control_period_is_short(runtime):
    """The median, because a shared machine decides the tail; `phalanx bench control` measures that."""
    view = robot_view(random_inputs(21, 1, 1, MAX_PEERS))
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        runtime.step(*view)
        times.append(time.perf_counter() - start)
    assert np.median(times) < 500e-6
