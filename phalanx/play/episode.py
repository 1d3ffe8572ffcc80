"""One episode, recorded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phalanx.play.filming import make_film, visual_scene
from phalanx.report import Event, Flight, Marker
from policies.parallel import single_threaded_torch
from policies.pilot import Pilot
from sim.env import TeamEnv
from sim.task import TaskCfg
from sim.tasks import load_task
from sim.terms import terminations

SHORT = {"crazyflie": "cf"}  # as robots are called in a team


@dataclass(frozen=True, slots=True)
class Episode:
    """How it went, and the flight."""

    flight: Flight
    qpos: np.ndarray  # (T, nq) coordinates of the task's scene
    success: bool
    failure: str  # name of the failure, "" without one
    mean_return: float
    reward_terms: dict[str, float]  # sum over the episode, mean over the robots
    duration_s: float
    flies: bool


@single_threaded_torch()
def play_episode(task: str, pilot: Pilot, num_agents: int | None, seed: int, shield: bool) -> Episode:
    """Let `pilot` act for one episode of `task` with randomisation on, until it ends."""
    cfg = load_task(task)
    env = TeamEnv(cfg, 1, seed, num_agents, shield)
    pilot.start(env)
    columns = torch.arange(env.world.scene.model.nq)
    qpos, pos, mode, told, rewards = [], [], [], [], []
    total, filtered = 0.0, env.shielded.clone()
    while True:
        qpos.append(env.world.physics.now(columns)[0].numpy().astype(float))
        pos.append(env.world.truth().base_pos[0].numpy().astype(float))
        told.append({name: value[0].numpy().astype(float) for name, value in env.command.items()})
        _, reward, terminated, truncated, info = env.step(pilot.act(env)[0])
        ended = bool((terminated | truncated).any())
        intervened = (info["interventions"] if ended else env.shielded.sum(-1)) - filtered.sum(-1)
        mode.append(_modes(env, filtered, int(intervened[0]), ended))
        filtered = env.shielded.clone()
        total += float(reward.mean())
        rewards.append({name: float(value.mean()) for name, value in info["reward_terms"].items()})
        if ended:
            break
    failure = next((name for name, hit in info["failures"].items() if bool(hit.any())), "")
    t = np.arange(len(pos)) * env.control_dt
    names = robot_labels(env.robot.name, env.num_agents)
    flight = Flight(
        names=names,
        t=t,
        pos=np.array(pos),
        goal=_goals(cfg, told),
        limit_m=collision_distance(cfg),
        radius_m=env.robot.radius_m,
        mode=np.array(mode),
        mode_names=("NOMINAL", "FILTERED") if shield else (),
        intervention=np.array(mode, dtype=float),
        events=tuple(
            Event(float(t[-1]), names[k], "kill", failure)
            for k in terminated[0].nonzero().flatten().tolist()
            if failure
        ),
        control_period_ms=1e3 * env.control_dt,
        film=make_film(visual_scene(cfg, env.num_agents), np.array(qpos), markers_of(cfg, told)),
        curves={name: np.array([row[name] for row in rewards]) for name in rewards[0]},
    )
    sums = {name: float(values.sum()) for name, values in flight.curves.items()}
    return Episode(
        flight=flight,
        qpos=np.array(qpos),
        success=bool(info["success"][0]),
        failure=failure,
        mean_return=total,
        reward_terms=sums,
        duration_s=len(t) * env.control_dt,
        flies=env.robot.kind == "drone",
    )


def robot_labels(robot: str, count: int) -> tuple[str, ...]:
    """What the robots of a team are called: cf1, cf2, ...; a robot alone by its name."""
    short = SHORT.get(robot, robot)
    dash = "-" if short[-1].isdigit() else ""
    return (robot,) if count == 1 else tuple(f"{short}{dash}{k + 1}" for k in range(count))


def collision_distance(task: TaskCfg) -> float:
    """Distance between centres, m, below which robots of `task` collide; 0 where it says nothing of that."""
    found = [t.params["distance_m"] for t in task.failures.values() if t.func is terminations.collided]
    return float(found[0]) if found and task.num_agents > 1 else 0.0


def positions_in(task: TaskCfg) -> list[str]:
    """The commands of `task` that name a place."""
    return [name for name, c in task.commands.items() if len(c.low) == 3 and c.unit == "m" and c.frame == "world"]


def markers_of(task: TaskCfg, told: list[dict[str, np.ndarray]]) -> tuple[Marker, ...]:
    """A marker for each place that a robot was sent to; one for all where all were told the same."""
    markers = []
    for name in positions_in(task):
        path = np.array([row[name] for row in told])  # (T, N, 3)
        if path.shape[1] > 1 and np.allclose(path, path[:, :1]):
            markers.append(Marker(name, -1, path[:, 0]))
        else:
            markers.extend(Marker(name, k, path[:, k]) for k in range(path.shape[1]))
    return tuple(markers)


def _goals(task: TaskCfg, told: list[dict[str, np.ndarray]]) -> np.ndarray:
    """(N, 3) m where the robots were sent at first; (0, 3) where their commands name no place of their own."""
    names = positions_in(task)
    return told[0][names[0]] if names else np.zeros((0, 3))


def _modes(env: Any, before: torch.Tensor, intervened: int, ended: bool) -> np.ndarray:
    """(N,) 1 for robots whose command the shield changed in this step; a world that ended has forgotten which."""
    if ended:
        return np.full(env.num_agents, int(intervened > 0))
    return (env.shielded - before)[0].numpy().clip(0, 1)
