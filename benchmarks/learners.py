"""Time and samples that our PPO and those of others take until a policy shows on held-out starts that it succeeds.

All learn in the same environment, ours natively, theirs through the adapters, with the same worlds, steps between
updates, hidden layers, first standard deviation, discount and lambda; all else is what each has by default,
stable-baselines3's with minibatches of 256, since its 64 take longer. "tuned" is what `benchmarks.sb3_search` found for
a task. rsl_rl's critic sees what is privileged, as ours. What is looked at, and how long that takes, counts for none.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from math import log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch

from benchmarks.turns import Progress, kept
from phalanx.agents import SimpleAgent
from phalanx.options import OutFolder
from policies.evaluation.evaluate import evaluate
from policies.evaluation.policy_runner import PolicyRunner
from policies.evaluation.trained import controllers_of
from policies.threads import single_threaded_torch
from policies.training.train import CollectionCfg, TrainCfg, Trainer
from sim.task import TaskCfg
from sim.tasks import load_task

SHOWN = 0.95  # the lower end of the 95 % interval of success, of `STARTS`, without a shield
STARTS, SEED = 256, 2_000_003  # neither those of training nor of `verify`
LOOK_EVERY = 131_072  # agent steps
TUNED = Path(__file__).with_name("sb3_tuned.json")


class Learner(Protocol):
    """One training."""

    def learn(self, steps: int) -> int:
        """Learn from about so many agent steps more; returns how many there were in all."""

    def policy(self) -> PolicyRunner:
        """What it has learned, to be flown."""


class Ours:
    """`phalanx train` as it is by default."""

    def __init__(self, task: TaskCfg, seed: int, folder: Path) -> None:
        self.task = task
        self.trainer = Trainer(TrainCfg(task=task, out=folder, collection=CollectionCfg(task.num_envs), seed=seed))

    def learn(self, steps: int) -> int:
        """See `Learner`."""
        until = self.trainer.agent_steps + steps
        while self.trainer.agent_steps < until:
            self.trainer.iterate(min(self.trainer.agent_steps / self.task.train_steps, 1.0))
        return self.trainer.agent_steps

    def policy(self) -> PolicyRunner:
        """See `Learner`."""
        from policies.evaluation.policy_runner import TorchRunner

        return TorchRunner(controllers_of(self.trainer.state_dict(), self.task)[self.task.group_name])


class Theirs:
    """PPO of stable-baselines3, with observations and rewards normalised; `own` in place of its defaults."""

    def __init__(self, task: TaskCfg, seed: int, folder: Path, own: Mapping[str, Any] | None = None) -> None:
        from stable_baselines3 import PPO
        from stable_baselines3.common.vec_env import VecNormalize

        from sim.adapters.stable_baselines3 import TeamVecEnv

        ours = TrainCfg(task=task, collection=CollectionCfg(task.num_envs))
        network, cfg = ours.hyperparameters(task.group, task.name)
        rows = TeamVecEnv(task, task.num_envs, curriculum=True)
        rows.env.stagger()
        shape = {"net_arch": [network.hidden] * 2, "log_std_init": log(network.init_std)}
        alike = {"n_steps": cfg.num_steps, "batch_size": 256, "gamma": cfg.gamma, "gae_lambda": cfg.gae_lambda}
        chosen = {**alike, **(own or {})}
        if activation := chosen.pop("activation_fn", None):
            shape["activation_fn"] = getattr(torch.nn, activation)
        self.task, self.rows = task, VecNormalize(rows, gamma=chosen["gamma"])
        self.model = PPO("MlpPolicy", self.rows, policy_kwargs=shape, seed=seed, device="cpu", **chosen)

    def learn(self, steps: int) -> int:
        """See `Learner`."""
        self.model.learn(steps, reset_num_timesteps=False)
        return int(self.model.num_timesteps)

    def policy(self) -> PolicyRunner:
        """See `Learner`."""

        def act(group: Any) -> torch.Tensor:
            seen = group.obs.flat()
            known = self.rows.normalize_obs(seen.flatten(0, 1).numpy())
            action = self.model.predict(known, deterministic=True)[0]
            return torch.from_numpy(action).view(*seen.shape[:2], -1)

        return SimpleAgent(self.task.group, act)


class RslRl:
    """PPO of rsl_rl, with observations normalised."""

    def __init__(self, task: TaskCfg, seed: int, folder: Path) -> None:
        from rsl_rl.runners import OnPolicyRunner

        from sim.adapters.rsl_rl import TeamTensorEnv

        ours = TrainCfg(task=task, collection=CollectionCfg(task.num_envs))
        network, cfg = ours.hyperparameters(task.group, task.name)
        torch.manual_seed(seed)
        self.task, self.rows = task, TeamTensorEnv(task, task.num_envs, seed=seed, curriculum=True)
        self.rows.env.stagger()
        shape = {"class_name": "MLPModel", "hidden_dims": [network.hidden] * 2, "obs_normalization": True}
        spread = {"class_name": "GaussianDistribution", "init_std": network.init_std}
        groups = list(self.rows.get_observations().keys())
        self.steps, self.num_steps = 0, cfg.num_steps
        with redirect_stdout(StringIO()):  # it prints its networks
            self.runner = OnPolicyRunner(
                self.rows,
                {
                    "num_steps_per_env": cfg.num_steps,
                    "obs_groups": {"actor": ["policy"], "critic": groups},
                    "algorithm": {"class_name": "PPO", "gamma": cfg.gamma, "lam": cfg.gae_lambda},
                    "actor": {**shape, "distribution_cfg": spread},
                    "critic": dict(shape),
                },
            )

    def learn(self, steps: int) -> int:
        """See `Learner`."""
        iterations = -(-steps // (self.num_steps * self.rows.num_envs))
        with redirect_stdout(StringIO()):
            self.runner.learn(iterations)
        self.steps += iterations * self.num_steps * self.rows.num_envs
        return self.steps

    def policy(self) -> PolicyRunner:
        """See `Learner`."""
        from tensordict import TensorDict

        policy = self.runner.get_inference_policy()

        def act(group: Any) -> torch.Tensor:
            seen = group.obs.flat()
            with torch.no_grad():
                return policy(TensorDict({"policy": seen}, batch_size=seen.shape[:2])).clamp(-1.0, 1.0)

        return SimpleAgent(self.task.group, act)


LEARNERS: dict[str, Callable[[TaskCfg, int, Path], Learner]] = {
    "phalanx": Ours,
    "stable-baselines3": Theirs,
    "stable-baselines3, tuned": lambda task, seed, folder: Theirs(task, seed, folder, tuned()[task.name]),
    "rsl_rl": RslRl,
}


def tuned() -> dict[str, dict[str, Any]]:
    """Hyperparameters of stable-baselines3's PPO by task, as they were found."""
    return json.loads(TUNED.read_text()) if TUNED.exists() else {}


