"""TeamEnv: a task for like robots in W parallel worlds, as the learner sees it."""

from typing import Any

import torch

from sim.envs.agents import AgentGroup
from sim.envs.mixed_env import MixedEnv, task_scene
from sim.task import TaskCfg
from sim.tasks import load_task

__all__ = ["MixedEnv", "TeamEnv", "make_env", "task_scene"]

Tensor = torch.Tensor


def make_env(
    task: TaskCfg | str,
    num_envs: int,
    seed: int,
    num_agents: int | None = None,
    shield: bool = False,
    randomise: bool = True,
    curriculum: bool = False,
    engine: str = "mujoco",
    device: str | None = None,
) -> "TeamEnv":
    """The environment of a `task` for like robots, by name or as it is, with `num_envs` worlds; see `TeamEnv`."""
    cfg = load_task(task) if isinstance(task, str) else task
    if not isinstance(cfg, TaskCfg):
        raise ValueError(f"task {cfg.name!r} has several roles ({', '.join(cfg.roles)}): it takes a MixedEnv")
    return TeamEnv(cfg, num_envs, seed, num_agents, shield, randomise, curriculum, engine, device)


class TeamEnv(MixedEnv):
    """W worlds x N like robots: as `MixedEnv`, with the tensors themselves instead of dicts of one entry."""

    @property
    def group(self) -> AgentGroup:
        """The robots."""
        (group,) = self.groups.values()
        return group

    def reset(self, seed: int | None = None, difficulty: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Start every world anew and return obs (W, N, D); see `MixedEnv.reset`."""
        (obs,) = self._reset(seed, difficulty).values()
        return obs

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:  # type: ignore[override]
        """One control step under action (W, N, U); see `MixedEnv.step`."""
        role = self.group.role.robot
        *parts, info = self._step({role: action})
        for name in ("terminal_obs", "reward_terms", "terminations"):
            info[name] = info[name][role]
        obs, reward, terminated, truncated = (part[role] for part in parts)
        return obs, reward, terminated, truncated, info

    robot = property(lambda self: self.group.robot, doc="Specification of the robots.")
    num_agents = property(lambda self: self.group.num_agents, doc="Robots of a world, N.")
    action_dim = property(lambda self: self.group.action_dim, doc="Channels of one robot, U.")
    shield = property(lambda self: self.group.shield, doc="Parameters of the shield, or None.")
    num_peers = property(lambda self: self.group.num_peers, doc="Slots for peers in an observation, P.")
    obs_layout = property(lambda self: self.group.obs_layout, doc="How an observation is laid out.")
    obs_dim = property(lambda self: self.group.obs_dim, doc="Length of one robot's observation, D.")
    measured = property(lambda self: self.group.measured, doc="State, peers and objects as measured, (W, N, ...).")
    command = property(lambda self: self.group.command, doc="What the operator asks, name -> (W, N, n).")
    memory = property(lambda self: self.group.memory, doc="What the robots carry over, name -> (W, N, n).")
    policy_input = property(lambda self: self.group.policy_input, doc="All that the robots are given, (W, N, ...).")
    now = property(lambda self: self.group.now, doc="The true situation, (W, N, ...).")
    shielded = property(lambda self: self.group.shielded, doc="Steps in which the shield intervened, (W, N).")
    last_action = property(lambda self: self.group.last_action, doc="Action of the last step, (W, N, U).")
