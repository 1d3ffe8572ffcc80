"""Stable-Baselines3: every robot of every world is one row of a VecEnv, so that all of them share one policy."""

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from sim.adapters.arrays import checked_action, seen_by, spaces_of
from sim.envs.team_env import TeamEnv
from sim.task import TaskCfg


class TeamVecEnv(VecEnv):
    """W worlds of N like robots as W x N rows: robot n of world w is row w x N + n, with a reward of its own.

    A world ends for all of its robots at once; those that did not fail are marked `TimeLimit.truncated`.
    """

    def __init__(self, task: TaskCfg | str, num_worlds: int, num_agents: int | None = None, **options: Any):
        """`options` go to `TeamEnv`. ValueError for a task with several groups."""
        self.env = TeamEnv(task, num_worlds, seed=0, num_agents=num_agents, **options)
        self._name, self._agents = self.env.task.group_name, self.env.group.num_agents
        super().__init__(num_worlds * self._agents, *spaces_of(self.env.group))

    def reset(self) -> np.ndarray:
        """Obs (W x N, D); from a fresh generator where `seed` was called before."""
        obs = self.env.reset(self._seeds[0])
        self._reset_seeds()
        return seen_by(obs[self._name]).reshape(self.num_envs, -1)

    def step_async(self, actions: np.ndarray) -> None:
        """Keep actions (W x N, U) for `step_wait`; ValueError for any that is not finite."""
        rows = checked_action(actions, (self.num_envs, *(self.action_space.shape or ())))
        self._actions = rows.view(self.env.num_envs, self._agents, -1)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict]]:
        """Obs (W x N, D), reward (W x N,), whether the episode ended (W x N,), and info of each row."""
        step = self.env.step({self._name: self._actions})
        ended = step.ended.numpy().repeat(self._agents)
        infos: list[dict] = [{} for _ in range(self.num_envs)]
        if ended.any():
            last = seen_by(step.final_obs[self._name]).reshape(self.num_envs, -1)
            truncated = step.truncated[self._name].flatten().numpy()
            for row in ended.nonzero()[0]:
                infos[row] = {
                    "terminal_observation": last[row],
                    "TimeLimit.truncated": bool(truncated[row]),
                    "is_success": bool(step.success[row // self._agents]),
                }
        obs = seen_by(step.obs[self._name]).reshape(self.num_envs, -1)
        return obs, step.reward[self._name].flatten().numpy().copy(), ended, infos

    def close(self) -> None:
        """Nothing is open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of the environment, once for each row."""
        found = None if attr_name == "render_mode" else getattr(self.env, attr_name)
        return [found] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """All rows are one environment: it is set for all of them."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of the environment once; its result for each row."""
        return [getattr(self.env, method_name)(*args, **kwargs)] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """No row is wrapped."""
        return [False] * len(list(self._get_indices(indices)))
