"""One episode, recorded."""

from dataclasses import dataclass

import numpy as np

from phalanx.report import Event, Flight
from policies.parallel import single_threaded_torch
from policies.pilot import Pilot
from sim.env import TeamEnv
from sim.tasks import load_task

MODES = ("NOMINAL", "FILTERED")


@dataclass(frozen=True, slots=True)
class Episode:
    """How it went, and the flight."""

    flight: Flight
    attitude: np.ndarray  # (T, N, 4) wxyz, body -> world
    success: bool
    failure: str  # name of the failure, "" without one
    mean_return: float
    duration_s: float


@single_threaded_torch()
def play_episode(task: str, pilot: Pilot, num_agents: int | None, seed: int, shield: bool) -> Episode:
    """Let `pilot` fly one episode of `task` with randomisation on, until it ends."""
    env = TeamEnv(load_task(task), 1, seed, num_agents, shield)
    pilot.start(env)
    pos, attitude, mode = [], [], []
    total, filtered = 0.0, env.shielded.clone()
    goal = env.command["goal_pos"][0].numpy().copy()
    names = tuple(f"cf{k + 1}" for k in range(env.num_agents))
    while True:
        truth = env.world.truth()
        pos.append(truth.base_pos[0].numpy().copy())
        attitude.append(truth.base_quat[0].numpy().copy())
        mode.append((env.shielded - filtered)[0].numpy().clip(0, 1))
        filtered = env.shielded.clone()
        _, reward, terminated, truncated, info = env.step(pilot.act(env)[0])
        total += float(reward.mean())
        if bool((terminated | truncated).any()):
            break
    failure = next((name for name, hit in info["failures"].items() if bool(hit.any())), "")
    t = np.arange(len(pos)) * env.control_dt
    flight = Flight(
        names=names,
        t=t,
        pos=np.array(pos, dtype=float),
        goal=goal,
        limit_m=2 * env.robot.radius_m,
        radius_m=env.robot.radius_m,
        mode=np.array(mode),
        mode_names=MODES,
        intervention=np.array(mode, dtype=float),
        events=tuple(
            Event(float(t[-1]), names[k], "kill", failure)
            for k in terminated[0].nonzero().flatten().tolist()
            if failure
        ),
        control_period_ms=1e3 * env.control_dt,
    )
    return Episode(flight, np.array(attitude), bool(info["success"][0]), failure, total, float(t[-1]))
