"""IPPO, MAPPO, HAPPO and HASAC on multi-agent MuJoCo: robots that move joints of one body, and all earn what it earns.

`python -m benchmarks.papers.teams --tasks HalfCheetah-2x3 Ant-4x2 --seeds 0 1 2 --steps 100000` (extra `bench`); a run
that is done is a file in `--folder` and is not done again. All of them run in 8 worlds; each robot has a policy of its
own. HASAC takes one gradient step for 16 steps of the environment, more than 10 times fewer than usual: see its cost.
"""

from itertools import product
from pathlib import Path
from typing import Any

import tyro

from benchmarks.papers.gym_team import GymTeam, Look, learn
from benchmarks.papers.trainings import Settings, train_all
from policies.algorithms import ALGORITHMS
from policies.networks.trunk import NetworkCfg

WORLDS = 8
PPO = {"num_steps": 256, "epochs": 5, "minibatch": 256}
ALGOS: dict[str, tuple[str, dict[str, Any]]] = {
    "ippo": ("ppo", PPO),
    "mappo": ("ppo", PPO | {"critic": "team"}),
    "happo": ("happo", PPO),
    "hasac": ("hasac", {"num_steps": 2, "updates": 1, "gamma": 0.99, "temperature": 0.01}),
}
OF_A_ROBOT = {"batch": 256, "warm_up": 5_000}  # of hasac, which counts steps of all robots


def learner(task: str, algo: str, seed: int, steps: int, every: int) -> Look:
    """A training, see `learn`."""
    env, (name, given) = GymTeam(task, WORLDS, seed), ALGOS[algo]
    if name == "hasac":
        given = given | {key: len(env.parts) * n for key, n in (OF_A_ROBOT | {"replay": steps}).items()}
    return learn(env, name, NetworkCfg(hidden=64), ALGORITHMS[name].Cfg(**given), seed, steps, every)


def main(
    tasks: tuple[str, ...] = ("HalfCheetah-2x3", "Ant-4x2"),
    algos: tuple[str, ...] = tuple(ALGOS),
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 2_000_000,
    looks: int = 10,
    folder: Path = Path("runs/teams"),
) -> None:
    """Train what is not done yet, then print the last returns of all that is: interquartile mean and 95 % interval.

    Args:
        tasks: A body of Gymnasium and how many robots share it x joints of each, see Gymnasium-Robotics' MaMuJoCo.
        algos: Of ippo, mappo, happo and hasac.
        seeds: One run from each.
        steps: Of the environment in each training.
        looks: Evaluations on the way.
        folder: Where finished runs are kept.
    """
    wanted = [{"task": task, "algo": algo, "seed": seed} for task, seed, algo in product(tasks, seeds, algos)]

    def make(settings: Settings) -> Look:
        return learner(**settings, steps=steps, every=max(1, steps // looks))

    train_all(wanted, make, steps, folder)


if __name__ == "__main__":
    tyro.cli(main)
