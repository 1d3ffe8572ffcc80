"""How well a policy does: one episode in each of many worlds that training never saw."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from deploy.bundle import Bundle
from deploy.contract import Contract
from deploy.runtime import PolicyRuntime
from policies.evaluation.policy_runner import BundleRunner, PolicyRunner, TeamRunner, TorchRunner, robots_flown
from policies.networks.controller import Controller
from policies.threads import single_threaded_torch
from sim.envs.state import EnvStep
from sim.envs.team_env import TeamEnv
from sim.physics import on
from sim.physics.engine_errors import engine_errors
from sim.task import TaskCfg
from sim.tasks import load_task

Policy = Controller | PolicyRuntime | PolicyRunner | Path | str
HELD_OUT_SEED = 1_000_003  # training seeds are small numbers
Z = NormalDist().inv_cdf(0.975)  # of an interval of 95 %


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
    failure_rates: Mapping[str, float]  # each way of failing, of any robot; GROUP/ before it where there are several
    min_separation_m: float | None  # least distance between two centres in any episode; None for a team of one
    mean_min_separation_m: float | None  # mean over the episodes
    mean_return: float  # of an episode, mean over the robots
    mean_episode_s: float
    intervention_rate: float  # share of the robots' steps in which the shield changed the command
    corrected_by: Mapping[str, float]  # the same for the rows of each kind, most first; one step may be of several


def evaluate(
    policy: Policy | Mapping[str, Policy],
    task: TaskCfg | str,
    num_worlds: int = 256,
    seed: int = HELD_OUT_SEED,
    num_agents: int | None = None,
    shield: bool = False,
    randomise: bool = True,
    engine: str = "mujoco",
    device: str | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> EvalResult:
    """Fly one episode in each of `num_worlds` worlds started from `seed`, on a physics engine of `make_physics`.

    `policy` is a controller, a policy file or its path; for a task with several groups, or robots that share none, a
    dict with one for each.
    `on_step` hears of every control step. Raises ValueError for an unknown task, groups that are missing, a bad file
    or an engine that cannot do it.
    """
    cfg = load_task(task) if isinstance(task, str) else task
    if not isinstance(policy, Mapping):
        if len(cfg.groups) > 1:
            raise ValueError(f"task {cfg.name!r} needs a policy for each of its groups: {', '.join(cfg.groups)}")
        policy = {cfg.group_name: policy}
    team = TeamRunner({group: make_policy_runner(part) for group, part in policy.items()})
    num_agents = robots_flown(cfg.groups, team.runners) if num_agents is None else num_agents
    with engine_errors(engine, num_worlds, device):
        env = TeamEnv(cfg, num_worlds, seed, num_agents, shield, randomise, engine=engine, device=device)
        # What nothing is learned from takes a sixth less time where no tensor keeps count of its changes
        with single_threaded_torch(), torch.inference_mode(), on(env.device):
            return fly(team, env, on_step)


def make_policy_runner(policy: Policy) -> PolicyRunner:
    """What flies `policy`."""
    if isinstance(policy, Controller):
        return TorchRunner(policy)
    if isinstance(policy, Path | str):
        policy = PolicyRuntime.load(policy)
    return BundleRunner(policy) if isinstance(policy, PolicyRuntime) else policy


def load_team(files: Iterable[Path | str | Bundle]) -> tuple[str, dict[str, PolicyRuntime]]:
    """The task of policy files, and each one's runtime by its group: what `evaluate` takes, if groups are several.

    ValueError unless they are all of one task, each of another group; BundleError for a bad file.
    """
    team: dict[str, PolicyRuntime] = {}
    task = ""
    for file in files:
        runtime = PolicyRuntime(file) if isinstance(file, Bundle) else PolicyRuntime.load(file)
        contract = runtime.contract
        if task and contract.task != task:
            both = " and ".join(sorted((task, contract.task)))
            raise ValueError(f"policies for {both}: policies of different tasks cannot be combined")
        if group_of(contract) in team:
            whose = f"group {contract.group!r} of {contract.task!r}" if contract.group else repr(contract.task)
            raise ValueError(f"there are two policies for {whose}")
        task, team[group_of(contract)] = contract.task, runtime
    if not team:
        raise ValueError("which policies? give a file for each group")
    return task, team


def group_of(contract: Contract) -> str:
    """The group, or the robot of one, whose policy a file is: like robots are a group named after their robot."""
    return contract.group or contract.robot.name


def fly(team: TeamRunner, env: TeamEnv, on_step: Callable[[], None] = lambda: None) -> EvalResult:
    """The first episode of every world of a freshly started `env`; `on_step` hears of every control step."""
    corrected: Counter[str] = Counter()
    return _summary(env, *fly_worlds(team, env, on_step, corrected), corrected)


def fly_worlds(
    team: TeamRunner,
    env: TeamEnv,
    on_step: Callable[[], None] = lambda: None,
    corrected: Counter[str] | None = None,
) -> tuple[dict[str, Tensor], Tensor]:
    """Of the first episode of every world of a freshly started `env`: its outcomes by name, and its return, (W,) each.

    `on_step` hears of every control step; `corrected` counts those of a robot that rows of each kind changed.
    """
    team.start(env)
    open_worlds = torch.ones(env.num_envs, dtype=torch.bool)
    total = torch.zeros(env.num_envs)
    ended_with: dict[str, Tensor] = {}
    while open_worlds.any():
        step = team.fly(env)
        total += torch.cat(list(step.reward.values()), dim=1).mean(-1) * open_worlds
        if corrected is not None:
            for group in env.groups.values():
                corrected.update({kind: int(held[open_worlds].sum()) for kind, held in group.held_back().items()})
        ends = open_worlds & step.ended
        if ends.any():
            for name, value in _outcomes(step).items():
                ended_with.setdefault(name, torch.zeros(env.num_envs))[ends] = value[ends].float()
        open_worlds &= ~ends
        on_step()
    return ended_with, total


def _outcomes(step: EnvStep) -> dict[str, Tensor]:
    """What each world's episode came to, (W,) each; meaningful where it ended."""
    kept = {name: getattr(step, name) for name in ("success", "min_separation_m", "episode_length", "interventions")}
    many = len(step.terminations) > 1
    return kept | {
        f"failure/{group}/{way}" if many else f"failure/{way}": failed.any(-1)
        for group, ways in step.terminations.items()
        for way, failed in ways.items()
    }


