"""DSAC-T's claim that the size of rewards does not matter: a pendulum swung up for rewards times 0.1, 1 and 10."""

import json
import time
from collections.abc import Iterator
from math import pi
from typing import Any

import torch
import tyro
from torch import Tensor

from phalanx.console import out
from phalanx.progress import make_progress
from policies.algorithms import ALGORITHMS
from policies.algorithms.algorithm import Clock, Experience, Group
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers, single_threaded_torch
from sim.envs.observation import Observation

EPISODE, DT_S, TORQUE = 200, 0.05, 2.0  # control steps, s, N m: as in Gymnasium's Pendulum-v1
SETTINGS = {"gamma": 0.98, "warm_up": 2000, "batch": 128, "updates": 8, "num_steps": 1, "tau": 0.01}


class Pendulum:
    """W pendulums of 1 kg and 1 m; the state is angle from upright and rate (rad, rad/s)."""

    def __init__(self, worlds: int, generator: torch.Generator) -> None:
        self.generator = generator
        self.clock = torch.arange(worlds) * EPISODE // worlds  # worlds out of step
        self.state = self.start(worlds)

    def start(self, worlds: int) -> Tensor:
        """States (worlds, 2) to begin with, anywhere."""
        return (2 * torch.rand(worlds, 2, generator=self.generator) - 1) * torch.tensor([pi, 1.0])

    def obs(self) -> Observation:
        """Cosine and sine of the angle, and the rate, (W, 1, 3)."""
        angle, rate = self.state.unbind(-1)
        return Observation.alone(torch.stack([angle.cos(), angle.sin(), rate / 8], dim=-1)[:, None])

    def step(self, action: Tensor) -> tuple[Tensor, Observation, Tensor]:
        """Reward (W, 1), what is seen before any restart, and whose time is over (W, 1)."""
        angle, rate = self.state.unbind(-1)
        torque = TORQUE * action[:, 0, 0].clamp(-1, 1)
        off = (angle + pi) % (2 * pi) - pi
        reward = -(off.square() + 0.1 * rate.square() + 0.001 * torque.square())
        rate = (rate + DT_S * (15.0 * angle.sin() + 3.0 * torque)).clamp(-8, 8)
        self.state = torch.stack([angle + DT_S * rate, rate], dim=-1)
        seen, self.clock = self.obs(), self.clock + 1
        over = self.clock >= EPISODE
        self.state = torch.where(over[:, None], self.start(len(over)), self.state)
        self.clock = torch.where(over, 0, self.clock)
        return reward[:, None], seen, over[:, None]


def learning(algo: str, scale: float, seed: int, iterations: int, worlds: int) -> Iterator[tuple[float, Any]]:
    """Mean reward of each iteration, in units of the task, and who learns from `scale` times as much."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    env, kind, workers = Pendulum(worlds, generator), ALGORITHMS[algo], Workers(1)
    group = Group(env.obs(), [True], NetworkCfg(hidden=64), kind.Cfg(**SETTINGS))
    algorithm = kind({"pendulum": group}, generator, workers)
    policy, never = algorithm.policies["pendulum"], torch.zeros(worlds, 1, dtype=torch.bool)
    for iteration in range(iterations):
        obs = env.obs()
        with torch.no_grad():
            action = policy.sample(obs, {}, generator)[0]
        reward, seen, over = env.step(action)
        step = Experience(obs, {}, action, {}, scale * reward, never, over, ~never, seen)
        algorithm.record(0, {"pendulum": step})
        algorithm.update({"pendulum": env.obs()}, Clock(iteration / iterations, iteration * worlds))
        yield float(reward.mean()), algorithm
    workers.close()


def main(
    algos: tuple[str, ...] = ("sac", "dsact"),
    scales: tuple[float, ...] = (0.1, 1.0, 10.0),
    seeds: tuple[int, ...] = (0,),
    iterations: int = 1000,
    worlds: int = 16,
) -> None:
    """Train every algorithm at every scale from every seed; one JSON object a run, with the return at its end.

    Args:
        algos: Algorithms with a replay.
        scales: What rewards are multiplied by.
        seeds: One run from each.
        iterations: Control steps of all worlds, each followed by 8 gradient steps.
        worlds: Pendulums in parallel.
    """
    runs = [(algo, scale, seed) for seed in seeds for algo in algos for scale in scales]
    with make_progress() as progress, single_threaded_torch():
        bar = progress.add_task("trainings", total=len(runs) * iterations)
        for algo, scale, seed in runs:
            began, rewards = time.process_time(), []
            for reward, _ in learning(algo, scale, seed, iterations, worlds):
                rewards.append(reward)
                progress.advance(bar)
            last = sum(rewards[-EPISODE:])
            result = {"algo": algo, "scale": scale, "seed": seed, "return": last}
            out.print(json.dumps(result | {"cpu_s": time.process_time() - began}), soft_wrap=True)


if __name__ == "__main__":
    tyro.cli(main)
