"""rsl_rl: every robot of every world is one row of a VecEnv of tensors, so that all of them share one policy."""

from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from sim.envs.observation import Observation
from sim.envs.team_env import TeamEnv
from sim.task import TaskCfg


class TeamTensorEnv(VecEnv):
    """W worlds of N like robots as W x N rows: robot n of world w is row w x N + n, with a reward of its own.

    The observation groups are "policy" (W x N, D), and "privileged" (W x N, C) where the task has any, for critics. A
    world ends for all of its robots at once; those that did not fail are among the `time_outs`. Rewards are those of
    the task times the control period, s, as rsl_rl's hyperparameters expect them: it does not normalise returns.
    """

    def __init__(
        self, task: TaskCfg | str, num_worlds: int, num_agents: int | None = None, seed: int = 0, **options: Any
    ):
        """`options` go to `TeamEnv`. ValueError for a task with several groups."""
        self.env = TeamEnv(task, num_worlds, seed, num_agents, **options)
        self._name, group = self.env.task.group_name, self.env.group
        self._agents, self.num_actions = group.num_agents, group.action_dim
        self.num_envs, self.device = num_worlds * self._agents, self.env.device
        self.max_episode_length, self.cfg = self.env.max_steps, {"task": self.env.task.name}

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Control steps (W x N,) since each row's episode began; rsl_rl spreads them over an episode by setting it."""
        return self.env.steps.repeat_interleave(self._agents)

    @episode_length_buf.setter
    def episode_length_buf(self, steps: torch.Tensor) -> None:
        self.env.steps = steps[:: self._agents].clone()

    def get_observations(self) -> TensorDict:
        """What the robots see now."""
        return self._rows(self.env.group.obs)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Observations, reward (W x N,), whether the episode ended (W x N,), and `time_outs` (W x N,).

        `actions` (W x N, U) are clipped to [-1, 1]; a NaN makes its world `unstable`, which ends it.
        """
        if actions.shape != (shape := (self.num_envs, self.num_actions)):
            raise ValueError(f"actions have the shape {tuple(actions.shape)}: {shape} is needed")
        step = self.env.step({self._name: actions.view(self.env.num_envs, self._agents, -1)})
        ended = step.ended.repeat_interleave(self._agents)
        time_outs = step.truncated[self._name].flatten().float()
        reward = self.env.control_dt * step.reward[self._name].flatten()
        return self._rows(step.obs[self._name]), reward, ended, {"time_outs": time_outs}

    def _rows(self, obs: Observation) -> TensorDict:
        groups = {"policy": obs.flat().flatten(0, 1).clone()}
        if obs.privileged.shape[-1]:
            groups["privileged"] = obs.privileged.flatten(0, 1).clone()
        return TensorDict(groups, batch_size=[self.num_envs])
