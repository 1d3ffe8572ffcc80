"""The collector: steps the environment under the policies of a team, and hands every step to the algorithm."""

import time
from collections.abc import Iterator, Mapping
from math import nan
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from policies.algorithms.algorithm import Algorithm, Experience, over_rows
from policies.networks.policy import Memory
from policies.threads import Workers
from policies.training.episodes import Episodes
from policies.training.nan_guard import NanGuard
from sim.envs.observation import Observation
from sim.physics import TraceablePhysics
from sim.tree import on_tensors

if TYPE_CHECKING:
    from policies.training.jitted import JittedRollout

OUTCOME = ("reward", "terminated", "truncated", "acted", "final_obs", "reward_terms")  # of a step, by group
Acts = Mapping[str, tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]]  # group -> action, new memory, extras


class Collector:
    """Owns the environment, what is seen, the memory of the policies and the numbers of the episodes."""

    def __init__(self, env: Any, seed: int, generator: torch.Generator, workers: Workers, guard: NanGuard) -> None:
        """`generator` is what actions are drawn with."""
        self.env, self.generator, self.workers, self.guard = env, generator, workers, guard
        self.obs: dict[str, Observation] = env.reset(seed)
        env.stagger()
        self.memory: dict[str, dict[str, Tensor]] = {name: {} for name in self.obs}
        self.programs: dict[int, JittedRollout | None] = {}  # by length
        self.seconds: dict[str, float] = {}  # of the last rollout, by part; none of a program, which does all at once
        self.episodes = Episodes({n: obs.policy.new_full((len(obs.policy),), nan) for n, obs in self.obs.items()})

    @property
    def robots(self) -> dict[str, int]:
        """Robots of a world, by group."""
        return {name: obs.policy.shape[1] for name, obs in self.obs.items()}

    @property
    def num_worlds(self) -> int:
        return len(next(iter(self.obs.values())).policy)

    def begin(self, policies: Mapping[str, Any]) -> None:
        """Who acts from now on."""
        self.policies = policies
        self.memory = {name: p.initial_memory(self.num_worlds, self.robots[name]) for name, p in policies.items()}

    def restart(self, seed: int, difficulty: Tensor) -> None:
        """All episodes begin again, as hard as they had become."""
        self.obs = self.env.reset(seed, difficulty=difficulty)
        self.env.stagger()
        for running in self.episodes.running.values():
            running.fill_(nan)
        self.begin(self.policies)

    def collect(self, algorithm: Algorithm) -> dict[str, float]:
        """One `horizon` of steps, each recorded by the algorithm; returns what the episodes came to."""
        self.episodes.clear()
        shards = self.workers.shards
        with shards.together():
            for t, (obs, memory, acts, step) in enumerate(self._steps(algorithm.horizon)):
                team = {}
                for name, (action, new, extras) in acts.items():
                    self.guard.check_step(self.env, action, step, name, len(acts) > 1)
                    came = {part: getattr(step, part)[name] for part in OUTCOME}
                    came["final_obs"] = self.policies[name].recall(came["final_obs"], new)[0]
                    team[name] = Experience(obs[name], memory[name], action, extras, **came)
                algorithm.record(t, team)
                self.episodes.add(step)
        steps = algorithm.horizon * self.num_worlds * shards.count
        return self.episodes.everywhere(shards).summary(self.robots, steps)

    def _steps(self, horizon: int) -> Iterator[tuple[Mapping[str, Observation], Any, Acts, Any]]:
        """What is seen, remembered and done, and what comes of it, `horizon` times."""
        program = self.program(horizon)
        if program is not None:
            yield from program.steps(self.generator)
            self.obs = self.env.obs
            return
        world = getattr(self.env, "world", None)  # points that are pushed without physics have none
        physics_before, inference_s, env_s = getattr(world, "physics_s", 0.0), 0.0, 0.0
        for _ in range(horizon):
            memory, began = self.memory, time.perf_counter()
            recalled = self._recalled()
            acts: Acts = {name: self._act(policy, *recalled[name]) for name, policy in self.policies.items()}
            acted = time.perf_counter()
            step = self.env.step({name: action for name, (action, *_) in acts.items()})
            inference_s, env_s = inference_s + acted - began, env_s + time.perf_counter() - acted
            self.obs = step.obs
            self.memory = {name: self._remembered(name, new, step.ended) for name, (_, new, _) in acts.items()}
            yield {name: seen for name, (seen, _) in recalled.items()}, memory, acts, step
        physics_s = getattr(world, "physics_s", 0.0) - physics_before
        self.seconds = {"physics": physics_s, "terms": env_s - physics_s, "inference": inference_s}

    def seen(self) -> dict[str, Observation]:
        """What is seen now, with its past where a policy has a history."""
        return {name: seen for name, (seen, _) in self._recalled().items()}

    def _recalled(self) -> dict[str, tuple[Observation, Memory]]:
        return {name: policy.recall(self.obs[name], self.memory[name]) for name, policy in self.policies.items()}

    @torch.no_grad()
    def _act(
        self, policy: Any, obs: Observation, memory: Memory
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        if memory:
            action, memory, extras = policy.sample(obs, memory, self.generator)
            return action, dict(memory), extras

        def mean(rows: slice) -> Tensor:
            output: Tensor = policy(on_tensors(lambda tensor: tensor[rows], obs), {})[0]
            return output

        action, extras = policy.draw(over_rows(self.workers, mean, self.num_worlds), self.generator)
        return action, {}, extras

    def _remembered(self, name: str, memory: Mapping[str, Tensor], ended: Tensor) -> dict[str, Tensor]:
        """Memory for the next step: that of the start where the episode has ended."""
        if not memory:
            return {}
        first = self.policies[name].initial_memory(self.num_worlds, self.robots[name])
        return {key: torch.where(ended[:, None, None], first[key], value) for key, value in memory.items()}

    def program(self, horizon: int) -> "JittedRollout | None":
        """The rollout as one program, where engine and task can have that; compiled when first asked for."""
        physics = getattr(getattr(self.env, "world", None), "physics", None)
        if not isinstance(physics, TraceablePhysics):
            return None
        if horizon not in self.programs:
            from policies.training.jitted import jitted_rollout  # needs JAX

            self.programs[horizon] = jitted_rollout(self.env, self.policies, horizon)
        return self.programs[horizon]

    def state_dict(self) -> dict[str, Any]:
        """All that the next rollout depends on, but the environment and the generators."""
        episodes = {"running": self.episodes.running, "last": self.episodes.last}
        return {"obs": self.obs, "memory": self.memory, **episodes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        device = self.generator.device
        self.obs, self.memory = (on_tensors(lambda t: t.to(device), state[name]) for name in ("obs", "memory"))
        for name, running in self.episodes.running.items():
            running.copy_(state["running"][name])
        self.episodes.last = {name: value.to(device) for name, value in state["last"].items()}
