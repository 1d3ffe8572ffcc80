"""What a gradient step costs, ours beside those of stable-baselines3 and skrl: PPO and SAC, same networks and batches.

All learn from rows of chance, of the sizes of HalfCheetah, with three hidden layers of ELU, from their buffer to their
networks; in our PPO's time are values and advantages too. Learning rates are so small that networks stay as they are.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.turns import Cost, Progress, measure, median_ratio
from benchmarks.updates_peers import (
    BATCH,
    EPOCHS,
    GAMMA,
    HIDDEN,
    MINIBATCH,
    MOVES,
    PPO_STEPS,
    PPO_WORLDS,
    RATE,
    REMEMBERED,
    SEES,
    skrl,
    stable_baselines3,
)
from policies.algorithms import ALGORITHMS
from policies.algorithms.algorithm import Clock, Experience, Group
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers, single_threaded_torch
from sim.envs.observation import Observation

SPAN_S = 2.0  # a measurement lasts at least this long
SAMPLES = {"ppo": PPO_WORLDS * PPO_STEPS * EPOCHS, "sac": BATCH}  # learned from in a call
OURS: dict[str, dict[str, Any]] = {
    "ppo": {
        "num_steps": PPO_STEPS, "epochs": EPOCHS, "minibatch": MINIBATCH, "schedule": "constant", "max_grad_norm": 0.5,
    },
    "sac": {"num_steps": 1, "updates": 1, "batch": BATCH, "tau": 0.005, "warm_up": 0, "replay": REMEMBERED},
}  # fmt: skip


def ours(algo: str) -> Callable[[int], Any]:
    """One update of ours."""
    generator, rows = torch.Generator().manual_seed(0), PPO_WORLDS if algo == "ppo" else 100

    def seen() -> Observation:
        return Observation.alone(torch.randn(rows, 1, SEES, generator=generator))

    torch.manual_seed(0)
    cfg = ALGORITHMS[algo].Cfg(gamma=GAMMA, learning_rate=RATE, **OURS[algo])
    group = Group(seen(), [True] * MOVES, NetworkCfg(hidden=HIDDEN[algo]), cfg)
    algorithm = ALGORITHMS[algo]({"robot": group}, generator, Workers(1))
    never = torch.zeros(rows, 1, dtype=torch.bool)
    for step in range(PPO_STEPS if algo == "ppo" else REMEMBERED // rows):
        obs = seen()
        with torch.no_grad():
            action, _, extras = algorithm.policies["robot"].sample(obs, {}, generator)
        reward = torch.randn(rows, 1, generator=generator)
        one = Experience(obs, {}, action, extras, reward, never, never, ~never, seen())
        algorithm.record(step, {"robot": one})
    return lambda _: algorithm.update({"robot": obs}, Clock(0.0, 0))


SIDES = {"phalanx": ours, "stable-baselines3": stable_baselines3, "skrl": skrl}


@single_threaded_torch()
def bench_updates(repeats: int = 5, *, on_progress: Progress) -> dict[str, Any]:
    """Gradient steps of our PPO and SAC beside those of stable-baselines3 and skrl (extra `bench`).

    Samples learned from in a second of the processor, and ms of a gradient step.

    Args:
        repeats: Measurements, in turns; the median counts.
    """
    found = {}
    for algo in HIDDEN:
        calls = {side: make(algo) for side, make in SIDES.items()}
        costs: dict[str, list[Cost]] = {side: [] for side in calls}
        for _ in range(repeats):
            for side, call in calls.items():
                costs[side].append(measure(call, SPAN_S))
            on_progress(repeats * len(HIDDEN))
        steps = SAMPLES[algo] // (MINIBATCH if algo == "ppo" else BATCH)  # gradient steps of a call
        for side, some in costs.items():
            cpu_s = median(cost.cpu_s for cost in some)
            found[f"{algo}, {side}"] = {
                "samples_per_cpu_s": SAMPLES[algo] / cpu_s,
                "gradient_step_cpu_ms": 1000 * cpu_s / steps,
                "gradient_step_wall_ms": 1000 * median(cost.wall_s for cost in some) / steps,
            }
        for peer in SIDES:
            ratio = median_ratio(costs[peer], costs["phalanx"], "cpu_s")
            found[f"{algo}, {peer}"]["speed_of_ours"] = ratio
    return {"updates": found}
