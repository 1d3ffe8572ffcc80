"""A policy file for the task reach without training: the tool goes straight to its goal."""

from pathlib import Path

import numpy as np
import torch
from bundle_fixture import make_contract, torch_step
from torch import nn

from deploy.bundle.probes import Probes, record_sequence
from deploy.contract import CommandSpec, Contract, TeamSpec, robot_interface
from deploy.contract.tensor_specs import TensorSpec, state_tensor_specs
from hardware import load_robot
from hardware.types import RobotState
from policies.export.graph import to_onnx
from policies.export.save import save_bundle
from sim.envs.action import decode
from sim.task import PolicyInput
from sim.tasks.reach import REACH, TOOL
from sim.terms import arms

SPEC = load_robot("panda")
GAIN = 4.0  # 1/s


class StraightReach(nn.Module):
    """The tool's velocity is what is missing to its goal; the task's own decoding makes joint targets of it."""

    measurements: frozenset[str] = frozenset()  # all inputs are used

    def __init__(self, contract: Contract):
        super().__init__()
        self.inputs, self.outputs = contract.inputs, contract.outputs

    def forward(self, *values):
        joint_pos, base_pos, base_quat, goal_pos, goal_quat = values
        none = torch.zeros_like(base_pos)
        state = RobotState(joint_pos, joint_pos, base_pos, base_quat, none, none, none[:, 0])
        policy_input = PolicyInput(state, None, {}, {"goal_pos": goal_pos, "goal_quat": goal_quat}, {})
        missing = arms.tool_to_goal(policy_input, **TOOL, limit_m=0.2)
        scale = torch.tensor(REACH.group.action.scale)
        rest = torch.zeros_like(joint_pos)[:, : len(REACH.group.action.scale) - 6]
        action = torch.cat([GAIN * missing / scale[:6], rest], dim=-1).clamp(-1.0, 1.0)
        target = decode(REACH.group.action, action, state, SPEC).target
        low, high = torch.tensor(SPEC.command_low), torch.tensor(SPEC.command_high)
        return target.clamp(low, high), missing, action


def tool_contract() -> Contract:
    """What the policy of the task reach looks at."""
    commands = tuple(
        CommandSpec(name, ("batch", len(c.low)), c.unit, c.frame, c.meaning, c.low, c.high)
        for name, c in REACH.group.commands.items()
    )
    own = {signal.name: signal for signal in state_tensor_specs(len(SPEC.joints))}
    inputs = (
        *(own[name] for name in ("joint_pos", "base_pos", "base_quat")),
        *(TensorSpec(c.name, c.shape, "float32", c.unit, c.frame, c.meaning) for c in commands),
    )
    width = ("batch", len(SPEC.channels))
    outputs = (
        TensorSpec("target", width, "float32", "rad, m", "joint", "actuator command"),
        TensorSpec("obs", ("batch", 6), "float32", "m, rad", "base", "what is missing to the goal"),
        TensorSpec("action", width, "float32", "1", "none", "velocity of the tool, scaled"),
    )
    return make_contract(
        task=REACH.name, robot=robot_interface(SPEC), control_dt_s=1 / SPEC.control_hz, inputs=inputs, outputs=outputs,
        memory=(), commands=commands, team=TeamSpec(1, 0.0, 0), shield=REACH.group.shield,
    )  # fmt: skip


def save_tool_bundle(path: Path) -> None:
    """Write the policy file."""
    contract = tool_contract()
    policy = StraightReach(contract)
    low, high = np.array([[joint.low, joint.high] for joint in SPEC.joints]).T
    rng, step = np.random.default_rng(0), torch_step(policy, contract)
    quat = rng.normal(size=(2, 4, 2, 4))
    base_quat, goal_quat = (quat / np.linalg.norm(quat, axis=-1, keepdims=True)).astype(np.float32)
    inputs = {
        "joint_pos": rng.uniform(low, high, (4, 2, len(low))).astype(np.float32),
        "base_pos": rng.uniform(-1, 1, (4, 2, 3)).astype(np.float32),
        "goal_pos": rng.uniform(-1, 1, (4, 2, 3)).astype(np.float32),
        "base_quat": base_quat,
        "goal_quat": goal_quat,
    }
    save_bundle(to_onnx(policy)[0], contract, Probes((record_sequence(step, inputs, {}),)), path)
