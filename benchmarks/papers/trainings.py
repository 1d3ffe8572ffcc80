"""Trainings on Gymnasium's environments, one after the other: each is kept in a file and not done again."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from benchmarks.papers.gym_team import Act, Look, environment
from benchmarks.turns import kept
from phalanx.console import out
from phalanx.progress import make_progress
from policies.evaluation.curves import interval, middle
from policies.threads import single_threaded_torch

EPISODES = 10  # of each evaluation, without exploration
Settings = Mapping[str, Any]  # task, algo, seed, and what else tells a training from others


def evaluate(task: str, act: Act) -> float:
    """Mean return of `EPISODES` whole episodes, the same starts each time."""
    name, _ = environment(task)
    env = SyncVectorEnv([lambda: gymnasium.make(name)] * EPISODES, autoreset_mode=AutoresetMode.DISABLED)
    space: Any = env.single_action_space
    seen, _ = env.reset(seed=1_000_003)
    total, going = np.zeros(EPISODES), np.ones(EPISODES, dtype=bool)
    while going.any():
        action = np.clip(act(seen), space.low, space.high)
        seen, reward, terminated, truncated, _ = env.step(action)
        total += reward * going
        going &= ~(terminated | truncated)
        if going.any() and not going.all():
            seen, _ = env.reset(options={"reset_mask": ~going})
    env.close()
    return float(total.mean())


def run(settings: Settings, learner: Look, say: Callable[[int], None]) -> dict[str, Any]:
    """One training: returns at each look, and its time on the wall and on the processor, s, looks apart."""
    curve, wall_s, cpu_s = [], 0.0, 0.0
    began, cpu = time.perf_counter(), time.process_time()
    for done, act in learner:
        wall_s, cpu_s = wall_s + time.perf_counter() - began, cpu_s + time.process_time() - cpu
        curve.append([done, evaluate(settings["task"], act)])
        say(done)
        began, cpu = time.perf_counter(), time.process_time()
    return {**settings, "curve": curve, "wall_s": wall_s, "cpu_s": cpu_s}


def train_all(wanted: Sequence[Settings], make: Callable[[Settings], Look], steps: int, folder: Path) -> None:
    """Train what is not done yet, then print the last returns of all that is: interquartile mean and 95 % interval.

    A row is of all seeds of the same settings.
    """
    done: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    with make_progress() as progress, single_threaded_torch():
        bar = progress.add_task("trainings", total=len(wanted) * steps)
        for number, settings in enumerate(wanted):

            def say(of_this: int, before: int = number) -> None:
                progress.update(bar, completed=before * steps + of_this)

            def train(settings: Settings, say: Callable[[int], None]) -> dict[str, Any]:
                return run(settings, make(settings), say)

            name = "-".join(str(value) for value in (*settings.values(), steps))
            row = kept(folder / f"{name}.json", partial(train, settings, say))
            progress.update(bar, completed=(number + 1) * steps)
            done.setdefault(tuple((k, v) for k, v in settings.items() if k != "seed"), []).append(row)
    for labels, found in done.items():
        last = np.array([[one["curve"][-1][1]] for one in found])
        low, high = interval(last) if len(found) > 1 else (np.array([np.nan]), np.array([np.nan]))
        figures = {"return": float(middle(last)[0]), "low": float(low[0]), "high": float(high[0]), "seeds": len(found)}
        times = {part: sum(one[part] for one in found) / len(found) for part in ("wall_s", "cpu_s")}
        out.print(json.dumps({**dict(labels), "steps": steps, **figures, **times}), soft_wrap=True)
