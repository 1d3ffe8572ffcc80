"""What a gradient step costs, ours beside stable-baselines3's: PPO and SAC with the same networks and batches.

Both learn from rows of chance, of the sizes of HalfCheetah, with three hidden layers of ELU, from their buffer to their
networks; in our PPO's time are values and advantages too. Learning rates are so small that networks stay as they are.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from benchmarks.turns import Cost, measure, median_ratio
from policies.algorithms import ALGORITHMS
from policies.algorithms.algorithm import Clock, Experience, Group
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers, single_threaded_torch
from sim.envs.observation import Observation

SEES, MOVES, RATE, GAMMA = 17, 6, 1e-8, 0.99
SPAN_S = 2.0  # a measurement lasts at least this long
PPO_WORLDS, PPO_STEPS, EPOCHS, MINIBATCH = 8, 256, 10, 64
BATCH, REMEMBERED = 256, 10_000
HIDDEN = {"ppo": 64, "sac": 256}
SAMPLES = {"ppo": PPO_WORLDS * PPO_STEPS * EPOCHS, "sac": BATCH}  # learned from in a call
OURS: dict[str, dict[str, Any]] = {
    "ppo": {
        "num_steps": PPO_STEPS, "epochs": EPOCHS, "minibatch": MINIBATCH, "schedule": "constant", "max_grad_norm": 0.5,
    },
    "sac": {"num_steps": 1, "updates": 1, "batch": BATCH, "tau": 0.005, "warm_up": 0, "replay": REMEMBERED},
}  # fmt: skip


class Sizes(gymnasium.Env):
    """Nothing but sizes."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SEES,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (MOVES,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Zeros."""
        return np.zeros(SEES, dtype=np.float32), {}


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


def theirs(algo: str) -> Callable[[int], Any]:
    """One update of theirs."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    settings: dict[str, Any] = {
        "learning_rate": RATE,
        "gamma": GAMMA,
        "seed": 0,
        "device": "cpu",
        "policy_kwargs": {"net_arch": [HIDDEN[algo]] * 3, "activation_fn": nn.ELU},
    }
    chance = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        return chance.standard_normal(shape, dtype=np.float32)

    if algo == "sac":
        model: Any = sb3.SAC("MlpPolicy", Sizes(), batch_size=BATCH, buffer_size=REMEMBERED, **settings)
        for _ in range(REMEMBERED):
            row = drawn(1, SEES), drawn(1, SEES), np.tanh(drawn(1, MOVES)), drawn(1), np.zeros(1)
            model.replay_buffer.add(*row, [{}])
        model.set_logger(Logger(None, []))
        return lambda _: model.train(1, BATCH)
    worlds: Any = DummyVecEnv([Sizes] * PPO_WORLDS)
    size: dict[str, Any] = {"n_steps": PPO_STEPS, "batch_size": MINIBATCH, "n_epochs": EPOCHS}
    model = sb3.PPO("MlpPolicy", worlds, **size, **settings)
    buffer, policy = model.rollout_buffer, model.policy
    for _ in range(PPO_STEPS):
        obs = drawn(PPO_WORLDS, SEES)
        with torch.no_grad():
            action, value, density = policy(torch.as_tensor(obs))
        buffer.add(obs, action.numpy(), drawn(PPO_WORLDS), np.zeros(PPO_WORLDS), value, density)
    model.set_logger(Logger(None, []))
    buffer.compute_returns_and_advantage(value, np.zeros(PPO_WORLDS))  # once: its buffer is then another
    return lambda _: model.train()


SIDES = {"phalanx": ours, "stable-baselines3": theirs}


@single_threaded_torch()
def bench_updates(repeats: int, on_progress: Callable[[int], None]) -> dict[str, Any]:
    """Samples learned from in a second of the processor, and ms of a gradient step; medians of turns."""
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
                "speed_of_theirs": median_ratio(costs["stable-baselines3"], some, "cpu_s"),
            }
    return {"updates": found}
