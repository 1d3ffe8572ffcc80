"""Search hyperparameters of stable-baselines3's PPO for one task: `python -m benchmarks.sb3_search hover --trials 12`.

Over the ranges of its zoo (rl-baselines3-zoo, `hyperparams_opt.py`) and by the sampler of the zoo: TPE of Optuna (extra
`bench`). Minibatches are larger, since 512 worlds learn at once, discounts go down to 0.9, which is among ours, and
networks are ours. The first trial is its defaults. What counts is after how many agent steps a policy shows success on
held-out starts (`benchmarks.learners`); seeds of trials are not those of the comparison. The best is kept in
`benchmarks/sb3_tuned.json`.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.learners import TUNED, Theirs, reach_gate, tuned
from policies.threads import single_threaded_torch
from policies.training.train import TrainCfg
from sim.tasks import load_task

SEED = 100  # of the first trial


def sampled(trial: Any) -> dict[str, Any]:
    """What a trial learns with."""
    return {
        "batch_size": trial.suggest_categorical("batch_size", [256, 512, 1024, 2048]),
        "n_epochs": trial.suggest_categorical("n_epochs", [1, 5, 10, 20]),
        "learning_rate": trial.suggest_float("learning_rate", 1e-5, 2e-3, log=True),
        "ent_coef": trial.suggest_float("ent_coef", 1e-8, 0.1, log=True),
        "clip_range": trial.suggest_categorical("clip_range", [0.1, 0.2, 0.3, 0.4]),
        "max_grad_norm": trial.suggest_float("max_grad_norm", 0.3, 2.0),
        "gamma": 1.0 - trial.suggest_float("one_minus_gamma", 1e-4, 0.1, log=True),
        "gae_lambda": 1.0 - trial.suggest_float("one_minus_gae_lambda", 1e-4, 0.1, log=True),
        "activation_fn": trial.suggest_categorical("activation_fn", ["Tanh", "ReLU"]),
    }


@single_threaded_torch()
def search(name: str, trials: int, most_steps: int) -> dict[str, Any]:
    """The best hyperparameters of `trials`, each of at most `most_steps` agent steps."""
    import optuna

    task = load_task(name)
    _, ours = TrainCfg(task=task).hyperparameters(task.group, name)
    task = task.changed(train_steps=most_steps)

    def cost(trial: Any) -> float:
        own = sampled(trial)
        trial.set_user_attr("own", own)
        found = reach_gate(partial(Theirs, own=own), task, SEED + trial.number, Path())
        print(json.dumps({"trial": trial.number, **found, **own}), flush=True)
        return found["agent_steps"] if found["reached"] else most_steps * (2.0 - found["success"])

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=SEED))
    usual = {"n_epochs": 10, "learning_rate": 3e-4, "clip_range": 0.2, "max_grad_norm": 0.5, "batch_size": 256}
    alike = {"one_minus_gamma": 1.0 - ours.gamma, "one_minus_gae_lambda": 1.0 - ours.gae_lambda}
    study.enqueue_trial({**usual, **alike, "ent_coef": 1e-8, "activation_fn": "Tanh"})
    study.optimize(cost, n_trials=trials)
    return dict(study.best_trial.user_attrs["own"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--most-steps", type=int, default=655_360, help="agent steps of a trial")
    args = parser.parse_args()
    best = search(args.task, args.trials, args.most_steps)
    TUNED.write_text(json.dumps({**tuned(), args.task: best}, indent=2, sort_keys=True) + "\n")
    print(f"written {TUNED}: {json.dumps(best)}")
