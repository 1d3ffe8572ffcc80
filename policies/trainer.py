"""One training run in memory: environment, networks, optimiser and counters, and all of it as a state to save."""

import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from policies import ppo
from policies.checkpoint import CheckpointError, restore_global_rng
from policies.nan_guard import NanGuard
from policies.networks import Actor, Critic
from policies.parallel import Workers, single_threaded_torch
from policies.ppo import PPOCfg
from policies.rollout import Episodes, Rollout
from sim.env import make_env

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
    checkpoint_every: int = 10  # iterations
    ppo: PPOCfg | None = None  # None: the defaults with the task's overrides

    def __post_init__(self) -> None:
        for name in ("num_envs", "total_steps", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: at least 1")
        if self.wall_budget_s is not None and self.wall_budget_s <= 0:
            raise ValueError(f"wall_budget_s = {self.wall_budget_s}: above 0, or none")


class Trainer:
    """One run in memory: environment, networks, optimiser, counters."""

    def __init__(self, cfg: TrainCfg, env: Any = None) -> None:
        """Builds everything from `cfg.seed`; `env` replaces the environment that `cfg` describes."""
        torch.manual_seed(cfg.seed)
        np.random.seed(cfg.seed % 2**32)
        self.cfg = cfg
        self.env = env if env is not None else _env_of(cfg)
        self.hyper = cfg.ppo or hyperparameters(getattr(self.env, "task", None))
        self.obs = self.env.reset(cfg.seed)
        self.env.stagger()
        layout, action_dim, hyper = self.env.obs_layout, self.env.action_dim, self.hyper
        driven = _driven(getattr(self.env, "task", None))
        self.actor = Actor(layout, action_dim, hyper.hidden, hyper.peer_embed, hyper.init_std, driven)
        self.critic = Critic(layout, "team" if cfg.team_critic else "own", hyper.hidden, hyper.peer_embed)
        self.optimiser = ppo.make_optimiser(self.actor, self.critic, hyper)
        self.generator = torch.Generator(device=self.obs.device).manual_seed(cfg.seed)
        self.rollout = Rollout(hyper.num_steps, self.obs, action_dim)
        worlds = self.obs.shape[0]
        self.episodes = Episodes(self.obs.new_zeros(worlds), torch.zeros(worlds, dtype=torch.bool))
        self.guard = NanGuard(cfg.out)
        self.workers = Workers(hyper.threads)
        self.curve: list[dict[str, float]] = []
        self.iteration = self.agent_steps = 0

    @property
    def steps_per_iteration(self) -> int:
        """Agent steps of one rollout."""
        return self.rollout.log_prob.numel()

    def iterate(self, fraction: float) -> dict[str, float]:
        """One rollout and one update; `fraction` of the training is over. Returns the iteration's numbers."""
        with single_threaded_torch():
            return self._iterate(fraction)

    def _iterate(self, fraction: float) -> dict[str, float]:
        began = time.perf_counter()
        args = (self.env, self.actor, self.obs, self.generator, self.episodes, self.guard, self.workers)
        self.obs = self.rollout.collect(*args)
        collected = time.perf_counter()
        samples = self.rollout.samples(self.actor, self.critic, self.obs, self.hyper, self.workers)
        losses = ppo.update(
            self.actor, self.critic, self.optimiser, samples, self.hyper, self.generator, self.workers, fraction
        )
        seen = {name: getattr(self.rollout, name) for name in ("obs", "action", "log_prob", "reward")}
        self.guard.check_update(losses, (("actor", self.actor), ("critic", self.critic)), **seen)
        # Only now: while the samples were taken and learned from, the statistics had to stand still.
        self.actor.normaliser.update(self.rollout.obs)
        updated = time.perf_counter()
        self.iteration += 1
        self.agent_steps += self.steps_per_iteration
        outcome = self.episodes.summary(self.steps_per_iteration)
        self.curve.append({"agent_steps": self.agent_steps, **{k: outcome[k] for k in CURVE if k in outcome}})
        seconds = {"time/rollout_s": collected - began, "time/update_s": updated - collected}
        return {**losses, **outcome, **seconds, "steps_per_s": self.steps_per_iteration / (updated - began)}

    def state_dict(self) -> dict[str, Any]:
        """All that the next iteration depends on, and what identifies the run."""
        return {
            "config": {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self.cfg).items()},
            "ppo": asdict(self.hyper),
            "layout": asdict(self.env.obs_layout),
            "action_dim": self.env.action_dim,
            "num_agents": self.obs.shape[1],
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "env": self.env.state_dict(),
            "obs": self.obs,
            "episodes": [self.episodes.running, self.episodes.whole],
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
        if state["ppo"] != asdict(self.hyper):
            changed = [k for k, v in asdict(self.hyper).items() if state["ppo"].get(k) != v]
            raise CheckpointError(f"cannot resume with other hyperparameters: {', '.join(changed)} differ")
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.env.load_state_dict(state["env"])
        self.obs = state["obs"]
        self.episodes.running, self.episodes.whole = state["episodes"]
        self.curve = list(state["curve"])
        self.iteration, self.agent_steps = state["iteration"], state["agent_steps"]
        restore_global_rng(state["rng"])


def hyperparameters(task: Any) -> PPOCfg:
    """The defaults with the overrides of a TaskCfg (or None); ValueError names an override that does not exist."""
    overrides = dict(task.ppo) if task is not None else {}
    known = {field.name for field in fields(PPOCfg)}
    unknown = sorted(set(overrides) - known)
    if unknown:
        raise ValueError(f"task {task.name!r} overrides ppo.{unknown[0]}; there are {', '.join(sorted(known))}")
    return replace(PPOCfg(), **overrides)


def _driven(task: Any) -> list[bool] | None:
    """Which components of the action move anything: a task holds the others still by a scale of zero."""
    return [scale != 0.0 for scale in task.action.scale] if task is not None else None


def _env_of(cfg: TrainCfg) -> Any:
    return make_env(cfg.task, cfg.num_envs, cfg.seed, num_agents=cfg.num_agents, shield=cfg.shield, curriculum=True)
