"""What a policy runtime refuses, and that a refusal leaves no trace in it."""

from dataclasses import replace

import numpy as np
import pytest
from bundle_fixture import TeamPolicy, export_onnx, make_contract, random_inputs, record_probes, robot_view

from deploy.bundle import BundleError
from deploy.runtime import PolicyOutputError, PolicyRuntime
from deploy.runtime.compatibility import RobotMismatchError
from deploy.runtime.graph_inputs import InputError
from hardware import Joint, load_robot
from policies.export.save import save_bundle


@pytest.fixture
def runtime(policy_file):
    return PolicyRuntime.load(policy_file, load_robot("crazyflie"))


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
def test_another_robot_is_refused(policy_file, change, complaint):
    with pytest.raises(RobotMismatchError, match=complaint) as error:
        PolicyRuntime.load(policy_file, replace(load_robot("crazyflie"), **change))
    assert isinstance(error.value, BundleError)
    assert str(error.value).startswith(f"{policy_file}: ")
