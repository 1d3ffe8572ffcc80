"""What a training has shown so far: success of its policies on starts that it never saw."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from policies.checkpoint import global_rng_state, restore_global_rng
from policies.evaluation.evaluate import evaluate, starts_for
from policies.networks.controller import Controller
from policies.training.config import TrainCfg

SEED = 2_000_003  # neither that of training nor that of `verify`: those starts are not what decides when to end
PROMISING = 0.8  # of the success that is asked for: below that in training nothing is flown


def shown_success(policies: Mapping[str, Any], task: Any, cfg: TrainCfg) -> float:
    """Lower end of the 95 % interval of success of a team's `policies` behind the shield, as `verify` counts it.

    The training goes on after it as if nothing had been flown.
    """
    assert cfg.stop_at is not None
    before = global_rng_state()
    try:
        team = {name: Controller(task.groups[name], deepcopy(policy)).eval() for name, policy in policies.items()}
        starts, robots, machine = starts_for(cfg.stop_at), cfg.collection.num_agents, cfg.machine
        result = evaluate(
            team, task, starts, SEED, robots, shield=True, engine=machine.engine or "mujoco", device=machine.device
        )
        return result.success_interval[0]
    finally:
        restore_global_rng(before)
