"""Simple agents to compare a policy with; they fly like a `policies.pilot.Pilot`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deploy.shield.arrays import columns
from deploy.shield.attitude import lift_of, missing_turn, rotated_back, rotation_matrix
from hardware.rotation import rotate
from sim.observe import decode

POSITION_GAIN, VELOCITY_GAIN, TURN_GAIN = 2.0, 2.5, 8.0  # 1/s^2, 1/s, 1/s
REACH_M = 0.8  # a goal farther away pulls no harder


class SimpleAgent:
    """Flies by a function of the environment, without memory."""

    def __init__(self, action: Callable[[Any], Tensor]):
        self._action = action

    def start(self, env: Any) -> None:
        """Nothing to remember."""

    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        """Action (W, N, U) in [-1, 1], and the actuator target (W, N, U) that it means."""
        action = self._action(env)
        return action, decode(env.task.action, action).target


def make_agent(name: str, seed: int) -> SimpleAgent:
    """`zero` hovers open loop, `random` draws uniformly, `baseline` flies straight at the goal."""
    generator = torch.Generator().manual_seed(seed)

    def zero(env: Any) -> Tensor:
        return torch.zeros(env.num_worlds, env.num_agents, env.action_dim)

    def random(env: Any) -> Tensor:
        return 2.0 * torch.rand(env.num_worlds, env.num_agents, env.action_dim, generator=generator) - 1.0

    return SimpleAgent({"zero": zero, "random": random, "baseline": _baseline}[name])


def _baseline(env: Any) -> Tensor:
    """A geometric controller that knows the goal and nothing of the others: what the shield has to put up with."""
    state = env.measured[0]
    offset = env.command["goal_pos"] - state.base_pos
    far = torch.linalg.vector_norm(offset, dim=-1, keepdim=True).clamp_min(1e-6)
    pull = offset * (REACH_M / far).clamp_max(1.0)
    vel = rotate(state.base_quat, state.base_lin_vel)
    lift = lift_of(columns(POSITION_GAIN * pull - VELOCITY_GAIN * vel))
    turn, thrust = missing_turn(rotated_back(rotation_matrix(columns(state.base_quat)), lift))
    target = torch.stack([env.robot.mass_kg * thrust, *(TURN_GAIN * angle for angle in turn)], dim=-1)
    centre, scale = torch.tensor(env.task.action.centre), torch.tensor(env.task.action.scale)
    return ((target - centre) / scale).float().clamp(-1.0, 1.0)
