"""Training: rollouts, PPO updates, logs and checkpoints, until the steps or the time are used up."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from policies import ppo
from policies.checkpoint import FILE, CheckpointError, load_checkpoint, restore_global_rng, save_checkpoint
from policies.logs import Logs
from policies.nan_guard import NanGuard
from policies.networks import Actor, Critic
from policies.parallel import Workers, single_threaded_torch
from policies.ppo import PPOCfg
from policies.rollout import Episodes, Rollout

Progress = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class TrainCfg:
    """One training run. The same configuration and seed give the same run, bitwise on a CPU, unless time ends it."""

    task: str = "swarm-swap"
    out: Path = Path("runs/train")  # checkpoint, logs and dumps go here
    num_envs: int = 512
    num_agents: int | None = None  # None: as the task says
    total_steps: int = 4_000_000  # agent steps: control periods x worlds x robots
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


@dataclass(frozen=True)
class TrainResult:
    """What a run came to."""

    path: Path  # checkpoint
    return_curve: list[dict[str, float]]  # one entry an iteration: agent_steps, mean_return, success_rate, ...
    wall_s: float  # of this process, without the start
    env_steps: int  # control periods x worlds, over all processes of the run
    agent_steps: int  # env_steps x robots
    steps_per_s: float  # agent steps/s of this process
    finished: bool  # False: stopped early, go on with `resume`
    message: str


class Trainer:
    """One run in memory: environment, networks, optimiser, counters."""

    def __init__(self, cfg: TrainCfg, env: Any = None) -> None:
        """Builds everything from `cfg.seed`; `env` replaces the environment that `cfg` describes."""
        torch.manual_seed(cfg.seed)
        np.random.seed(cfg.seed % 2**32)
        self.cfg = cfg
        self.env = env if env is not None else _make_env(cfg)
        self.hyper = cfg.ppo or hyperparameters(getattr(self.env, "task", None))
        self.obs = self.env.reset(cfg.seed)
        layout, action_dim, hyper = self.env.obs_layout, self.env.action_dim, self.hyper
        self.actor = Actor(layout, action_dim, hyper.hidden, hyper.peer_embed, hyper.init_std)
        self.critic = Critic(layout, "team" if cfg.team_critic else "own", hyper.hidden, hyper.peer_embed)
        self.optimiser = ppo.make_optimiser(self.actor, self.critic, hyper)
        self.generator = torch.Generator(device=self.obs.device).manual_seed(cfg.seed)
        self.rollout = Rollout(hyper.num_steps, self.obs, action_dim)
        self.episodes = Episodes(running=self.obs.new_zeros(self.obs.shape[0]))
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
        began = time.perf_counter()
        self.obs = self.rollout.collect(
            self.env, self.actor, self.obs, self.generator, self.episodes, self.guard, self.workers
        )
        collected = time.perf_counter()
        samples = self.rollout.samples(self.actor, self.critic, self.obs, self.hyper, self.workers)
        losses = ppo.update(
            self.actor, self.critic, self.optimiser, samples, self.hyper, self.generator, self.workers, fraction
        )
        self.guard.check_update(losses, (("actor", self.actor), ("critic", self.critic)), samples=asdict(samples))
        # Only now: while the samples were taken and learned from, the statistics had to stand still.
        self.actor.normaliser.update(self.rollout.obs)
        updated = time.perf_counter()
        self.iteration += 1
        self.agent_steps += self.steps_per_iteration
        outcome = self.episodes.summary(self.steps_per_iteration)
        self.curve.append({"agent_steps": self.agent_steps, **{k: outcome[k] for k in _CURVE if k in outcome}})
        seconds = {"time/rollout_s": collected - began, "time/update_s": updated - collected}
        return {**losses, **outcome, **seconds, "steps_per_s": self.steps_per_iteration / (updated - began)}

    def state_dict(self) -> dict[str, Any]:
        """All that the next iteration depends on, and what identifies the run."""
        return {
            "config": {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self.cfg).items()},
            "ppo": asdict(self.hyper),
            "layout": [self.env.obs_layout.own_dim, self.env.obs_layout.peer_dim, self.env.action_dim],
            "num_agents": self.obs.shape[1],
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "env": self.env.state_dict(),
            "obs": self.obs,
            "running_return": self.episodes.running,
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
        self.episodes.running = state["running_return"]
        self.curve = list(state["curve"])
        self.iteration, self.agent_steps = state["iteration"], state["agent_steps"]
        restore_global_rng(state["rng"])


_CURVE = ("mean_return", "success_rate", "failure/collision", "episode_steps")


def hyperparameters(task: Any) -> PPOCfg:
    """The defaults with the overrides of a TaskCfg (or None); ValueError names an override that does not exist."""
    overrides = dict(task.ppo) if task is not None else {}
    known = {field.name for field in fields(PPOCfg)}
    unknown = sorted(set(overrides) - known)
    if unknown:
        raise ValueError(f"task {task.name!r} overrides ppo.{unknown[0]}; there are {', '.join(sorted(known))}")
    return replace(PPOCfg(), **overrides)


def train(
    cfg: TrainCfg, on_progress: Progress | None = None, stop: Callable[[], bool] | None = None, env: Any = None
) -> TrainResult:
    """Train until steps or time are used up, `stop()` says so, or Ctrl-C; the checkpoint is always written.

    `on_progress` gets every iteration's numbers. `env` replaces the environment that `cfg` describes.
    """
    trainer = Trainer(cfg, env)
    path = cfg.out / FILE
    if cfg.resume:
        trainer.load_state_dict(load_checkpoint(path))
    elif path.exists():
        raise CheckpointError(f"{path} exists: resume that run, or give another folder")
    logs = Logs(cfg.out)
    began, before = time.perf_counter(), trainer.agent_steps
    try:
        with _interrupt() as interrupted, single_threaded_torch():
            while True:
                wall_s = time.perf_counter() - began
                fraction = _fraction(cfg, trainer.agent_steps, wall_s)
                if fraction >= 1 or interrupted() or (stop is not None and stop()):
                    break
                numbers = trainer.iterate(fraction)
                logs.write(numbers, trainer.agent_steps)
                if trainer.iteration % cfg.checkpoint_every == 0:
                    save_checkpoint(path, trainer.state_dict())
                if on_progress is not None:
                    on_progress(_progress(cfg, trainer, numbers, time.perf_counter() - began))
            save_checkpoint(path, trainer.state_dict())
    finally:
        logs.close()
        trainer.workers.close()
    wall_s = time.perf_counter() - began
    done = fraction >= 1
    message = f"trained {trainer.agent_steps:,} agent steps in {wall_s:.0f} s"
    if not done:
        message = f"stopped at {trainer.agent_steps:,} agent steps; to go on: phalanx train {cfg.task} --out {cfg.out} --resume"
    return TrainResult(
        path=path,
        return_curve=trainer.curve,
        wall_s=wall_s,
        env_steps=trainer.agent_steps // trainer.obs.shape[1],
        agent_steps=trainer.agent_steps,
        steps_per_s=(trainer.agent_steps - before) / max(wall_s, 1e-9),
        finished=done,
        message=message,
    )


def _make_env(cfg: TrainCfg) -> Any:
    from sim.env import make_env

    return make_env(cfg.task, cfg.num_envs, cfg.seed, num_agents=cfg.num_agents, shield=cfg.shield)


def _fraction(cfg: TrainCfg, agent_steps: int, wall_s: float) -> float:
    """How much of the training is over, 0 to 1: by steps or by time, whichever is farther."""
    by_time = wall_s / cfg.wall_budget_s if cfg.wall_budget_s is not None else 0.0
    return min(max(agent_steps / cfg.total_steps, by_time), 1.0)


def _progress(cfg: TrainCfg, trainer: Trainer, numbers: dict[str, float], wall_s: float) -> dict[str, float]:
    fraction = _fraction(cfg, trainer.agent_steps, wall_s)
    counters = {"iteration": trainer.iteration, "agent_steps": trainer.agent_steps, "total_steps": cfg.total_steps}
    return {**numbers, **counters, "fraction": fraction, "wall_s": wall_s}


@contextmanager
def _interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C only sets a flag, so that the iteration ends and is saved; a second one acts as usual."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def on_sigint(number: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, on_sigint)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
