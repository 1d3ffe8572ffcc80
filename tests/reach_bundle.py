"""A policy file for an arm, without training: it turns to a tracked cube and lifts its last joint by a command."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from bundle_fixture import export_onnx, make_contract, torch_step
from msgspec.structs import replace
from torch import nn

from deploy.bundle.probes import Probes, record_sequence
from deploy.contract import CommandSpec, Contract, TeamSpec, make_plant, robot_interface
from deploy.contract.tensor_specs import TensorSpec, object_tensor_specs, state_tensor_specs
from hardware.spec import RobotSpec
from policies.export.save import save_bundle

CUBE = "cube"
LIFT = TensorSpec("lift", ("batch", 1), "float32", "rad", "joint", "how far the last turning joint is lifted")


def reach_contract(spec: RobotSpec, **changes) -> Contract:
    """No peers, no memory, no base; of the joints only the positions, of the cube all but its turning."""
    joints, channels = len(spec.joints), len(spec.channels)
    own = [signal for signal in state_tensor_specs(joints) if signal.name == "joint_pos"]
    contract = make_contract(
        task="point-at-cube",
        robot=robot_interface(spec),
        plant=make_plant(spec, {}),
        control_dt_s=1 / spec.control_hz,
        inputs=(*own, *object_tensor_specs(CUBE)[:3], LIFT),
        outputs=(
            TensorSpec("target", ("batch", channels), "float32", "rad, m", "joint", "actuator command"),
            TensorSpec("obs", ("batch", joints + 3), "float32", "SI", "world", "joints, and where the cube will be"),
            TensorSpec("action", ("batch", channels), "float32", "rad, m", "joint", "actuator command before limits"),
        ),
        memory=(),
        commands=(CommandSpec(LIFT.name, LIFT.shape, LIFT.unit, LIFT.frame, LIFT.meaning, (-0.3,), (0.3,)),),
        team=TeamSpec(trained_with=1, peer_range_m=0.0, max_peers=0),
        shield={},
        objects=(CUBE,),
    )
    return replace(contract, **changes)


class ReachPolicy(nn.Module):
    """Joint targets: home, but for the first joint, which points at where the cube will be soon, and the lifted one."""

    def __init__(self, spec: RobotSpec):
        super().__init__()
        turning = [i for i, channel in enumerate(spec.channels) if channel.unit == "rad"]
        one = torch.eye(len(spec.channels))
        self.register_buffer("home", torch.tensor(spec.home_target))
        self.register_buffer("first", one[turning[0]])
        self.register_buffer("last", one[turning[-1]])
        self.register_buffer("low", torch.tensor(spec.command_low))
        self.register_buffer("high", torch.tensor(spec.command_high))

    def forward(self, joint_pos, cube_pos, cube_quat, cube_lin_vel, lift):
        w, v = cube_quat[:, :1], cube_quat[:, 1:]
        turn = 2.0 * torch.cross(v, cube_lin_vel, dim=-1)
        soon = cube_pos + 0.1 * (cube_lin_vel + w * turn + torch.cross(v, turn, dim=-1))
        bearing = torch.atan2(soon[:, 1:2], soon[:, :1])
        action = self.home * (1.0 - self.first) + self.first * bearing + self.last * lift
        return action.clamp(self.low, self.high), torch.cat([joint_pos, soon], dim=-1), action


def reach_inputs(spec: RobotSpec, seed: int, steps: int, batch: int) -> dict[str, np.ndarray]:
    """Joint positions, cube and lift (steps, batch, ...) float32."""
    rng = np.random.default_rng(seed)
    n = (steps, batch)
    quat = rng.normal(size=(*n, 4))
    inputs = {
        "joint_pos": rng.uniform([j.low for j in spec.joints], [j.high for j in spec.joints], (*n, len(spec.joints))),
        "cube_pos": rng.uniform([0.2, -0.5, 0.0], [0.6, 0.5, 0.3], (*n, 3)),
        "cube_quat": quat / np.linalg.norm(quat, axis=-1, keepdims=True),
        "cube_lin_vel": rng.normal(size=(*n, 3)),
        "lift": rng.uniform(-0.3, 0.3, (*n, 1)),
    }
    return {name: value.astype(np.float32) for name, value in inputs.items()}


def save_reach_bundle(path: Path, spec: RobotSpec) -> ReachPolicy:
    """Write the policy file for `spec`; returns the torch module that it came from."""
    policy, contract = ReachPolicy(spec), reach_contract(spec)
    step = torch_step(policy, contract)
    probes = Probes(tuple(record_sequence(step, reach_inputs(spec, seed, 4, 2), {}) for seed in range(2)))
    save_bundle(export_onnx(policy, contract), contract, probes, path)
    return policy
