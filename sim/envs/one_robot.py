"""One robot of a group seen as a group of its own: for policies that robots do not share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from deploy.contract.groups import group_and_number, names_of
from sim.envs.observation import Observation
from sim.envs.state import EnvStep
from sim.physics import TraceablePhysics
from sim.tree import on_tensors

OF_ROBOTS = ("measured", "policy_input", "command", "last_action", "last_correction")  # of a group: (W, N, ...)
OF_STEP = ("obs", "final_obs", "reward", "reward_terms", "terminations", "terminated", "truncated", "acted")  # likewise


def column(value: Any, index: int) -> Any:
    """Of tensors (W, N, ...) in nested containers those of one robot, (W, 1, ...)."""
    return on_tensors(lambda tensor: tensor[:, index : index + 1], value)


class OneRobot:
    """What belongs to one robot of an `AgentGroup`; all that is no robot's own is the group's."""

    num_agents = 1

    def __init__(self, group: Any, index: int) -> None:
        self._group, self._index = group, index

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._group, name)
        return column(value, self._index) if name in OF_ROBOTS else value

    @property
    def now(self) -> Any:
        """Its true state."""
        return SimpleNamespace(state=column(self._group.now.state, self._index))


def part_of(env: Any, name: str) -> Any:
    """The group of `env` that a policy of this `name` is for, or the one robot of it."""
    group, number = group_and_number(name)
    return env.groups[name] if number is None else OneRobot(env.groups[group], number - 1)


def joined(parts: Mapping[str, Tensor], groups: Iterable[str]) -> dict[str, Tensor]:
    """What policies of `groups`, or of single robots in them, came to (W, N or 1, ...), as each group's (W, N, ...)."""
    found: dict[str, list[Tensor]] = {group: [] for group in groups}
    for name, part in parts.items():
        found[group_and_number(name)[0]].append(part)
    return {group: of[0] if len(of) == 1 else torch.cat(of, dim=1) for group, of in found.items()}


class RobotsApart:
    """A `TeamEnv` of which each robot of some groups is a group of its own to a learner: they share no policy."""

    def __init__(self, env: Any, apart: Iterable[str]) -> None:
        """`apart`: names of those groups. ValueError for an engine that makes a whole rollout one program."""
        if isinstance(getattr(getattr(env, "world", None), "physics", None), TraceablePhysics):
            raise ValueError("network.independent: its engine makes a rollout one program; choose mujoco or warp")
        self._env = env
        self._parts = {
            name: names_of(name, obs.policy.shape[1]) if name in apart else [] for name, obs in env.obs.items()
        }
        self.groups = self._split(env.groups, OneRobot)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    @property
    def obs(self) -> dict[str, Observation]:
        """What each sees."""
        return self._split(self._env.obs)

    def reset(self, *args: Any, **kwargs: Any) -> dict[str, Observation]:
        """As `TeamEnv.reset`."""
        return self._split(self._env.reset(*args, **kwargs))

    def step(self, actions: Mapping[str, Tensor]) -> EnvStep:
        """As `TeamEnv.step`."""
        step = self._env.step(joined(actions, self._parts))
        return replace(step, **{name: self._split(getattr(step, name)) for name in OF_STEP})

    def _split(self, of_groups: Mapping[str, Any], part: Callable[[Any, int], Any] = column) -> dict[str, Any]:
        """The entries of groups, those of groups that are `apart` as an entry for each robot."""
        found: dict[str, Any] = {}
        for name, value in of_groups.items():
            robots = self._parts[name]
            found |= {robot: part(value, k) for k, robot in enumerate(robots)} if robots else {name: value}
        return found
