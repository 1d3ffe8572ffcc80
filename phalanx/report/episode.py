"""One episode, recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phalanx.report import Event, Flight
from phalanx.report.filming import film_and_charts
from phalanx.report.places import collision_distance, robot_labels
from policies.evaluation.policy_runner import PolicyRunner, TeamRunner, robots_flown
from policies.threads import single_threaded_torch
from sim.envs.team_env import TeamEnv
from sim.task import TaskCfg


@dataclass(frozen=True, slots=True)
class Episode:
    """How it went, and the flight."""

    flight: Flight
    qpos: np.ndarray  # (T, nq) coordinates of the task's scene, the last state of the episode included
    success: bool
    failure: str  # name of the failure, "" without one
    mean_return: float
    reward_terms: dict[str, float]  # sum over the episode, mean over the robots
    duration_s: float
    robots: tuple[str, ...]  # specification of each
    flies: bool
    num_agents: int | None  # with which the task's scene was made; None where its groups have sizes of their own
    ground: np.ndarray | None = None  # nodes of the scene's height field, if it has one


@single_threaded_torch()
@torch.inference_mode()
def play_episode(
    task: TaskCfg, runners: Mapping[str, PolicyRunner], num_agents: int | None, seed: int, shield: bool
) -> Episode:
    """Let `runners`, one for each group, act for one episode of `task` with randomisation on, until it ends.

    `num_agents` None: as many as they were trained with, where each robot has its own; else that of the task.
    """
    num_agents = robots_flown(task.groups, runners) if num_agents is None else num_agents
    env = _OneEpisode(task, 1, seed, num_agents, shield)
    groups = env.groups
    team = TeamRunner(runners)
    team.start(env)
    ground = ground_of(env)
    columns = torch.arange(env.world.scene.model.nq)
    qpos, pos, commanded = [], [], []

    def look() -> None:
        qpos.append(env.world.physics.now(columns)[0].numpy().astype(float))
        pos.append(_robots({name: group.robots.truth().base_pos for name, group in groups.items()}))
        commanded.append({name: _arrays(group.command) for name, group in groups.items()})

    look()
    mode, terms, total, ended = [], [], 0.0, False
    while not ended:
        before = _shielded(env)
        step = team.fly(env)
        total += float(_robots(step.reward).mean())
        terms.append(_named(step.reward_terms))
        mode.append((_shielded(env) - before).clip(0, 1))
        ended = bool(step.ended[0])
        look()
    if env.unstable is not None:  # that world is at a new start already: what was before stands for it
        qpos[-1], pos[-1] = qpos[-2], pos[-2]
    mode.insert(0, np.zeros_like(mode[0]))  # a moment shows the step that led to it: none did to the first
    terms.insert(0, dict.fromkeys(terms[0], 0.0))
    failures = {name: float(hit) for name, hit in _named(step.terminations).items() if hit}
    failed = np.flatnonzero(_robots(step.terminated)).tolist()
    failure = next(iter(failures), "")
    robots = tuple(group.robot.name for group in groups.values() for _ in range(group.num_agents))
    names = robot_labels(robots)
    t = np.arange(len(pos)) * env.control_dt
    film, charts = film_and_charts(task, num_agents, np.array(qpos), t, names, commanded, ground)
    own = [marker.pos[0] for marker in film.markers if marker.owner >= 0]
    flight = Flight(
        names=names,
        t=t,
        pos=np.array(pos),
        goal=np.array(own) if len(own) == len(names) else np.zeros((0, 3)),
        limit_m=collision_distance(task),
        radius_m=max(group.robot.radius_m for group in groups.values()),
        mode=np.array(mode),
        mode_names=("NOMINAL", "FILTERED") if shield else (),
        intervention=np.array(mode, dtype=float),
        events=tuple(Event(float(t[-1]), names[k], "kill", failure) for k in failed if failure),
        control_period_ms=1e3 * env.control_dt,
        film=film,
        rewards={name: np.array([row[name] for row in terms]) for name in terms[0]},
        charts=charts,
    )
    return Episode(
        flight=flight,
        qpos=np.array(qpos),
        success=bool(step.success[0]),
        failure=failure,
        mean_return=total,
        reward_terms={name: float(values.sum()) for name, values in flight.rewards.items()},
        duration_s=float(t[-1]),
        robots=robots,
        flies=any(group.robot.kind == "drone" for group in groups.values()),
        num_agents=num_agents,
        ground=ground,
    )


def ground_of(env: TeamEnv) -> np.ndarray | None:
    """Heights (nodes,) of the height field of the only world, 0 to 1 as MuJoCo keeps them; None for a plain floor."""
    grounds = [group.robots.ground for group in env.groups.values()]
    return None if grounds[0] is None else grounds[0].shares(torch.tensor([0]))[0].numpy()


class _OneEpisode(TeamEnv):
    """The world stays as it was when the episode ended, to be looked at."""

    def _renew(self, success: torch.Tensor, worlds: torch.Tensor) -> None:
        pass


def _robots(values: Mapping[str, torch.Tensor]) -> np.ndarray:
    """(N, ...) of the only world, the groups one after the other."""
    return np.concatenate([value[0].numpy().copy() for value in values.values()])


def _shielded(env: Any) -> np.ndarray:
    """(N,) how often the shield has intervened in this episode."""
    return _robots({name: group.shielded for name, group in env.groups.items()})


def _arrays(values: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Values (N, ...) of the only world, by name."""
    return {name: value[0].numpy().astype(float) for name, value in values.items()}


def _named(values: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, float]:
    """Means over the robots of a group; the group is in the name where there are several."""
    return {
        f"{group}/{name}" if len(values) > 1 else name: float(value.float().mean())
        for group, part in values.items()
        for name, value in part.items()
    }
