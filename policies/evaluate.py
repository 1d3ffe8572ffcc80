"""How well a policy does: one episode in each of many worlds that training never saw."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deploy.runtime import PolicyRuntime
from policies.controller import Controller
from policies.parallel import single_threaded_torch
from policies.pilot import BundlePilot, Pilot, TorchPilot
from sim.env import make_env
from sim.task import TaskCfg

HELD_OUT_SEED = 1_000_003  # training seeds are small numbers


@dataclass(frozen=True)
class EvalResult:
    """Outcome of `episodes` episodes, one a world. Intervals are Wilson's, at 95 %."""

    episodes: int
    num_agents: int
    shield: bool
    success_rate: float
    success_interval: tuple[float, float]
    collision_rate: float  # episodes in which two robots touched
    collision_interval: tuple[float, float]
    failure_rates: Mapping[str, float]  # each way of failing, of any robot
    min_separation_m: float | None  # least distance between two centres in any episode; None for a team of one
    mean_min_separation_m: float | None  # mean over the episodes
    mean_return: float  # of an episode, mean over the robots
    mean_episode_s: float
    intervention_rate: float  # share of the robots' steps in which the shield changed the command


def evaluate(
    policy: Controller | PolicyRuntime | Pilot | Path | str,
    task: TaskCfg | str,
    num_worlds: int = 256,
    seed: int = HELD_OUT_SEED,
    num_agents: int | None = None,
    shield: bool = False,
    randomise: bool = True,
) -> EvalResult:
    """Fly one episode in each of `num_worlds` worlds started from `seed`.

    `policy` is a controller, a policy file or its path. Raises ValueError for an unknown task or a bad file.
    """
    env = make_env(task, num_worlds, seed, num_agents=num_agents, shield=shield, randomise=randomise)
    return fly(make_pilot(policy), env)


def make_pilot(policy: Controller | PolicyRuntime | Pilot | Path | str) -> Pilot:
    """Whoever flies `policy`."""
    if isinstance(policy, Controller):
        return TorchPilot(policy)
    if isinstance(policy, Path | str):
        policy = PolicyRuntime.load(policy)
    return BundlePilot(policy) if isinstance(policy, PolicyRuntime) else policy


@single_threaded_torch()
def fly(pilot: Pilot, env: Any) -> EvalResult:
    """The first episode of every world of a freshly started `env`."""
    pilot.start(env)
    open_worlds = torch.ones(env.num_worlds, dtype=torch.bool)
    total = torch.zeros(env.num_worlds)
    ended_with: dict[str, Tensor] = {}
    while open_worlds.any():
        _, reward, terminated, truncated, info = env.step(pilot.act(env)[0])
        total += reward.mean(-1) * open_worlds
        ends = open_worlds & (terminated | truncated).any(-1)
        if ends.any():
            for name, value in _outcomes(info).items():
                ended_with.setdefault(name, torch.zeros(env.num_worlds))[ends] = value[ends].float()
        open_worlds &= ~ends
    return _summary(env, ended_with, total)


def _outcomes(info: Mapping[str, Any]) -> dict[str, Tensor]:
    """What each world's episode came to, (W,) each; meaningful where it ended."""
    kept = {name: info[name] for name in ("success", "min_separation_m", "episode_length", "interventions")}
    return kept | {f"failure/{name}": failed.any(-1) for name, failed in info["failures"].items()}


def _summary(env: Any, worlds: Mapping[str, Tensor], total: Tensor) -> EvalResult:
    count = env.num_worlds
    failures = {name.removeprefix("failure/"): v for name, v in worlds.items() if name.startswith("failure/")}
    collisions = failures.get("collision", torch.zeros(count))
    steps = worlds["episode_length"]
    return EvalResult(
        episodes=count,
        num_agents=env.num_agents,
        shield=env.shield is not None,
        success_rate=float(worlds["success"].mean()),
        success_interval=wilson(int(worlds["success"].sum()), count),
        collision_rate=float(collisions.mean()),
        collision_interval=wilson(int(collisions.sum()), count),
        failure_rates={name: float(value.mean()) for name, value in failures.items()},
        min_separation_m=float(worlds["min_separation_m"].min()) if env.num_agents > 1 else None,
        mean_min_separation_m=float(worlds["min_separation_m"].mean()) if env.num_agents > 1 else None,
        mean_return=float(total.mean()),
        mean_episode_s=float(steps.mean()) * env.control_dt,
        intervention_rate=float(worlds["interventions"].sum() / (steps.sum() * env.num_agents)),
    )


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a rate."""
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)
