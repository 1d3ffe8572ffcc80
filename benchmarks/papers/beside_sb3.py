"""PPO, SAC, TD3 and DSAC-T beside stable-baselines3's on Gymnasium's MuJoCo tasks: same steps, settings and machine.

`python -m benchmarks.papers.beside_sb3 --tasks Hopper-v5 --algos ppo --seeds 0 1 2 --steps 1000000`; a run that is
done is a file in `--out` and is not done again. Settings are stable-baselines3's defaults for both, with observations
and rewards normalised for its PPO as ours does; its PPO and ours run in 8 worlds, the others in one. Their SAC stands
beside our DSAC-T.
"""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from benchmarks.papers.gym_team import GymTeam
from benchmarks.turns import kept
from phalanx.console import make_progress, out
from policies.algorithms import ALGORITHMS
from policies.algorithms.algorithm import Clock, Group
from policies.evaluation.curves import interval, middle
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers, single_threaded_torch

Act = Callable[[np.ndarray], np.ndarray]  # observations (n, D) -> actions (n, U)
Look = Iterator[tuple[int, Act]]  # steps so far, and who acts now
EPISODES = 10  # of each evaluation, without exploration
WORLDS = {"ppo": 8}  # one for the others
OFF_POLICY = {"num_steps": 1, "updates": 1, "batch": 256, "gamma": 0.99, "tau": 0.005, "warm_up": 10_000}
OURS: dict[str, dict[str, Any]] = {
    "ppo": {
        "num_steps": 256, "epochs": 10, "minibatch": 64, "learning_rate": 3e-4, "schedule": "constant",
        "max_grad_norm": 0.5,  # our value_coef of 1 is of half the squared error: their 0.5
    },
    "sac": OFF_POLICY | {"learning_rate": 3e-4, "temperature": 0.01},  # theirs of 1, times 1 - gamma
    "dsact": OFF_POLICY | {"learning_rate": 3e-4, "temperature": 0.01},
    "td3": OFF_POLICY | {"learning_rate": 1e-3, "noise": 0.1},
}  # fmt: skip
NETWORKS = {"ppo": NetworkCfg(hidden=64, init_std=1.0)}


def ours(task: str, algo: str, seed: int, steps: int, every: int) -> Look:
    """Our learner, looked at `every` so many steps."""
    worlds, kind = WORLDS.get(algo, 1), ALGORITHMS[algo]
    torch.manual_seed(seed)
    generator, env = torch.Generator().manual_seed(seed), GymTeam(task, worlds, seed)
    network, more = NETWORKS.get(algo, NetworkCfg(hidden=256)), {} if algo == "ppo" else {"replay": steps}
    group = Group(env.obs(), [True] * env.actions, network, kind.Cfg(**OURS[algo], **more))
    algorithm, workers = kind({"robot": group}, generator, Workers(1)), Workers(1)
    policy, done = algorithm.policies["robot"], 0

    def act(seen: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return env.as_theirs(policy.best(env.seen(seen), {})[0])

    while done < steps:
        until = min(steps, done + every)
        while done < until:
            for t in range(algorithm.horizon):
                algorithm.record(t, {"robot": env.step(policy, generator)})
            done += algorithm.horizon * worlds
            algorithm.update({"robot": env.obs()}, Clock(done / steps, done))
        yield done, act
    workers.close()


def theirs(task: str, algo: str, seed: int, steps: int, every: int) -> Look:
    """That of stable-baselines3."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.noise import NormalActionNoise
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env: Any = DummyVecEnv([lambda: gymnasium.make(task)] * WORLDS.get(algo, 1))
    if algo == "ppo":
        env = VecNormalize(env)
        model: Any = sb3.PPO("MlpPolicy", env, n_steps=256, seed=seed, device="cpu")
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


def evaluate(task: str, act: Act) -> float:
    """Mean return of `EPISODES` whole episodes, the same starts each time."""
    env = SyncVectorEnv([lambda: gymnasium.make(task)] * EPISODES, autoreset_mode=AutoresetMode.DISABLED)
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


def run(who: str, task: str, algo: str, seed: int, steps: int, looks: int, say: Callable[[int], None]) -> dict:
    """One training: returns at each look, and its time on the wall and on the processor, s, looks apart."""
    curve, wall_s, cpu_s = [], 0.0, 0.0
    learner = (ours if who == "ours" else theirs)(task, algo, seed, steps, max(1, steps // looks))
    began, cpu = time.perf_counter(), time.process_time()
    for done, act in learner:
        wall_s, cpu_s = wall_s + time.perf_counter() - began, cpu_s + time.process_time() - cpu
        curve.append([done, evaluate(task, act)])
        say(done)
        began, cpu = time.perf_counter(), time.process_time()
    return {"who": who, "task": task, "algo": algo, "seed": seed, "curve": curve, "wall_s": wall_s, "cpu_s": cpu_s}


def main(
    tasks: tuple[str, ...] = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5"),
    algos: tuple[str, ...] = ("ppo",),
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 1_000_000,
    looks: int = 10,
    folder: Path = Path("runs/beside-sb3"),
) -> None:
    """Train what is not done yet, then print the last returns of all that is: interquartile mean and 95 % interval.

    Args:
        tasks: Names of Gymnasium's environments.
        algos: Of ours; "dsact" beside their SAC.
        seeds: One run from each, of ours and of theirs in turns.
        steps: Of each training.
        looks: Evaluations on the way.
        folder: Where finished runs are kept.
    """
    wanted = [(w, task, algo, seed) for task in tasks for algo in algos for seed in seeds for w in ("ours", "theirs")]
    done: dict[tuple[str, str, str], list[dict]] = {}
    with make_progress() as progress, single_threaded_torch():
        bar = progress.add_task("trainings", total=len(wanted) * steps)
        for number, (who, task, algo, seed) in enumerate(wanted):

            def say(of_this: int, before: int = number) -> None:
                progress.update(bar, completed=before * steps + of_this)

            train = partial(run, who, task, algo, seed, steps, looks, say)
            row = kept(folder / f"{task}-{algo}-{who}-{seed}-{steps}.json", train)
            progress.update(bar, completed=(number + 1) * steps)
            done.setdefault((task, algo, who), []).append(row)
    for (task, algo, who), found in done.items():
        last = np.array([[one["curve"][-1][1]] for one in found])
        low, high = interval(last) if len(found) > 1 else (np.array([np.nan]), np.array([np.nan]))
        figures = {"return": float(middle(last)[0]), "low": float(low[0]), "high": float(high[0]), "seeds": len(found)}
        times = {part: sum(one[part] for one in found) / len(found) for part in ("wall_s", "cpu_s")}
        out.print(
            json.dumps({"task": task, "algo": algo, "who": who, "steps": steps, **figures, **times}), soft_wrap=True
        )


if __name__ == "__main__":
    tyro.cli(main)
