"""A policy for an arm that looks at an object, hears no peers and has no memory."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from bundle_fixture import TeamPolicy, export_onnx, make_contract, record_probes, torch_step
from reach_bundle import CUBE, reach_inputs, save_reach_bundle

from deploy.bundle.probes import Probes, record_sequence
from deploy.runtime import PolicyRuntime
from deploy.runtime.compatibility import RobotMismatchError
from deploy.runtime.graph_inputs import InputError
from hardware import Channel, Joint, Peers, RobotSpec, RobotState
from hardware.types import ObjectState
from policies.export.save import save_bundle

NO_PEERS = Peers(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, bool))
UNKNOWN = np.full(3, np.nan, np.float32)


def joint(name: str, high: float) -> Joint:
    return Joint(name, -high, high, 0.1 * high, 1.0, 5.0, 20.0, 100.0, 10.0, 0.01, 0.1)


@pytest.fixture(scope="module")
def spec():
    joints = (joint("turn", 2.5), joint("elbow", 1.5), joint("finger", 0.04))
    channels = tuple(
        Channel(j.name, "m" if j.name == "finger" else "rad", j.low, j.high, "joint position") for j in joints
    )
    return RobotSpec(
        "gripper", "manipulator", Path("gripper.xml"), "base", joints, channels, 5.0, 0.8, 50.0, 500.0, "hold", True
    )


@pytest.fixture(scope="module")
def trained(spec, tmp_path_factory):
    path = tmp_path_factory.mktemp("objects") / "policy.onnx"
    return path, save_reach_bundle(path, spec)


@pytest.fixture
def runtime(trained, spec):
    return PolicyRuntime.load(trained[0], spec)


def view(inputs, step=0, robot=0):
    """What one robot knows: its joints and the cube, and neither where it stands nor how fast anything turns."""
    x = {name: value[step, robot] for name, value in inputs.items()}
    state = RobotState(x["joint_pos"], UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, np.float32(0))
    cube = ObjectState(x["cube_pos"], x["cube_quat"], x["cube_lin_vel"], UNKNOWN, np.float32(0))
    return state, NO_PEERS, {"lift": x["lift"]}, {CUBE: cube}


def test_what_the_policy_does_not_look_at_may_be_unknown(trained, runtime, spec):
    inputs = reach_inputs(spec, 5, 20, 1)
    reference = torch_step(trained[1], runtime.contract)
    for t in range(20):
        found = runtime.step(*view(inputs, t))
        expected = reference({name: value[t] for name, value in inputs.items()})
        np.testing.assert_allclose(found.requested.target, expected["target"][0], atol=1e-6, rtol=0)
        np.testing.assert_allclose(found.obs, expected["obs"][0], atol=1e-6, rtol=0)


def test_a_batch_has_objects_by_name(trained, runtime, spec):
    inputs = {name: value[0] for name, value in reach_inputs(spec, 6, 1, 7).items()}
    expected = torch_step(trained[1], runtime.contract)(inputs)
    np.testing.assert_allclose(runtime.step_batch(inputs)["target"], expected["target"], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"pos": np.zeros(2)}, r"cube_pos: has shape \(2,\), not \(3,\)"),
        ({"quat": np.zeros((1, 4))}, r"cube_quat: has shape \(1, 4\), not \(4,\)"),
        ({"lin_vel": np.array([0.0, np.nan, 0.0])}, r"^not finite: \['cube_lin_vel'\]$"),
        ({"pos": np.array([np.inf, 0.0, 0.0])}, r"^not finite: \['cube_pos'\]$"),
    ],
)
def test_an_object_that_cannot_be_is_named(runtime, spec, change, complaint):
    state, peers, command, objects = view(reach_inputs(spec, 7, 1, 1))
    with pytest.raises(InputError, match=complaint):
        runtime.step(state, peers, command, {CUBE: replace(objects[CUBE], **change)})


def test_a_missing_object_is_named_and_further_ones_do_no_harm(runtime, spec):
    state, peers, command, objects = view(reach_inputs(spec, 8, 1, 1))
    for found in ({}, {"ball": objects[CUBE]}):
        with pytest.raises(InputError, match=r"objects: 'cube' is missing, the policy needs \['cube'\]"):
            runtime.step(state, peers, command, found)
    with pytest.raises(InputError, match="'cube' is missing"):
        runtime.step(state, peers, command)
    expected = runtime.step(state, peers, command, objects).requested.target
    both = objects | {"ball": replace(objects[CUBE], pos=UNKNOWN)}
    np.testing.assert_array_equal(runtime.step(state, peers, command, both).requested.target, expected)


def test_joints_of_the_wrong_number_are_named(runtime, spec):
    state, *rest = view(reach_inputs(spec, 9, 1, 1))
    with pytest.raises(InputError, match=r"joint_pos: has shape \(2,\), not \(3,\)"):
        runtime.step(replace(state, joint_pos=np.zeros(2)), *rest)


def test_a_channel_that_slides_is_held_against_the_robot(trained, spec):
    turning = tuple(replace(channel, unit="rad") for channel in spec.channels)
    with pytest.raises(RobotMismatchError, match=r"is for channel units \['rad', 'rad', 'm'\], this robot has"):
        PolicyRuntime.load(trained[0], replace(spec, channels=turning))


class Homeless(TeamPolicy):
    """The sample team policy for a robot that is not told where it is, only where the others are."""

    def forward(self, base_quat, *others):
        return super().forward(torch.zeros_like(base_quat[:, :3]), base_quat, *others)


@pytest.fixture(scope="module")
def homeless(tmp_path_factory):
    policy, contract = Homeless(), make_contract()
    flights = record_probes(TeamPolicy(), contract).sequences
    contract = msgspec.structs.replace(contract, inputs=tuple(t for t in contract.inputs if t.name != "base_pos"))
    seen = [{name: value for name, value in flight.inputs.items() if name != "base_pos"} for flight in flights]
    step = torch_step(policy, contract)
    probes = Probes(tuple(record_sequence(step, x, f.memory) for x, f in zip(seen, flights, strict=True)))
    path = tmp_path_factory.mktemp("homeless") / "policy.onnx"
    save_bundle(export_onnx(policy, contract), contract, probes, path)
    return PolicyRuntime.load(path)


def test_peers_are_chosen_by_a_position_that_the_policy_does_not_see(homeless):
    quat, zero = np.array([1.0, 0, 0, 0]), np.zeros(3)
    state = RobotState(np.zeros(0), np.zeros(0), zero, quat, zero, zero, np.float32(0))
    near = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    peers = Peers(np.vstack([near, near + 50.0]), np.zeros((4, 3)), np.zeros(4), np.ones(4, bool))
    command = {"goal_pos": np.array([0.0, 0.0, 1.0])}
    found = homeless.step(state, peers, command).requested.target
    homeless.reset()
    two = Peers(near, np.zeros((2, 3)), np.zeros(2), np.ones(2, bool))
    np.testing.assert_array_equal(homeless.step(state, two, command).requested.target, found)
    for bad in (np.array([0.0, np.nan, 0.0]), np.zeros(1)):
        with pytest.raises(InputError, match="base_pos"):
            homeless.step(replace(state, base_pos=bad), peers, command)
