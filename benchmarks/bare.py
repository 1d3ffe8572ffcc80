"""Gymnasium's way with MuJoCo, at its leanest: one world, no reward, no delay, no randomisation, no meaning."""

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from hardware import load_robot
from sim.envs.world import task_scene
from sim.tasks import load_task

EPISODE_STEPS = 250  # control steps
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS


class BareEnv(gym.Env):
    """Physics of a task's scene for a control period under raw set-points; what a MuJoCo environment cannot do less."""

    def __init__(self, task: str, starts: np.ndarray) -> None:
        """`starts` (K, ...) are full physics states that episodes begin in."""
        cfg = load_task(task)
        self.model = task_scene(cfg).model
        self.data = mujoco.MjData(self.model)
        self.starts, self.steps = starts, 0
        (hz,) = {load_robot(group.robot).control_hz for group in cfg.groups.values()}
        self.substeps = round(1.0 / (hz * self.model.opt.timestep))
        limited = self.model.actuator_ctrllimited.astype(bool)
        low, high = np.where(limited[:, None], self.model.actuator_ctrlrange, 0.0).T
        self.action_space = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32))
        size = self.model.nq + self.model.nv
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Observation (nq + nv,): positions and velocities as MuJoCo has them; and an empty info."""
        super().reset(seed=seed)
        self.steps = 0
        start = self.starts[self.np_random.integers(len(self.starts))]
        mujoco.mj_setState(self.model, self.data, start, STATE)
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Observation (nq + nv,), no reward; episodes end by time only."""
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, self.substeps)
        self.steps += 1
        return self._seen(), 0.0, False, self.steps >= EPISODE_STEPS, {}

    def _seen(self) -> np.ndarray:
        return np.concatenate([self.data.qpos, self.data.qvel])
