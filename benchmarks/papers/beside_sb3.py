"""PPO, SAC, TD3 and DSAC-T beside stable-baselines3's on Gymnasium's MuJoCo tasks: same steps, settings and machine.

`python -m benchmarks.papers.beside_sb3 --tasks Hopper-v5 --algos ppo --seeds 0 1 2 --steps 1000000`; a run that is
done is a file in `--folder` and is not done again. Settings are stable-baselines3's defaults for both, with
observations and rewards normalised for its PPO as ours does; its PPO and ours run in 8 worlds, the others in one.
Their SAC stands beside our DSAC-T. Our networks have a layer more, and ELU; `--activation` is another for ours.
`--minibatch 256 --epochs 5 --init-std 0.6` has PPO of both take smaller steps, which an ant wants.
"""

from dataclasses import replace
from itertools import product
from math import log
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import tyro

from benchmarks.papers.gym_team import GymTeam, Look, learn
from benchmarks.papers.trainings import Settings, train_all
from policies.algorithms import ALGORITHMS
from policies.networks.trunk import Activation, NetworkCfg

WORLDS = {"ppo": 8}  # one for the others
OFF_POLICY = {"num_steps": 1, "updates": 1, "batch": 256, "gamma": 0.99, "tau": 0.005, "warm_up": 10_000}
OURS: dict[str, dict[str, Any]] = {
    # our value_coef of 1 is of half the squared error: their 0.5
    "ppo": {"num_steps": 256, "learning_rate": 3e-4, "schedule": "constant", "max_grad_norm": 0.5},
    "sac": OFF_POLICY | {"learning_rate": 3e-4, "temperature": 0.01},  # theirs of 1, times 1 - gamma
    "dsact": OFF_POLICY | {"learning_rate": 3e-4, "temperature": 0.01},
    "td3": OFF_POLICY | {"learning_rate": 1e-3, "noise": 0.1},
}  # fmt: skip
PPO: dict[str, Any] = {"minibatch": 64, "epochs": 10, "init_std": 1.0}  # of both
THEIRS = {"dsact": "sac"}  # what theirs has in the place of one that it does not have


def ours(
    task: str, algo: str, seed: int, steps: int, every: int, activation: Activation = "elu", **changed: Any
) -> Look:
    """Our learner, looked at `every` so many steps, with what is `changed` of `PPO`."""
    network, asked = NetworkCfg(hidden=256, activation=activation), OURS[algo] | {"replay": steps}
    if algo == "ppo":
        asked = OURS[algo] | PPO | changed
        network = replace(network, hidden=64, init_std=asked.pop("init_std"))
    cfg = ALGORITHMS[algo].Cfg(**asked)
    return learn(GymTeam(task, WORLDS.get(algo, 1), seed), algo, network, cfg, seed, steps, every)


def theirs(task: str, algo: str, seed: int, steps: int, every: int, **changed: Any) -> Look:
    """That of stable-baselines3, likewise."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.noise import NormalActionNoise
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env: Any = DummyVecEnv([lambda: gymnasium.make(task)] * WORLDS.get(algo, 1))
    if algo == "ppo":
        env = VecNormalize(env)
        ppo = PPO | changed
        spread = {"log_std_init": log(ppo["init_std"])}
        model: Any = sb3.PPO(
            "MlpPolicy", env, n_steps=256, batch_size=ppo["minibatch"], n_epochs=ppo["epochs"], policy_kwargs=spread,
            seed=seed, device="cpu",
        )  # fmt: skip
    else:
        settings: dict[str, Any] = {"learning_starts": 10_000, "buffer_size": steps, "seed": seed, "device": "cpu"}
        if algo == "td3":
            still = np.zeros(env.action_space.shape)
            settings["action_noise"] = NormalActionNoise(still, still + 0.1)
        model = (sb3.TD3 if algo == "td3" else sb3.SAC)("MlpPolicy", env, **settings)

    def act(seen: np.ndarray) -> np.ndarray:
        shown = env.normalize_obs(seen) if algo == "ppo" else seen
        return np.asarray(model.predict(shown, deterministic=True)[0])

    while model.num_timesteps < steps:
        model.learn(min(every, steps - model.num_timesteps), reset_num_timesteps=model.num_timesteps == 0)
        yield model.num_timesteps, act


def main(
    tasks: tuple[str, ...] = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5"),
    algos: tuple[str, ...] = ("ppo",),
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 1_000_000,
    looks: int = 10,
    activation: Activation = "elu",
    minibatch: int = 64,
    epochs: int = 10,
    init_std: float = 1.0,
    who: tuple[Literal["ours", "theirs"], ...] = ("ours", "theirs"),
    folder: Path = Path("runs/beside-sb3"),
) -> None:
    """Train what is not done yet, then print the last returns of all that is: interquartile mean and 95 % interval.

    Args:
        tasks: Names of Gymnasium's environments.
        algos: Of ours; "dsact" beside their SAC.
        seeds: One run from each, of ours and of theirs in turns.
        steps: Of each training.
        looks: Evaluations on the way.
        activation: Of our networks; theirs have tanh for PPO, ReLU for the others.
        minibatch: Steps that a gradient of PPO is of.
        epochs: Of an update of PPO.
        init_std: Of the actions with which PPO begins.
        who: Whose are trained.
        folder: Where finished runs are kept.
    """
    sides, given = {"ours": ours, "theirs": theirs}, {"minibatch": minibatch, "epochs": epochs, "init_std": init_std}
    wanted: list[Settings] = []
    for task, algo, seed, side in product(tasks, algos, seeds, who):
        one: dict[str, Any] = {"task": task, "algo": algo if side == "ours" else THEIRS.get(algo, algo), "who": side}
        if side == "ours" and activation != "elu":
            one["activation"] = activation
        if algo == "ppo":
            one |= {name: value for name, value in given.items() if value != PPO[name]}
        one["seed"] = seed
        if one not in wanted:  # their SAC stands beside two of ours
            wanted.append(one)

    def make(settings: Settings) -> Look:
        asked = {key: value for key, value in settings.items() if key != "who"}
        return sides[settings["who"]](**asked, steps=steps, every=max(1, steps // looks))

    train_all(wanted, make, steps, folder)


if __name__ == "__main__":
    tyro.cli(main)