def _summary(env: Any, worlds: Mapping[str, Tensor], total: Tensor, corrected: Counter[str]) -> EvalResult:
    count, groups = env.num_envs, list(env.groups.values())
    robots = sum(group.num_agents for group in groups)
    failures = {name.removeprefix("failure/"): v for name, v in worlds.items() if name.startswith("failure/")}
    collisions = torch.zeros(count)
    for name, value in failures.items():
        if name.rpartition("/")[2] == "collision":
            collisions = torch.maximum(collisions, value)
    steps, separation = worlds["episode_length"], worlds["min_separation_m"]
    robot_steps = float(steps.sum()) * robots
    return EvalResult(
        episodes=count,
        num_agents=robots,
        shield=any(group.shield is not None for group in groups),
        success_rate=float(worlds["success"].mean()),
        success_interval=wilson(int(worlds["success"].sum()), count),
        collision_rate=float(collisions.mean()),
        collision_interval=wilson(int(collisions.sum()), count),
        failure_rates={name: float(value.mean()) for name, value in failures.items()},
        min_separation_m=float(separation.min()) if separation.isfinite().all() else None,
        mean_min_separation_m=float(separation.mean()) if separation.isfinite().all() else None,
        mean_return=float(total.mean()),
        mean_episode_s=float(steps.mean()) * env.control_dt,
        intervention_rate=float(worlds["interventions"].sum()) / robot_steps,
        corrected_by={kind: count / robot_steps for kind, count in corrected.most_common() if count},
    )


def starts_for(min_success: float) -> int:
    """Held-out starts that can show a success of `min_success`, even with a failure or two: 256, or more near 1."""
    return max(256, 2 * fewest_for(min_success)) if min_success < 1 else 256


def fewest_for(min_success: float) -> int:
    """Starts that show a success of `min_success`, which is less than 1, when all of them succeed."""
    return max(1, ceil(Z**2 * min_success / (1 - min_success)))


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a rate."""
    share, width = successes / trials, Z**2 / trials
    half = Z * sqrt(share * (1.0 - share) / trials + width / (4.0 * trials))
    low, high = ((share + width / 2.0 + side) / (1.0 + width) for side in (-half, half))
    return 0.0 if successes == 0 else low, 1.0 if successes == trials else high
