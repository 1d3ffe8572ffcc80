"""What a training has shown so far: success of its policies on starts that it never saw."""

from collections.abc import Callable
from copy import deepcopy
from itertools import count
from math import ceil, log

import torch
from scipy.stats import beta

from deploy.contract.groups import group_and_number
from policies.checkpoint import global_rng_state, restore_global_rng
from policies.evaluation.evaluate import evaluate
from policies.networks.controller import Controller
from policies.training.trainer import Trainer

SEED = 2_000_003  # neither that of training nor that of `verify`: those starts are not what decides when to end
PROMISING = 0.8  # of the success that is asked for: below that in training nothing is flown
ERROR = 0.05  # probability that any look of a training shows more than there is


def look(trainer: Trainer, on_share: Callable[[float], None]) -> None:
    """Fly held-out starts, where the success at which training has to end seems to be near.

    `on_share` hears after every control step how far it is, from 0 to 1. Training goes on after it as if nothing had
    been flown.
    """
    asked, score = trainer.cfg.stop_at, trainer.score()
    if asked is None or score is None or score[0] < PROMISING * asked:
        return
    trainer.looks += 1
    shown = 0.0
    with trainer.shards.together():
        if not trainer.shards.index:
            starts = starts_of(asked, trainer.looks)
            shown = at_least(_successes(trainer, starts, on_share), starts, trainer.looks)
    trainer.shown = float(trainer.shards.joined(torch.tensor([shown], dtype=torch.float64)).max())


def _successes(trainer: Trainer, starts: int, on_share: Callable[[float], None]) -> int:
    """Of the team behind the shield."""
    env, cfg, steps = trainer.collector.env, trainer.cfg, count(1)
    engine, device, robots = cfg.machine.engine or "mujoco", cfg.machine.device, cfg.collection.num_agents
    policies = trainer.algorithm.policies.items()
    before = global_rng_state()
    try:
        cfgs = {name: env.task.groups[group_and_number(name)[0]] for name, _ in policies}
        team = {name: Controller(cfgs[name], deepcopy(policy)).eval() for name, policy in policies}
        found = evaluate(
            team,
            env.task,
            starts,
            SEED,
            robots,
            shield=True,
            engine=engine,
            device=device,
            on_step=lambda: on_share(next(steps) / env.max_steps),
        )
        return round(found.success_rate * starts)
    finally:
        restore_global_rng(before)


def at_least(successes: int, starts: int, look: int) -> float:
    """What so many `successes` show: the exact lower bound of Clopper and Pearson (doi 10.1093/biomet/26.4.404).

    Who looks again and again is wrong once: the k-th look may be wrong in `ERROR` / (k (k + 1)), which all looks
    together sum to `ERROR` (a union bound: it holds though they share starts). The first one is that of an interval of
    95 %.
    """
    return float(beta.ppf(_error(look), successes, starts - successes + 1)) if successes else 0.0


def starts_of(asked: float, look: int) -> int:
    """How many starts can show a success of `asked`, even with a failure or two: 256, or more near 1 and later on."""
    return max(256, 2 * ceil(log(_error(look)) / log(asked)))


def _error(look: int) -> float:
    return ERROR / (look * (look + 1))
