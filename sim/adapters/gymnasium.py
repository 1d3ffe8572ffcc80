"""Gymnasium: a whole team is one agent with observation (N, D) and action (N, U); its reward is the robots' mean."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sim.adapters.arrays import checked_action, seen_by, spaces_of
from sim.envs.state import EnvStep
from sim.envs.team_env import TeamEnv
from sim.physics import on
from sim.task import TaskCfg


class TeamVectorEnv(VectorEnv):
    """W worlds at once, of a task for like robots.

    As Gymnasium has it, worlds that end restart in the same step, and `final_obs` in info holds what they saw last; or
    with `AutoresetMode.NEXT_STEP`, as most of its wrappers need it, in the next step, whose action does not count.
    """

    def __init__(
        self,
        task: TaskCfg | str,
        num_envs: int,
        num_agents: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
        **options: Any,
    ):
        """`options` go to `TeamEnv`. ValueError for a task with several groups, or any other `autoreset_mode`."""
        if autoreset_mode not in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
            raise ValueError(f"autoreset_mode {autoreset_mode}: SAME_STEP or NEXT_STEP")
        self.metadata = {"autoreset_mode": autoreset_mode, "render_modes": []}
        self.env = (TeamEnv if autoreset_mode is AutoresetMode.SAME_STEP else NextStepEnv)(
            task, num_envs, seed=0, num_agents=num_agents, **options
        )
        self.num_envs, self._name = num_envs, self.env.task.group_name
        self._group = self.env.group
        self.single_observation_space, self.single_action_space = spaces_of(self._group, self._group.num_agents)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Obs (W, N, D) and an empty info."""
        super().reset(seed=seed)
        return seen_by(self.env.reset(seed)[self._name]), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Obs (W, N, D), reward, terminated and truncated (W,), info."""
        step = self.env.step({self._name: checked_action(actions, self.action_space.shape or ())})
        reward = step.reward[self._name].mean(-1).numpy().astype(np.float64)
        failed, ended = step.terminated[self._name].any(-1).numpy(), step.ended.numpy()
        info: dict[str, Any] = {"success": step.success.numpy(), "_success": ended}
        if ended.any() and self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            last, final = step.final_obs[self._name].flat(), np.empty(self.num_envs, dtype=object)
            for index in ended.nonzero()[0]:
                final[index] = last[index].numpy().copy()
            info |= {"final_obs": final, "_final_obs": ended}
        return seen_by(step.obs[self._name]), reward, failed, ended & ~failed, info


class TeamGymEnv(gym.Env):
    """One world, for code that expects a plain `gymnasium.Env`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - the base class declares it so

    def __init__(self, task: TaskCfg | str, num_agents: int | None = None, **options: Any):
        """`options` go to `TeamEnv`. ValueError for a task with several groups."""
        self.env = NextStepEnv(task, 1, seed=0, num_agents=num_agents, **options)  # after an end comes a `reset`
        self._name = self.env.task.group_name
        self.observation_space, self.action_space = spaces_of(self.env.group, self.env.group.num_agents)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Obs (N, D) and an empty info."""
        super().reset(seed=seed)
        return seen_by(self.env.reset(seed)[self._name])[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Obs (N, D), reward, terminated, truncated, info; after an end the next call must be `reset`."""
        step = self.env.step({self._name: checked_action(action, self.action_space.shape or ())[None]})
        failed, ended = bool(step.terminated[self._name].any()), bool(step.ended[0])
        obs = seen_by(step.final_obs[self._name])[0]
        reward = float(step.reward[self._name].mean())
        return obs, reward, failed, ended and not failed, {"success": bool(step.success[0])}


class NextStepEnv(TeamEnv):
    """Worlds that end stay as they are for one step more, in which they restart: no reward, no end.

    What it gives is for NumPy: no gradient can be taken of it, which saves a single world a seventh of its time.
    """

    _over: torch.Tensor  # (W,) worlds that restart in the next step ...
    _success: torch.Tensor  # ... and whether they had succeeded

    @torch.inference_mode()
    def reset(self, seed: int | None = None, difficulty: torch.Tensor | None = None) -> dict[str, Any]:
        self._over = self._success = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        return super().reset(seed, difficulty)

    def _renew(self, success: torch.Tensor, worlds: torch.Tensor) -> None:
        """Not yet."""

    @torch.inference_mode()
    def step(self, actions: Any, targets: Any = None) -> EnvStep:
        step, over = super().step(actions, targets), self._over
        if over.any():
            with on(self.device):
                super()._renew(self._success, over.nonzero().squeeze(-1))
            step.obs, step.ended = self.obs, step.ended & ~over
            for name in self.groups:
                step.reward[name][over] = 0.0
                step.terminated[name][over] = step.truncated[name][over] = False
        self._over, self._success = step.ended, step.success
        return step
