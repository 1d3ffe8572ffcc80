"""One training run in memory: environment, a learner for each role, counters, and all of it as a state to save."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from policies.algorithms.ppo import PPOCfg
from policies.checkpoint import CheckpointError, load_checkpoint, restore_global_rng
from policies.threads import Workers, single_threaded_torch
from policies.training.learner import Learner, hyperparameters, role_of, together
from policies.training.nan_guard import NanGuard
from policies.training.roles import OF_A_ROLE, by_role
from sim.envs.team_env import MixedEnv, make_env
from sim.physics import TraceablePhysics, on
from sim.task import GroupCfg, MixedTaskCfg
from sim.tasks import load_any_task
from sim.tree import on_tensors

if TYPE_CHECKING:
    from policies.training.jitted import JittedRollout

Tensors = Mapping[str, torch.Tensor]
CURVE = ("mean_return", "success_rate", "failure/collision", "episode_steps")  # what a learning curve keeps


@dataclass(frozen=True)
class TrainCfg:
    """One training run. The same configuration and seed give the same run, bitwise on a CPU, unless time ends it."""

    task: str = "swarm-swap"
    out: Path = Path("runs/train")  # checkpoint, logs and dumps go here
    num_envs: int = 512
    num_agents: int | None = None  # None: as the task says
    total_steps: int = 2_000_000  # agent steps: control periods x worlds x robots
    wall_budget_s: float | None = None  # ends training earlier; annealing then follows the time
    seed: int = 0
    team_critic: bool = False  # MAPPO: the critic sees the whole team; else IPPO
    shield: bool = False  # train behind the safety filter
    resume: bool = False  # go on from the checkpoint in `out`
    start_from: Path | None = None  # run, or checkpoint, of a task alike: its networks are what learning begins with
    engine: str | None = None  # see `sim.physics.make_physics`; None: that of the run that is resumed, else "mujoco"
    device: str | None = None  # of physics and learning: "cpu", "cuda", or None for what the engine runs best on
    checkpoint_every: int = 10  # iterations
    ppo: PPOCfg | None = None  # None: the defaults with the task's overrides

    def __post_init__(self) -> None:
        for name in ("num_envs", "total_steps", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: at least 1")
        if self.wall_budget_s is not None and self.wall_budget_s <= 0:
            raise ValueError(f"wall_budget_s = {self.wall_budget_s}: above 0, or none")


class Trainer:
    """One run in memory: environment, a learner for each role, counters."""

    def __init__(self, cfg: TrainCfg, env: Any = None) -> None:
        """Builds everything from `cfg.seed`; `env` replaces the environment that `cfg` describes."""
        torch.manual_seed(cfg.seed)
        np.random.seed(cfg.seed % 2**32)
        self.cfg = cfg
        self.engine = cfg.engine or "mujoco"
        self.engines = [self.engine]  # all that the run has seen
        self.env = by_role(env if env is not None else _env_of(cfg))
        self.obs = self.env.reset(cfg.seed)
        self.env.stagger()
        self.device = next(iter(self.obs.values())).device
        with on(self.device):
            self.learners = {
                name: Learner(name, self.env.groups[name], obs, *self._role(name), cfg.team_critic)
                for name, obs in self.obs.items()
            }
        if cfg.start_from is not None and not cfg.resume:  # a resumed run has networks of its own
            self._take_networks(cfg.start_from)
        self.hyper = _common(self.learners)
        self.generator = torch.Generator(device=self.device).manual_seed(cfg.seed)
        self.guard = NanGuard(cfg.out)
        # An accelerator has threads enough, and those of the CPU would make their tensors elsewhere
        self.workers = Workers(self.hyper.threads if self.device.type == "cpu" else 1)
        self.curve: list[dict[str, float]] = []
        self.iteration = self.agent_steps = 0

    @property
    def learner(self) -> Learner:
        """The only learner, where robots are all alike."""
        (learner,) = self.learners.values()
        return learner

    @property
    def steps_per_iteration(self) -> int:
        """Agent steps of one rollout, of all roles."""
        return sum(learner.steps for learner in self.learners.values())

    @property
    def num_robots(self) -> int:
        """Robots of a world, of all roles."""
        return sum(obs.shape[1] for obs in self.obs.values())

    def iterate(self, fraction: float) -> dict[str, float]:
        """One rollout and one update; `fraction` of the training is over. Returns the iteration's numbers."""
        with single_threaded_torch(), on(self.device):
            return self._iterate(fraction)

    def _iterate(self, fraction: float) -> dict[str, float]:
        began = time.perf_counter()
        self._collect()
        collected = time.perf_counter()
        losses = {
            name: learner.learn(self.obs[name], self.generator, self.guard, self.workers, fraction)
            for name, learner in self.learners.items()
        }
        updated = time.perf_counter()
        self.iteration += 1
        self.agent_steps += self.steps_per_iteration
        outcome = together({n: learner.episodes.summary(learner.steps) for n, learner in self.learners.items()})
        if len(self.learners) > 1 and "success_rate" in outcome:
            shares = [(self.obs[n].shape[1] / self.num_robots, outcome[f"{n}/mean_return"]) for n in self.learners]
            outcome["mean_return"] = sum(share * value for share, value in shares)
        kept = {name: value for name, value in outcome.items() if {name, name.partition("/")[2]} & set(CURVE)}
        self.curve.append({"agent_steps": self.agent_steps, **kept})
        seconds = {"time/rollout_s": collected - began, "time/update_s": updated - collected}
        rate = {"steps_per_s": self.steps_per_iteration / (updated - began)}
        return {**together(losses), **outcome, **seconds, **rate}

    def _collect(self) -> None:
        """Fill every learner's rollout; the world steps once for all of them."""
        for learner in self.learners.values():
            learner.rollout.terminal_obs.clear()
            learner.episodes.clear()
        if self.jitted is None:
            for t in range(self.hyper.num_steps):
                actions = {
                    name: learner.rollout.act(t, learner.actor, self.obs[name], self.generator, self.workers)
                    for name, learner in self.learners.items()
                }
                self.obs, *outcome = self.env.step(actions)
                self._keep(t, self.obs, actions, outcome)
            return
        for t, (seen, done, *outcome) in enumerate(self.jitted.steps(self.generator)):
            for name, learner in self.learners.items():
                learner.rollout.done(t, seen[name], *done[name])
            self._keep(t, seen, {name: action for name, (action, _) in done.items()}, outcome)
        self.obs = self.env.obs

    @cached_property
    def jitted(self) -> "JittedRollout | None":
        """Rollouts as one program, where engine and task can have that; compiled when first asked for."""
        physics = getattr(getattr(self.env, "world", None), "physics", None)
        if not isinstance(physics, TraceablePhysics):
            return None
        from policies.training.jitted import jitted_rollout  # needs JAX

        return jitted_rollout(self.env, self.learners, self.hyper.num_steps)

    def _keep(self, t: int, obs: Tensors, actions: Tensors, outcome: Sequence[Any]) -> None:
        """The `outcome` of step `t` for every learner: reward, terminated, truncated, info; `obs` is looked through."""
        reward, terminated, truncated, info = outcome
        for name, learner in self.learners.items():
            own = {**info, **{key: info[key][name] for key in OF_A_ROLE}}
            self.guard.check_step(self.env, obs[name], reward[name], own, actions[name], name)
            ended = learner.rollout.keep(t, reward[name], terminated[name], truncated[name], own["terminal_obs"])
            learner.episodes.add(reward[name], ended, own)

    def state_dict(self) -> dict[str, Any]:
        """All that the next iteration depends on, and what identifies the run."""
        return {
            "config": {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self.cfg).items()},
            "num_agents": self.num_robots,
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "generator": self.generator.get_state(),
            "device": self.device.type,
            "engine": self.engine,
            "engines": self.engines,
            "env": self.env.state_dict(),
            "obs": self.obs,
            "curve": self.curve,
            "iteration": self.iteration,
            "agent_steps": self.agent_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken; CheckpointError when this is another run's checkpoint."""
        for name in ("task", "num_envs", "num_agents", "team_critic", "shield", "seed"):
            saved, asked = state["config"][name], getattr(self.cfg, name)
            if saved != asked:
                raise CheckpointError(f"cannot resume with {name} = {asked!r}: the checkpoint was made with {saved!r}")
        if not isinstance(state["obs"], Mapping):
            raise CheckpointError("the checkpoint is of an earlier version, which can be exported but not resumed")
        if state["learners"].keys() != self.learners.keys():
            saved, asked = (", ".join(names) for names in (state["learners"], self.learners))
            raise CheckpointError(f"cannot resume with roles {asked}: the checkpoint was made with {saved}")
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
        self.curve = list(state["curve"])
        self.iteration, self.agent_steps = state["iteration"], state["agent_steps"]
        before, device = made_on(state), state.get("device", "cpu")
        self.engines = list(dict.fromkeys([*state.get("engines", [before]), self.engine]))
        if (before, device) == (self.engine, self.device.type):
            self.generator.set_state(state["generator"])
            self.env.load_state_dict(state["env"])
            self.obs = on_tensors(lambda tensor: tensor.to(self.device), state["obs"])
        else:  # no engine can go on where another one stood, nor any generator
            now = f"{self.engine} ({self.device.type})"
            print(f"from {before} ({device}) to {now}: learning goes on, episodes start anew", file=sys.stderr)
            self.generator.manual_seed(self.cfg.seed + self.iteration)
            self.obs = self.env.reset(self.cfg.seed + self.iteration, difficulty=state["env"]["difficulty"])
            self.env.stagger()
            for learner in self.learners.values():
                learner.episodes.running.zero_()
        restore_global_rng(state["rng"])

    def _take_networks(self, path: Path) -> None:
        """Begin with the networks of another run; CheckpointError where they do not fit."""
        learners = load_checkpoint(path)["learners"]
        for name, learner in self.learners.items():
            if name not in learners:
                has = ", ".join(filter(None, learners)) or "one for robots that are all alike"
                raise CheckpointError(f"{path} has no policy for {name!r} of task {self.cfg.task!r}, but {has}")
            learner.take_networks(learners[name], path)

    def _role(self, name: str) -> tuple[GroupCfg | None, PPOCfg]:
        """What the role `name` has to do, None in an environment without a task, and how it learns that."""
        task = getattr(self.env, "task", None)
        role = role_of(task, name) if task is not None else None
        owner = f"task {getattr(task, 'name', '')!r}"
        return role, self.cfg.ppo or hyperparameters(role, f"role {name!r} of {owner}" if name else owner)


def made_on(checkpoint: Mapping[str, Any]) -> str:
    """The engine that a checkpoint was made on."""
    return checkpoint.get("engine") or checkpoint["config"].get("engine") or "mujoco"


def _common(learners: Mapping[str, Learner]) -> PPOCfg:
    """Hyperparameters of any role; ValueError where roles differ in what only the whole team can have."""
    first, *others = (learner.hyper for learner in learners.values())
    for name in ("num_steps", "threads"):
        if any(getattr(other, name) != getattr(first, name) for other in others):
            raise ValueError(f"roles {', '.join(learners)} differ in ppo.{name}: they share one rollout")
    return first


def _env_of(cfg: TrainCfg) -> Any:
    task = load_any_task(cfg.task)
    options: Any = {"shield": cfg.shield, "curriculum": True, "engine": cfg.engine or "mujoco", "device": cfg.device}
    if isinstance(task, MixedTaskCfg):
        if cfg.num_agents is not None:
            raise ValueError(f"task {task.name!r} has several roles: their numbers of robots are the task's")
        return MixedEnv(task, cfg.num_envs, cfg.seed, **options)
    return make_env(task, cfg.num_envs, cfg.seed, num_agents=cfg.num_agents, **options)