@single_threaded_torch()
def bench_learners(
    tasks: tuple[str, ...] = ("hover", "reach"), out_dir: OutFolder = None, repeats: int = 5, *, on_progress: Progress
) -> dict[str, Any]:
    """Time and samples that our PPO, stable-baselines3's and rsl_rl's (extra `bench`) take until a policy succeeds.

    Args:
        tasks: See `phalanx tasks`.
        out_dir: Folder in which each training is kept; what it holds is not learned again.
        repeats: Seeds; the median counts.
    """
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with TemporaryDirectory() as scratch:
        for task in tasks:
            learners = {name: make for name, make in LEARNERS.items() if "tuned" not in name or task in tuned()}
            found[task] = {name: [] for name in learners}
            for seed in range(repeats):
                for name, make in learners.items():
                    path = (out_dir or Path(scratch)) / f"{task}-{name}-{seed}.json"
                    learn = partial(reach_gate, make, load_task(task), seed, Path(scratch) / path.stem)
                    found[task][name].append(kept(path, learn))
                    on_progress(repeats * len(tasks) * len(LEARNERS))
    return {
        "shown": SHOWN,
        "starts": STARTS,
        "tasks": {task: {name: _together(rows) for name, rows in by.items()} for task, by in found.items()},
    }


def reach_gate(make: Callable[[TaskCfg, int, Path], Learner], task: TaskCfg, seed: int, folder: Path) -> dict[str, Any]:
    """Steps, seconds and CPU seconds of one training until it showed `SHOWN`, or to its end, and what it showed."""
    learner, steps, wall_s, cpu_s, success = make(task, seed, folder), 0, 0.0, 0.0, [0.0, 0.0]
    while steps < task.train_steps and success[1] < SHOWN:
        wall, cpu = time.perf_counter(), time.process_time()
        steps = learner.learn(LOOK_EVERY)
        wall_s, cpu_s = wall_s + time.perf_counter() - wall, cpu_s + time.process_time() - cpu
        result = evaluate({task.group_name: learner.policy()}, task, STARTS, SEED)
        success = [result.success_rate, result.success_interval[0]]
    reached = success[1] >= SHOWN
    return {"reached": reached, "agent_steps": steps, "wall_s": wall_s, "cpu_s": cpu_s, "success": success[0]}


def _together(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of trainings; what did not come to the gate counts with its whole length."""
    figures: dict[str, Any] = {"reached": f"{sum(row['reached'] for row in rows)} of {len(rows)}"}
    for name in ("agent_steps", "cpu_s", "wall_s", "success"):
        figures[name] = median(row[name] for row in rows)
    figures["agent_steps_each"] = ", ".join(f"{row['agent_steps']:,}" for row in rows)
    figures["cpu_s_each"] = ", ".join(f"{row['cpu_s']:.0f}" for row in rows)
    return figures
