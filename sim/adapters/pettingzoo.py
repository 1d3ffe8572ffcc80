"""PettingZoo: one world as a ParallelEnv with one agent a robot."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from pettingzoo import ParallelEnv

from sim.envs.team_env import make_env
from sim.task import TaskCfg


class TeamParallelEnv(ParallelEnv):
    """Agents are called `<robot>_<index>`; all of them leave together when the world ends."""

    def __init__(self, task: TaskCfg | str, num_agents: int | None = None, **options: Any):
        """`options` go to `sim.envs.team_env.make_env`."""
        self.env = make_env(task, 1, seed=0, num_agents=num_agents, **options)
        self.metadata = {"name": self.env.task.name, "render_modes": []}
        self.render_mode = None
        self.possible_agents = [f"{self.env.robot.name}_{index}" for index in range(self.env.num_agents)]
        self.agents: list[str] = []
        size = self.env.obs_dim
        self._obs_spaces = {a: gym.spaces.Box(-np.inf, np.inf, (size,), np.float32) for a in self.possible_agents}
        self._act_spaces = {
            a: gym.spaces.Box(-1.0, 1.0, (self.env.action_dim,), np.float32) for a in self.possible_agents
        }

    def observation_space(self, agent: str) -> gym.Space:
        """Box (D,)."""
        return self._obs_spaces[agent]

    def action_space(self, agent: str) -> gym.Space:
        """Box (U,) in [-1, 1]."""
        return self._act_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict]]:
        """First observations and empty infos, by agent."""
        self.agents = list(self.possible_agents)
        return self._by_agent(self.env.reset(seed)[0]), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, np.ndarray]) -> tuple[dict, dict, dict, dict, dict]:
        """obs, reward, terminated, truncated and info, by agent."""
        action = torch.as_tensor(np.stack([actions[agent] for agent in self.possible_agents]), dtype=torch.float32)
        _, reward, terminated, truncated, info = self.env.step(action[None])
        agents, success = self.agents, bool(info["success"][0])
        out = (
            self._by_agent(info["terminal_obs"][0]),
            dict(zip(agents, reward[0].tolist(), strict=True)),
            dict(zip(agents, terminated[0].tolist(), strict=True)),
            dict(zip(agents, truncated[0].tolist(), strict=True)),
            {agent: {"success": success} for agent in agents},
        )
        if info["ended"][0]:
            self.agents = []
        return out

    def _by_agent(self, obs: torch.Tensor) -> dict[str, np.ndarray]:
        return {agent: row.numpy().copy() for agent, row in zip(self.possible_agents, obs, strict=True)}
