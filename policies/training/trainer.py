"""One training run in memory: collector, algorithm, counters, and all of it as a state to save."""

import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from deploy.contract.groups import group_and_number
from hardware.names import one_line
from policies.algorithms import load_algorithm
from policies.algorithms.algorithm import Clock, Group
from policies.algorithms.own import as_numbers, check_made, named
from policies.checkpoint import CheckpointError, global_rng_state, load_weights, restore_global_rng
from policies.networks.history import as_first_seen
from policies.shards import ALONE, Shards
from policies.task_data import changed
from policies.threads import Workers, single_threaded_torch
from policies.training.beginning import begin_with
from policies.training.collector import Collector
from policies.training.config import TrainCfg
from policies.training.nan_guard import NanGuard
from policies.training.overlap import Overlap
from policies.training.run_record import check_same_run, run_record
from policies.training.seeds import make_generators, seed_of
from sim.envs.one_robot import RobotsApart
from sim.envs.team_env import TeamEnv
from sim.mirror import of_group
from sim.physics import on
from sim.tasks import load_task

CURVE = ("mean_return", "success_rate", "failure/collision", "episode_steps")  # what a learning curve keeps
OF_A_SHARD = ("replay", "waiting", "costs")  # of an algorithm's state, from its own experience; the rest all share
SHARD_TOLERANCE = 1e-4  # by how much a parameter of a policy may differ between shards, whose copies are equal
HOW_FAR = ("total_steps", "wall_budget_s", "stop_at")  # these may differ when a run goes on,
LEAVES = ("checkpoint_every", "keep_every", "onnx", "film", "wandb")  # and what it leaves


