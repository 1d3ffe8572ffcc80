"""Gymnasium's environments as worlds of one robot, for our algorithms."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor

from policies.algorithms.algorithm import Experience
from policies.networks.policy import Policy
from sim.envs.observation import Observation


class GymTeam:
    """W worlds of one robot whose actions [-1, 1] are stretched to what the environment takes."""

    def __init__(self, name: str, worlds: int, seed: int) -> None:
        self._env = SyncVectorEnv([lambda: gymnasium.make(name)] * worlds, autoreset_mode=AutoresetMode.SAME_STEP)
        space: Any = self._env.single_action_space
        self._high = space.high
        self.actions = len(self._high)
        self._now, _ = self._env.reset(seed=seed)

    @staticmethod
    def seen(rows: np.ndarray) -> Observation:
        """What the environment shows (W, D), as one robot's (W, 1, D)."""
        return Observation.alone(torch.as_tensor(rows, dtype=torch.float32)[:, None])

    def obs(self) -> Observation:
        """What is seen now."""
        return self.seen(self._now)

    def as_theirs(self, action: Tensor) -> np.ndarray:
        """Actions (W, 1, U) of ours as the environment takes them (W, U)."""
        return action[:, 0].clamp(-1, 1).numpy() * self._high

    def step(self, policy: Policy, generator: torch.Generator) -> Experience:
        """One step of all worlds under an action that the policy draws."""
        obs = self.obs()
        with torch.no_grad():
            action, _, extras = policy.sample(obs, {}, generator)
        self._now, reward, terminated, truncated, info = self._env.step(self.as_theirs(action))
        after, ended = self._now.copy(), terminated | truncated
        if ended.any():
            after[ended] = np.stack(info["final_obs"][ended])
        failed, over = (torch.as_tensor(flag)[:, None] for flag in (terminated, truncated & ~terminated))
        earned = torch.as_tensor(reward, dtype=torch.float32)[:, None]
        return Experience(obs, {}, action, extras, earned, failed, over, torch.ones_like(failed), self.seen(after))
