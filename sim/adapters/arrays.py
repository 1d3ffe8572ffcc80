"""What all adapters share: NumPy in and out, spaces, and the only group of a task for like robots."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from sim.envs.agents import AgentGroup
from sim.envs.observation import Observation


def spaces_of(group: AgentGroup, *batch: int) -> tuple[gym.spaces.Box, gym.spaces.Box]:
    """Observation (*batch, D) and action (*batch, U) of a robot; what is privileged is no part of it."""
    width = group.obs.flat().shape[-1]
    seen = gym.spaces.Box(-np.inf, np.inf, (*batch, width), np.float32)
    return seen, gym.spaces.Box(-1.0, 1.0, (*batch, group.action_dim), np.float32)


def seen_by(obs: Observation) -> np.ndarray:
    """What a policy may see of W worlds, (W, N, D), as an array of its own."""
    return obs.flat().numpy().copy()


def checked_action(actions: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """Actions as a tensor of `shape`; ValueError where they have another one or are no finite numbers."""
    array = np.asarray(actions, dtype=np.float32)
    if array.shape != shape:
        raise ValueError(f"actions have the shape {array.shape}: {shape} is needed")
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"action {array[index]} at {list(index)}: finite numbers are needed, from -1 to 1")
    return torch.from_numpy(array)
