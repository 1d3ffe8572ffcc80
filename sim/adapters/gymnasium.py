"""Gymnasium: a whole team is one agent with observation (N, D) and action (N, U); its reward is the robots' mean."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sim.envs.team_env import TeamEnv, make_env
from sim.task import TaskCfg


class TeamVectorEnv(VectorEnv):
    """W worlds at once. Worlds that end restart in the same step; `final_obs` holds what they saw last."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012 - the base class declares it so

    def __init__(self, task: TaskCfg | str, num_envs: int, num_agents: int | None = None, **options: Any):
        """`options` go to `sim.envs.team_env.make_env`."""
        self.env = make_env(task, num_envs, seed=0, num_agents=num_agents, **options)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _spaces(self.env)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Obs (W, N, D) and an empty info."""
        super().reset(seed=seed)
        return self.env.reset(seed).numpy().copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Obs (W, N, D), reward, terminated and truncated (W,), info."""
        obs, reward, terminated, _, info = self.env.step(torch.as_tensor(actions, dtype=torch.float32))
        failed, ended = terminated.any(-1).numpy(), info["ended"].numpy()
        out: dict[str, Any] = {"success": info["success"].numpy(), "_success": ended}
        if ended.any():
            final = np.empty(self.num_envs, dtype=object)
            for index in ended.nonzero()[0]:
                final[index] = info["terminal_obs"][index].numpy().copy()
            out |= {"final_obs": final, "_final_obs": ended}
        return obs.numpy().copy(), reward.mean(-1).numpy().astype(np.float64), failed, ended & ~failed, out


class TeamGymEnv(gym.Env):
    """One world, for code that expects a plain `gymnasium.Env`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - the base class declares it so

    def __init__(self, task: TaskCfg | str, num_agents: int | None = None, **options: Any):
        """`options` go to `sim.envs.team_env.make_env`."""
        self.env = make_env(task, 1, seed=0, num_agents=num_agents, **options)
        self.observation_space, self.action_space = _spaces(self.env)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Obs (N, D) and an empty info."""
        super().reset(seed=seed)
        return self.env.reset(seed)[0].numpy().copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Obs (N, D), reward, terminated, truncated, info; after an end the next call must be `reset`."""
        _, reward, terminated, _, info = self.env.step(torch.as_tensor(action, dtype=torch.float32)[None])
        failed, ended = bool(terminated.any()), bool(info["ended"][0])
        obs = info["terminal_obs"][0].numpy().copy()
        return obs, float(reward.mean()), failed, ended and not failed, {"success": bool(info["success"][0])}


def _spaces(env: TeamEnv) -> tuple[gym.spaces.Box, gym.spaces.Box]:
    obs = gym.spaces.Box(-np.inf, np.inf, (env.num_agents, env.obs_dim), np.float32)
    return obs, gym.spaces.Box(-1.0, 1.0, (env.num_agents, env.action_dim), np.float32)
