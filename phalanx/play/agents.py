"""Who flies: a policy file, or one of three simple agents to compare it with."""

from pathlib import Path
from typing import Protocol

import array_api_compat.torch as xp
import numpy as np
import torch

from deploy.runtime import PolicyRuntime
from deploy.shield.attitude import lift_of, missing_turn, rotation_matrix
from hardware.rotation import rotate
from sim.env import TeamEnv

AGENTS = ("zero", "random", "baseline")
POSITION_GAIN, VELOCITY_GAIN, TURN_GAIN = 2.0, 2.5, 8.0  # 1/s^2, 1/s, 1/s
REACH_M = 0.8  # a goal farther away pulls no harder


class Agent(Protocol):
    """Gives every robot an action."""

    def __call__(self, env: TeamEnv) -> torch.Tensor:
        """Action (W, N, U) in [-1, 1] for what `env` has just measured."""


class FileAgent:
    """Flies a policy file through ONNX Runtime, as a robot would, on what the environment measures."""

    def __init__(self, path: Path):
        """BundleError when the file cannot be used."""
        self._runtime = PolicyRuntime.load(path)
        self.contract = self._runtime.contract
        self._memory: dict[str, np.ndarray] = {}

    def __call__(self, env: TeamEnv) -> torch.Tensor:
        state, peers = env.measured
        shape = state.base_pos.shape[:-1]
        batch = shape[0] * shape[1]
        if not self._memory:
            self._memory = self._runtime.initial_memory(batch)
        given = {name: getattr(state, name) for name in ("base_pos", "base_quat", "base_lin_vel", "base_ang_vel")}
        given |= {f"peers_{name}": getattr(peers, name) for name in ("pos", "lin_vel", "age", "valid")}
        given |= env.command
        inputs = {name: value.flatten(0, 1).numpy() for name, value in given.items()}
        outputs = self._runtime.step_batch(_with_a_slot(inputs) | self._memory)
        self._memory = {m.input: outputs[m.output] for m in self.contract.memory}
        return torch.from_numpy(outputs["action"]).reshape(*shape, -1)


def _with_a_slot(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A robot alone hears nobody, but the graph has at least one slot."""
    if inputs["peers_pos"].shape[1]:
        return inputs
    return {
        name: np.zeros((len(value), 1, *value.shape[2:]), value.dtype) if name.startswith("peers_") else value
        for name, value in inputs.items()
    }


def make_agent(name: str, seed: int) -> Agent:
    """A simple agent: `zero` hovers open loop, `random` draws uniformly, `baseline` flies straight at the goal."""
    generator = torch.Generator().manual_seed(seed)

    def zero(env: TeamEnv) -> torch.Tensor:
        return torch.zeros(env.num_worlds, env.num_agents, env.action_dim)

    def random(env: TeamEnv) -> torch.Tensor:
        return 2.0 * torch.rand(env.num_worlds, env.num_agents, env.action_dim, generator=generator) - 1.0

    return {"zero": zero, "random": random, "baseline": _baseline}[name]


def _baseline(env: TeamEnv) -> torch.Tensor:
    """A geometric controller that knows the goal and nothing of the others: what the shield has to put up with."""
    state = env.measured[0]
    offset = env.command["goal_pos"] - state.base_pos
    far = torch.linalg.vector_norm(offset, dim=-1, keepdim=True).clamp_min(1e-6)
    pull = offset * (REACH_M / far).clamp_max(1.0)
    vel = rotate(state.base_quat, state.base_lin_vel)
    lift = lift_of(xp, (POSITION_GAIN * pull - VELOCITY_GAIN * vel).double())
    turn, thrust = missing_turn(xp, rotation_matrix(xp, state.base_quat.double()), lift)
    target = torch.cat([(env.robot.mass_kg * thrust).unsqueeze(-1), TURN_GAIN * turn], dim=-1)
    centre, scale = torch.tensor(env.task.action.centre), torch.tensor(env.task.action.scale)
    return ((target - centre) / scale).float().clamp(-1.0, 1.0)
