"""Gymnasium's MuJoCo environments as worlds of one robot or of a team that shares its body, for our algorithms.

"HalfCheetah-v5" is one robot. "HalfCheetah-2x3" is the team of two of multi-agent MuJoCo (Peng et al. 2021,
arXiv:2003.06709): each moves three joints of the same body and sees them, their neighbours and the torso.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor

from policies.algorithms import ALGORITHMS
from policies.algorithms.algorithm import Clock, Experience, Group
from policies.networks.policy import Policy
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

Act = Callable[[np.ndarray], np.ndarray]  # observations (n, D) -> actions (n, U)
Look = Iterator[tuple[int, Act]]  # steps so far, and who acts now


@dataclass(frozen=True)
class Part:
    """What one robot of a team has of the whole body."""

    sees: list[int]  # entries of the observation
    moves: list[int]  # entries of the action


def environment(task: str) -> tuple[str, dict[str, Part]]:
    """Gymnasium's name of the environment, and its robots; ValueError where multi-agent MuJoCo does not part it so."""
    body, _, split = task.rpartition("-")
    if split.startswith("v"):
        env: Any = gymnasium.make(task)
        shapes = env.observation_space.shape[0], env.action_space.shape[0]
        return task, {"robot": Part(*(list(range(size)) for size in shapes))}
    from gymnasium_robotics import mamujoco_v1

    try:
        team: Any = mamujoco_v1.parallel_env(body, split)
    except Exception as error:  # of no class of its own
        raise ValueError(f"task {task!r}: {error}; a team is named as HalfCheetah-2x3 or Ant-4x2") from None
    moves = [[joint.act_ids for joint in part] for part in team.agent_action_partitions]
    sees = team.observation_factorization
    parts = {name: Part([int(i) for i in sees[name]], own) for name, own in zip(sees, moves, strict=True)}
    return f"{body}-v5", parts


class GymTeam:
    """W worlds, each of a team whose actions [-1, 1] are stretched to what the environment takes; all earn the same.

    A robot is a group of its own, with policy and parameters of its own.
    """

    def __init__(self, task: str, worlds: int, seed: int) -> None:
        name, self.parts = environment(task)
        self._env = SyncVectorEnv([lambda: gymnasium.make(name)] * worlds, autoreset_mode=AutoresetMode.SAME_STEP)
        space: Any = self._env.single_action_space
        self._high = space.high.astype(np.float64)
        self._now, _ = self._env.reset(seed=seed)
        self.worlds = worlds

    def groups(self, network: NetworkCfg, cfg: Any) -> dict[str, Group]:
        """The robots, as an algorithm has to know them."""
        obs = self.obs()
        return {name: Group(obs[name], [True] * len(part.moves), network, cfg) for name, part in self.parts.items()}

    def seen(self, rows: np.ndarray) -> dict[str, Observation]:
        """What the environment shows (W, D), as each robot's (W, 1, .)."""
        whole = torch.as_tensor(rows, dtype=torch.float32)[:, None]
        return {name: Observation.alone(whole[..., part.sees]) for name, part in self.parts.items()}

    def obs(self) -> dict[str, Observation]:
        """What is seen now."""
        return self.seen(self._now)

    def as_theirs(self, actions: Mapping[str, Tensor]) -> np.ndarray:
        """Actions of all robots (W, 1, .) as the environment takes them (W, U)."""
        joint = np.empty((len(next(iter(actions.values()))), len(self._high)))
        for name, part in self.parts.items():
            joint[:, part.moves] = actions[name][:, 0].clamp(-1, 1).numpy()
        return joint * self._high

    def step(self, policies: Mapping[str, Policy], generator: torch.Generator) -> dict[str, Experience]:
        """One step of all worlds under actions that the policies draw."""
        obs = self.obs()
        with torch.no_grad():
            drawn = {name: policy.sample(obs[name], {}, generator) for name, policy in policies.items()}
        joint = self.as_theirs({name: action for name, (action, _, _) in drawn.items()})
        self._now, reward, terminated, truncated, info = self._env.step(joint)
        after, ended = self._now.copy(), terminated | truncated
        if ended.any():
            after[ended] = np.stack(info["final_obs"][ended])
        failed, over = (torch.as_tensor(flag)[:, None] for flag in (terminated, truncated & ~terminated))
        earned, final = torch.as_tensor(reward, dtype=torch.float32)[:, None], self.seen(after)
        return {
            name: Experience(
                obs[name], {}, action, extras, earned, failed, over, torch.ones_like(failed), final[name]
            )
            for name, (action, _, extras) in drawn.items()
        }  # fmt: skip


def learn(env: GymTeam, algo: str, network: NetworkCfg, cfg: Any, seed: int, steps: int, every: int) -> Look:
    """Training of `algo` for `steps` of the environment, looked at `every` so many."""
    torch.manual_seed(seed)
    generator, workers = torch.Generator().manual_seed(seed), Workers(1)
    algorithm, done = ALGORITHMS[algo](env.groups(network, cfg), generator, workers), 0
    policies: Mapping[str, Any] = algorithm.policies

    def act(rows: np.ndarray) -> np.ndarray:
        seen = env.seen(rows)
        with torch.no_grad():
            return env.as_theirs({name: policy.best(seen[name], {})[0] for name, policy in policies.items()})

    while done < steps:
        until = min(steps, done + every)
        while done < until:
            for t in range(algorithm.horizon):
                algorithm.record(t, env.step(policies, generator))
            done += algorithm.horizon * env.worlds
            algorithm.update(env.obs(), Clock(done / steps, done))
        yield done, act
    workers.close()
