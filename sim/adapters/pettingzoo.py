"""PettingZoo: one world as a ParallelEnv with one agent a robot, mixed teams included."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from pettingzoo import ParallelEnv

from sim.adapters.arrays import checked_action, seen_by, spaces_of
from sim.adapters.gymnasium import NextStepEnv
from sim.envs.observation import Observation
from sim.task import TaskCfg


class TeamParallelEnv(ParallelEnv):
    """Agents are called `<group>_<index>`; all of them leave together when the world ends."""

    def __init__(self, task: TaskCfg | str, num_agents: int | None = None, **options: Any):
        """`options` go to `TeamEnv`."""
        self.env = NextStepEnv(task, 1, seed=0, num_agents=num_agents, **options)  # after an end comes a `reset`
        self.metadata = {"name": self.env.task.name, "render_modes": []}
        self.render_mode = None
        spaces = {
            f"{name}_{index}": spaces_of(group)
            for name, group in self.env.groups.items()
            for index in range(group.num_agents)
        }
        self._obs_spaces = {agent: pair[0] for agent, pair in spaces.items()}
        self._act_spaces = {agent: pair[1] for agent, pair in spaces.items()}
        self.possible_agents = list(spaces)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gym.Space:
        return self._obs_spaces[agent]

    def action_space(self, agent: str) -> gym.Space:
        return self._act_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict]]:
        """First observations and empty infos, by agent."""
        self.agents = list(self.possible_agents)
        return self._seen(self.env.reset(seed)), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, np.ndarray]) -> tuple[dict, dict, dict, dict, dict]:
        """obs, reward, terminated, truncated and info, by agent."""
        step = self.env.step({name: self._rows(name, actions) for name in self.env.groups})
        agents, success = self.agents, bool(step.success[0])
        found = (
            self._seen(step.final_obs),
            self._by_agent(step.reward),
            self._by_agent(step.terminated),
            self._by_agent(step.truncated),
            {agent: {"success": success} for agent in agents},
        )
        if step.ended[0]:
            self.agents = []
        return found

    def _rows(self, name: str, actions: dict[str, np.ndarray]) -> torch.Tensor:
        """Actions (1, N, U) of a group; ValueError, which names the agent, for one that cannot be taken."""
        rows = []
        for index in range(self.env.groups[name].num_agents):
            agent = f"{name}_{index}"
            try:
                rows.append(checked_action(actions[agent], self._act_spaces[agent].shape or ()))
            except KeyError:
                raise ValueError(f"there is no action for {agent!r}; every agent needs one") from None
            except ValueError as error:
                raise ValueError(f"{agent}: {error}") from None
        return torch.stack(rows)[None]

    def _seen(self, obs: dict[str, Observation]) -> dict[str, np.ndarray]:
        return {f"{name}_{i}": row for name, part in obs.items() for i, row in enumerate(seen_by(part)[0])}

    def _by_agent(self, values: dict[str, torch.Tensor]) -> dict[str, Any]:
        return {f"{name}_{i}": value for name, part in values.items() for i, value in enumerate(part[0].tolist())}
