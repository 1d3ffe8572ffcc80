import itertools
import time
import weakref

import numpy as np
import pytest
from bundle_fixture import (
    MAX_PEERS,
    TeamPolicy,
    export_onnx,
    make_contract,
    random_inputs,
    record_probes,
    robot_view,
    save_policy,
    torch_step,
)
from pd_bundle import TELLS, save_bundle_that_tells
from places import ZOO

from deploy.bundle import load_bundle
from deploy.contract import TeamSpec
from deploy.runtime import PolicyRuntime
from deploy.runtime.graph_inputs import InputError
from deploy.runtime.peers import nearest_peers
from hardware import Peers, load_robot
from policies.export.save import save_bundle

NO_PEERS = Peers(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, bool))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("runtime") / "policy.onnx"
    return path, save_policy(path)


@pytest.fixture
def runtime(trained):
    return PolicyRuntime.load(trained[0], load_robot("crazyflie"))


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


def test_hearing_no_peer_is_the_same_as_hearing_one_invalid_peer(runtime):
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


def test_a_policy_that_never_saw_peers_flies_in_a_team(tmp_path):
    """A team of one: slots are there for the graph, but all of them stay empty."""
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


def test_robots_that_fly_the_same_file_share_its_weights(trained, tmp_path):
    """Whatever the file is called: what differs is not shared, and what no robot flies is forgotten."""
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(trained[0].read_bytes())
    one, two, other = load_bundle(trained[0]), load_bundle(copy), load_bundle(ZOO / "hover.onnx")
    assert one.session is two.session and one.session is not other.session
    flown = weakref.ref(other.session)
    del other
    assert flown() is None


def test_a_control_period_is_short(runtime):
    """The median, because a shared machine decides the tail; `python -m benchmarks control` measures that."""
    view = robot_view(random_inputs(21, 1, 1, MAX_PEERS))
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        runtime.step(*view)
        times.append(time.perf_counter() - start)
    assert np.median(times) < 500e-6


def test_what_the_shield_changed_is_shown_where_the_policy_looks_at_it(tmp_path, runtime):
    file, view = tmp_path / "tells.onnx", robot_view(random_inputs(7, 1, 1, 3))
    save_bundle_that_tells(file)
    shown = PolicyRuntime.load(file, load_robot("crazyflie"))
    changed = np.array([-0.1, 0.0, 0.0, 0.0], np.float32)
    for correction, yaw_rate in ((None, 0.0), (changed, -0.1 * TELLS), (None, 0.0)):
        assert shown.step(*view, correction=correction).requested.target[3] == pytest.approx(yaw_rate)
    wrongs = (changed[:3], r"correction: has shape \(3,\), not \(4,\)"), (changed * np.nan, "not finite: ")
    for wrong, says in wrongs:
        with pytest.raises(InputError, match=says):
            shown.step(*view, correction=wrong)
    first = runtime.step(*view).requested.target
    runtime.reset()
    np.testing.assert_array_equal(runtime.step(*view, correction=changed).requested.target, first)