class Trainer:
    """One run in memory: collector, algorithm, counters."""

    def __init__(self, cfg: TrainCfg, env: Any = None, shards: Shards = ALONE) -> None:
        """Builds everything from `cfg.seed`; `env` replaces the environment that `cfg` describes.

        Of several `shards` it is this one's.
        """
        self.cfg, self.shards = cfg, shards
        world_seed = seed_of(cfg.seed, "environment", shard=shards.index)
        torch.manual_seed(world_seed)  # the global ones, which terms may draw from
        np.random.seed(world_seed % 2**32)
        self.engine = cfg.machine.engine or "mujoco"
        self.engines = [self.engine]  # all that the run has seen
        env = _env_of(cfg, shards.count) if env is None else env
        env = _apart(cfg, env)
        self.device = env.device
        if shards.count > 1 and self.device.type != "cpu":
            raise ValueError(f"device = {self.device}: {shards.count} shards learn on the CPU; give --device cpu")
        self.generators = make_generators(cfg.seed, self.device, shard=shards.index)
        # An accelerator has threads enough, and those of the CPU would make their tensors elsewhere
        count = cfg.machine.threads if self.device.type == "cpu" else 1
        self.workers, self.learners = Workers(count, shards), Workers(count, shards)
        self.folder = cfg.out / f"shard-{shards.index}" if shards.index else cfg.out  # of what is this shard's own
        self.guard = NanGuard(self.folder)
        self.collector = Collector(env, world_seed, self.generators["action"], self.workers, self.guard)
        with on(self.device), torch.random.fork_rng(), single_threaded_torch():
            torch.manual_seed(seed_of(cfg.seed, "network"))
            groups = {name: self._group(name, obs) for name, obs in self.collector.obs.items()}
            kind = load_algorithm(cfg.algo)
            with named(cfg.algo, kind):
                self.algorithm = kind(groups, self.generators["minibatch"], self.learners)
            check_made(cfg.algo, self.algorithm, groups)
            # On an accelerator both would wait for one another; of several shards each waits for the others in order
            at_once = self.algorithm.lag and self.device.type == "cpu" and shards.count == 1
            self.overlap = Overlap(self.algorithm.policies) if at_once else None
            self.collector.begin(self.overlap.acting if self.overlap else self.algorithm.policies)
        for wait in ("warm_up", "critic_first"):
            if cfg.total_steps <= (first := max(getattr(group.cfg, wait, 0) for group in groups.values())):
                begins = f"{self.algorithm.Cfg.NAME}.{wait} = {first}"
                raise ValueError(f"steps = {cfg.total_steps}: over before policies learn, {begins}")
        self.run = run_record(cfg, env, groups, shards.count)
        if cfg.start_from is not None and not cfg.resume:  # a resumed run has networks of its own
            begin_with(cfg.start_from, self.algorithm, self.run, env.task, not shards.index)
        self.curve: list[dict[str, float]] = []
        self.iteration = self.agent_steps = 0
        self.best: list[float] | None = None  # of `score`, so far
        self.shown, self.looks = 0.0, 0  # success on held-out starts, and how often they were flown, see `held_out`
        self.wall_s = 0.0  # of training, over all processes of the run

    def close(self) -> None:
        """End all threads."""
        self.workers.close()
        self.learners.close()
        if self.overlap:
            self.overlap.close()

    @property
    def policy(self) -> Any:
        """The only policy, where robots are all alike."""
        (policy,) = self.algorithm.policies.values()
        return policy

    @property
    def num_robots(self) -> int:
        """Robots of a world, of all groups."""
        return sum(self.collector.robots.values())

    @property
    def steps_per_iteration(self) -> int:
        """Agent steps between two updates, of all groups and shards."""
        return self.algorithm.horizon * self.collector.num_worlds * self.num_robots * self.shards.count

    def iterate(self, fraction: float) -> dict[str, float]:
        """One rollout and one update; `fraction` of the training is over. Returns the iteration's numbers."""
        with single_threaded_torch(), on(self.device), named(self.cfg.algo, type(self.algorithm)):
            began, clock = time.perf_counter(), Clock(fraction, self.agent_steps)
            with self.overlap.learning(self.algorithm.pending_update(clock)) if self.overlap else nullcontext():
                outcome = self.collector.collect(self.algorithm)
                collected = time.perf_counter()
            waited = time.perf_counter()
            by_chance = self._by_chance
            losses = as_numbers(self.cfg.algo, self.algorithm.update(self.collector.seen(), clock))
            if by_chance and not self._by_chance:  # what chance came to is no policy's
                self.collector.episodes.last.clear()
            self.guard.check_update(losses, self.algorithm.networks())
            updated = time.perf_counter()
        self.iteration += 1
        self.agent_steps += self.steps_per_iteration
        kept = {name: value for name, value in outcome.items() if {name, name.partition("/")[2]} & set(CURVE)}
        self.curve.append({"agent_steps": self.agent_steps, **kept})
        learned = updated - waited + (self.overlap.took_s if self.overlap else 0.0)
        seconds = {"rollout": collected - began, **self.collector.seconds, "update": learned}
        if self.overlap:  # of both, what was at once
            seconds["at_once"] = max(0.0, seconds["rollout"] + learned - (updated - began))
        times = {f"time/{part}_s": value for part, value in seconds.items()}
        return {**losses, **outcome, **times, "steps_per_s": self.steps_per_iteration / (updated - began)}

    def score(self) -> list[float] | None:
        """How good the policies are: success over the last whole episode of every world, then the return.

        None before every world has had one, and while actions are drawn by chance. Where worlds grow harder, success
        counts as much as the worlds are hard.
        """
        if self._by_chance:
            return None
        last = self.collector.episodes.everywhere(self.shards).last
        if "success_rate" not in last or not bool(last["success_rate"].isfinite().all()):
            return None
        difficulty = self.shards.joined(getattr(self.collector.env, "difficulty", last["success_rate"].new_ones(1)))
        returns = [float(value.mean()) for name, value in last.items() if name.endswith("mean_return")]
        return [float(last["success_rate"].mean() * difficulty.mean()), sum(returns)]

    @property
    def _by_chance(self) -> bool:
        """Whether no policy acts yet, while a replay fills."""
        return any(bool(getattr(policy, "by_chance", False)) for policy in self.algorithm.policies.values())

    @property
    def reached(self) -> bool:
        """Whether the success is shown at which training has to end."""
        return self.cfg.stop_at is not None and self.shown >= self.cfg.stop_at

    def state_dict(self) -> dict[str, Any]:
        """All that the next iteration depends on, of all shards, and what identifies the run."""
        self._check_alike()
        own, *others = self.shards.gather(self._own_state())
        return {
            **own,
            **({"shards": others} if others else {}),
            "run": self.run | {"engines": self.engines},
            "progress": {
                "iteration": self.iteration,
                "agent_steps": self.agent_steps,
                "curve": self.curve,
                "best": self.best,
                "shown": self.shown,
                "looks": self.looks,
            },
            "wall_s": self.wall_s,
            "policies": {
                name: {"spec": policy.spec(), "state": policy.state_dict()}
                for name, policy in self.algorithm.policies.items()
            },
            "algorithm": self.algorithm.state_dict(),
            "made_on": {"engine": self.engine, "device": self.device.type},
        }

    def _check_alike(self) -> None:
        """ValueError where the policies of the shards have learned apart."""
        if self.shards.count == 1:
            return
        policies = self.algorithm.policies.values()
        ours = torch.cat([weights.detach().flatten() for policy in policies for weights in policy.parameters()])
        first, *others = self.shards.gather(ours)
        apart = max(float((weights - first).abs().max()) for weights in others)
        if not apart <= SHARD_TOLERANCE:
            raise ValueError(
                f"algorithm {self.cfg.algo!r}: the policies of its shards are no longer alike (by {apart:.2g}): what "
                "they learn is to be averaged by workers.shards.mean"
            )

    def _own_state(self) -> dict[str, Any]:
        """What each shard has of its own."""
        learned = self.algorithm.state_dict() if self.shards.index else {}
        return {
            **{name: learned[name] for name in OF_A_SHARD if name in learned},
            "generators": {name: generator.get_state() for name, generator in self.generators.items()},
            "collector": self.collector.state_dict(),
            "env": self.collector.env.get_state(),
            "rng": global_rng_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken; CheckpointError when this is another run's checkpoint."""
        to_be_same = None if self.cfg.accept_task_change else self.collector.env.task
        check_same_run(state, self.run, self.algorithm.policies, to_be_same, self.cfg.out)
        source = self.run["algorithm_source"]
        if not self.shards.index and state["run"].get("algorithm_source", source) != source:
            print(f"algorithm {self.cfg.algo}: its module has changed since this run began", file=sys.stderr)
        for name, policy in self.algorithm.policies.items():
            load_weights(policy, state["policies"][name]["state"], name)
        own = state["shards"][self.shards.index - 1] if self.shards.index else state
        learned = dict(state["algorithm"])
        if self.shards.index:
            learned |= {name: own[name] for name in OF_A_SHARD if name in own}
        if self.algorithm.replay is not None:
            self.algorithm.replay.read(self.folder, learned["replay"])
        try:
            self.algorithm.load_state_dict(learned)
        except (KeyError, RuntimeError, TypeError, AttributeError) as error:  # of an algorithm that was changed since
            says = f"cannot resume {self.cfg.out}: {self.cfg.algo} cannot take its state: {one_line(error)}"
            raise CheckpointError(says) from error
        progress, made_on = state["progress"], state["made_on"]
        self.curve = list(progress["curve"])
        self.iteration, self.agent_steps = progress["iteration"], progress["agent_steps"]
        self.best, self.shown, self.looks = progress["best"], progress["shown"], progress["looks"]
        self.wall_s = state["wall_s"]
        self.engines = list(dict.fromkeys([*state["run"]["engines"], self.engine]))
        # What was written when training began, but for how far it goes and what it leaves
        task = ("task_changes", "task_data") if self.cfg.accept_task_change else ()
        self.run = state["run"] | {name: self.run[name] for name in HOW_FAR + LEAVES + task}
        if made_on == {"engine": self.engine, "device": self.device.type}:
            for name, generator in self.generators.items():
                generator.set_state(own["generators"][name])
            self.collector.env.set_state(own["env"])
            self.collector.load_state_dict(own["collector"])
        else:  # no engine can go on where another one stood, nor any generator
            before, now = f"{made_on['engine']} ({made_on['device']})", f"{self.engine} ({self.device.type})"
            print(f"from {before} to {now}: learning goes on, episodes start again", file=sys.stderr)
            index = self.shards.index
            again = make_generators(self.cfg.seed, self.device, self.iteration, index)
            for name, generator in self.generators.items():
                generator.set_state(again[name].get_state())
            seed = seed_of(self.cfg.seed, "environment", self.iteration, index)
            self.collector.restart(seed, own["env"].difficulty)
        restore_global_rng(own["rng"])

    def _group(self, name: str, obs: Any) -> Group:
        """What an algorithm has to know of the group `name`; an environment may have no task."""
        env = self.collector.env
        task, agents = env.task, env.groups[name]
        group = agents.cfg
        network, cfg = self.cfg.hyperparameters(group, f"group {name!r} of task {getattr(task, 'name', '')!r}")
        driven = [scale != 0.0 for scale in group.action.scale] if group is not None else [True] * agents.action_dim
        terms = tuple(group.rewards) if group is not None else ()
        seen = as_first_seen(obs, network.history)
        return Group(seen, tuple(driven), network, cfg, terms, self._mirror(name) if network.symmetric else None)

    def _mirror(self, name: str) -> dict[str, Any]:
        """How the group `name` mirrors, as plain data; ValueError where that is not known."""
        groups = self.collector.env.groups
        if (group := groups[name].cfg) is None:
            raise ValueError(f"network.symmetric: the environment does not state how {name!r} mirrors")
        if group_and_number(name)[1] is not None:
            raise ValueError("network.symmetric with network.independent: one of the two")
        if len(groups) > 1:
            raise ValueError(f"network.symmetric: it is for one kind of robot, and there are {', '.join(groups)}")
        return {part: (list(flip.index), list(flip.sign)) for part, flip in of_group(group).items()}


def _apart(cfg: TrainCfg, env: Any) -> Any:
    """`env` with the robots of those groups apart that are to share no parameters."""
    several = [name for name, seen in env.obs.items() if seen.policy.shape[1] > 1]
    apart = [name for name in several if cfg.hyperparameters(env.groups[name].cfg, name)[0].independent]
    return RobotsApart(env, apart) if apart else env


def _env_of(cfg: TrainCfg, shards: int) -> Any:
    """The environment of one of `shards` that share the worlds."""
    task = changed(load_task(cfg.task) if isinstance(cfg.task, str) else cfg.task, cfg.task_changes)
    collection, machine = cfg.collection, cfg.machine
    options: Any = {
        "shield": cfg.behind_shield(task),
        "curriculum": True,
        "engine": machine.engine or "mujoco",
        "device": machine.device,
    }
    if collection.num_envs % shards:
        raise ValueError(f"num_envs = {collection.num_envs}: wanted a multiple of the {shards} shards")
    return TeamEnv(task, collection.num_envs // shards, cfg.seed, num_agents=collection.num_agents, **options)
