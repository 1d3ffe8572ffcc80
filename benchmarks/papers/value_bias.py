"""DSAC-T's claim that its critic errs less than SAC's: what is believed of a policy's actions beside what they earn.

A pendulum is swung up as in `reward_scale`. Then the policy acts on from states of its own, all alike from there on to
the end of what still counts, and the discounted rewards and entropies are what its first actions were worth.
"""

import json
from typing import Any

import torch
import tyro
from torch import Tensor

from benchmarks.papers.reward_scale import EPISODE, SETTINGS, Pendulum, learning
from phalanx.console import out
from phalanx.progress import make_progress
from policies.algorithms.dsact import DSACT, split
from policies.threads import single_threaded_torch

WORLDS = 1000  # states that values are compared at
HORIZON = 400  # control steps; what comes later counts 0.0003 of its reward
GAMMA = float(SETTINGS["gamma"])


@torch.no_grad()
def believed_and_earned(algorithm: Any, seed: int) -> tuple[Tensor, Tensor]:
    """Values (count, WORLDS) of each critic, and returns (WORLDS,) of the same actions, in units of the task.

    Both with the entropy of all later actions, times the temperature: that is the value that these critics learn.
    """
    generator = torch.Generator().manual_seed(1_000_003 + seed)
    learner, env = algorithm.learners["pendulum"], Pendulum(WORLDS, generator)
    act = learner.policy.act
    for _ in range(EPISODE // 2):  # to states that the policy comes to
        env.step(act(learner.policy.normaliser(env.obs()), generator)[0])
    env.clock -= 10 * HORIZON  # no time limit: a critic bootstraps from where one ends an episode
    features = learner.policy.normaliser(env.obs())
    action, _ = act(features, generator)
    values = learner.critic(features, action, {})
    values = (split(values)[0] if isinstance(algorithm, DSACT) else values)[..., 0] / (1 - GAMMA)
    price = float(learner.temperature) / (1 - GAMMA)
    earned = torch.zeros(WORLDS)
    for step in range(HORIZON):
        earned += GAMMA**step * env.step(action)[0][:, 0]
        action, density = act(learner.policy.normaliser(env.obs()), generator)
        earned -= GAMMA ** (step + 1) * price * density[:, 0]
    return values, earned


def main(
    algos: tuple[str, ...] = ("sac", "dsact"),
    seeds: tuple[int, ...] = (0, 1, 2),
    iterations: int = 1000,
    worlds: int = 16,
) -> None:
    """Train every algorithm from every seed; one JSON object a run.

    `bias` is the mean error of the least of the critics, which policies climb, `bias_of_mean` that of their mean, and
    `error` the root mean square of the first, all beside the mean value `earned`.

    Args:
        algos: "sac" and "dsact".
        seeds: One run from each.
        iterations: Control steps of all worlds, each followed by 8 gradient steps.
        worlds: Pendulums in parallel.
    """
    with make_progress() as progress, single_threaded_torch():
        bar = progress.add_task("trainings", total=len(seeds) * len(algos) * iterations)
        for seed in seeds:
            for algo in algos:
                learned: Any = None
                for _, so_far in learning(algo, 1.0, seed, iterations, worlds):
                    learned = so_far
                    progress.advance(bar)
                values, earned = believed_and_earned(learned, seed)
                error = values.amin(0) - earned
                found = {
                    "bias": float(error.mean()),
                    "bias_of_mean": float((values.mean(0) - earned).mean()),
                    "error": float(error.square().mean().sqrt()),
                    "earned": float(earned.mean()),
                }
                out.print(json.dumps({"algo": algo, "seed": seed, **found}), soft_wrap=True)


if __name__ == "__main__":
    tyro.cli(main)
