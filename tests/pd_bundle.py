"""A policy file without training: a PD controller as a torch module, exported like any other. It really flies."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
import numpy as np
import torch
from bundle_fixture import export_onnx, make_contract, record_probes
from torch import nn

from deploy.contract import Contract
from deploy.contract.tensor_specs import correction_tensor_spec
from hardware import load_robot
from policies.export.save import save_bundle

ROBOT = load_robot("crazyflie")
GRAVITY = 9.81
MAX_SPEED = 0.8  # m/s towards the goal
MAX_ACCEL = 3.0  # m/s^2, horizontal
LEVEL_M = 0.7  # peers further above or below are left alone
FAULT_ABOVE_M = 1.2
KEEP_M = 0.9  # peers nearer than this are steered around


def _rotate(quat, vec):
    w, v = quat[:, :1], quat[:, 1:]
    turn = 2.0 * torch.cross(v, vec, dim=-1)
    return vec + w * turn + torch.cross(v, turn, dim=-1)


def _limit(vec, most: float):
    return vec * (most / vec.norm(dim=-1, keepdim=True).clamp(min=most))


class PdPolicy(nn.Module):
    """Velocity towards the goal, to the right around peers; acceleration; thrust and body rates."""

    def __init__(self, speed: float = MAX_SPEED):
        super().__init__()
        self.speed = speed
        channels = ROBOT.channels
        self.register_buffer("low", torch.tensor([c.low for c in channels]))
        self.register_buffer("high", torch.tensor([c.high for c in channels]))
        self.register_buffer("gravity", torch.tensor([0.0, 0.0, GRAVITY]))
        self.register_buffer("conjugate", torch.tensor([1.0, -1.0, -1.0, -1.0]))
        self.register_buffer("horizontal", torch.tensor([1.0, 1.0, 0.0]))

    def forward(self, base_pos, base_quat, base_lin_vel, base_ang_vel, peers_pos, peers_lin_vel, peers_age,
                peers_valid, goal_pos, last_action):  # fmt: skip
        velocity = _rotate(base_quat, base_lin_vel)
        wanted = _limit(1.5 * (goal_pos - base_pos), self.speed) + self._steer(
            base_pos, peers_pos + peers_lin_vel * peers_age[..., None], peers_valid
        )
        accel = _limit(3.0 * (wanted - velocity), MAX_ACCEL)
        lift = accel + self.gravity
        inverse = base_quat * self.conjugate
        lift_b = _rotate(inverse, lift)
        thrust = ROBOT.mass_kg * lift_b[:, 2:]
        direction = lift_b / lift_b.norm(dim=-1, keepdim=True)
        rates = 8.0 * torch.cat([-direction[:, 1:2], direction[:, 0:1], torch.zeros_like(thrust)], dim=-1)
        target = torch.cat([thrust, rates], dim=-1).clamp(self.low, self.high)
        obs = torch.cat([goal_pos - base_pos, base_quat, base_lin_vel, base_ang_vel], dim=-1)
        action = 2.0 * (target - self.low) / (self.high - self.low) - 1.0
        return target, obs, action, action + 0.0 * last_action

    def _steer(self, base_pos, peers_pos, peers_valid):
        away = base_pos[:, None] - peers_pos
        level = (away[..., 2:].abs() < LEVEL_M) & peers_valid[..., None]  # a landed one is not in the way
        away = away * self.horizontal
        distance = away.norm(dim=-1, keepdim=True).clamp(min=0.05)
        strength = (KEEP_M - distance).clamp(min=0.0) / KEEP_M * level
        right = torch.stack([away[..., 1], -away[..., 0], torch.zeros_like(away[..., 0])], dim=-1)
        return ((1.2 * away - 1.2 * right) / distance * strength).sum(1)


def pd_contract(**changes) -> Contract:
    return make_contract(**({"task": "pd-goto", "shield": {}} | changes))


class PdPolicyWithFault(PdPolicy):
    """Asks for `fault` where its robot is higher than a drone flies in a test's probes."""

    def __init__(self, fault: float = float("nan")):
        super().__init__()
        self.fault = fault

    def forward(self, base_pos, *others):
        target, *rest = super().forward(base_pos, *others)
        return torch.where(base_pos[:, 2:] > FAULT_ABOVE_M, torch.full_like(target, self.fault), target), *rest


def save_pd_bundle(path: Path, contract: Contract | None = None, policy: PdPolicy | None = None) -> str:
    """Write the policy file and return its fingerprint."""
    contract, policy = contract or pd_contract(), policy or PdPolicy()
    return save_bundle(export_onnx(policy, contract), contract, record_probes(policy, contract), path)


CLIMBS_N = 0.1  # more than would keep it at its goal
TELLS = 10.0  # rad/s of yaw for each N of thrust that its shield added


class PdPolicyThatTells(PdPolicy):
    """Climbs beyond its goal, and turns as fast as the shield corrected its thrust a period ago."""

    def forward(self, *given):
        target, *rest = super().forward(*given[:-1])
        return torch.cat([target[:, :1] + CLIMBS_N, target[:, 1:3], TELLS * given[-1][:, :1]], dim=-1), *rest


def save_bundle_that_tells(path: Path) -> None:
    """The policy file of `PdPolicyThatTells`."""
    own, policy = pd_contract().inputs, PdPolicyThatTells()
    contract = pd_contract(inputs=(*own, correction_tensor_spec(c.unit for c in ROBOT.channels)))
    rng = np.random.default_rng(0)
    probes = record_probes(
        policy, contract, lambda *n: {"correction": rng.uniform(-0.1, 0.1, (*n, 4)).astype(np.float32)}
    )
    save_bundle(export_onnx(policy, contract), contract, probes, path)
