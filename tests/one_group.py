"""A TeamEnv of like robots whose tensors are handed over bare: what most tests of one task look at."""

from collections.abc import Callable
from typing import Any

import torch

from policies.evaluation.evaluate import EvalResult, fly
from policies.evaluation.policy_runner import PolicyRunner, TeamRunner
from sim.envs.team_env import TeamEnv
from sim.task import Draw, Start, TaskCfg

Tensor = torch.Tensor


class OneGroup(TeamEnv):
    """`TeamEnv` with one group, whose attributes are at hand here too."""

    def reset(self, *args: Any, **kwargs: Any) -> Tensor:
        """What a policy may see, (W, N, D)."""
        (obs,) = super().reset(*args, **kwargs).values()
        return obs.flat()

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Obs (W, N, D), reward, terminated and truncated (W, N), and the rest of the `EnvStep` by name."""
        name = self.task.group_name
        step = super().step(action if isinstance(action, dict) else {name: action})
        rest = {field: getattr(step, field) for field in step.__slots__}
        for field in ("reward_terms", "terminations", "reward", "terminated", "truncated"):
            rest[field] = rest[field][name]
        rest["final_obs"] = step.final_obs[name].flat()
        return step.obs[name].flat(), rest["reward"], rest["terminated"], rest["truncated"], rest

    def __getattr__(self, name: str) -> Any:
        if name in ("groups", "task"):
            raise AttributeError(name)
        return getattr(self.group, name)


def make_env(task: TaskCfg | str, num_envs: int, seed: int, *args: Any, **options: Any) -> OneGroup:
    """The environment of a task with one group."""
    return OneGroup(task, num_envs, seed, *args, **options)


def start_of(task: TaskCfg, draw: Draw) -> Start:
    """Where the robots of a task with one group begin."""
    return task.starts(draw)[task.group_name]


def starts_at(task: TaskCfg, start: Callable[[Draw], Start]) -> TaskCfg:
    """The same task whose only group begins at `start`."""
    return task.changed(starts=lambda draw: {task.group_name: start(draw)})


@torch.inference_mode()
def flight_of(runner: PolicyRunner, task: TaskCfg | str, num_envs: int, seed: int, **options: Any) -> EvalResult:
    """What `runner` comes to as the policy of the only group."""
    env = TeamEnv(task, num_envs, seed, **options)
    return fly(TeamRunner({env.task.group_name: runner}), env)
