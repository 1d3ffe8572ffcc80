"""Whether a policy file acts as the controller that it was made from, and its batched graph as the robot's runtime."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deploy.bundle import Bundle
from deploy.contract import Contract
from deploy.contract.tensor_specs import sees_correction
from deploy.runtime import PolicyRuntime
from policies.checkpoint import load_checkpoint
from policies.evaluation.evaluate import HELD_OUT_SEED
from policies.evaluation.policy_runner import BundleRunner, PolicyRunner, TeamRunner, TorchRunner
from policies.evaluation.trained import controllers_of, trained_task
from policies.threads import single_threaded_torch
from sim.envs.one_robot import joined, part_of
from sim.envs.team_env import TeamEnv
from sim.tasks import load_task, without_overlay


@single_threaded_torch()
@torch.inference_mode()
def measure_team_parity(
    bundles: Mapping[str, Bundle], run_dir: Path | None, seed: int = HELD_OUT_SEED, num_worlds: int = 8
) -> dict[str, dict[str, Any]]:
    """Of each group's file, flown together: largest difference of commands over whole episodes, and largest action.

    With `run_dir`, a run or its checkpoint, the controller and the file fly in `num_worlds` worlds; else the batched
    graph and the runtime of one robot in one world; behind the shield where a file is shown what that does. Both sides
    are fed alike, and each carries its own memory. The action is the file's.
    """
    contract = next(iter(bundles.values())).contract
    files = {group: BundleRunner(PolicyRuntime(bundle)) for group, bundle in bundles.items()}
    origins: dict[str, str | None] = dict.fromkeys(bundles)
    reference: dict[str, PolicyRunner]
    other: dict[str, PolicyRunner]
    if run_dir is not None:
        worlds, between = num_worlds, "torch controller and policy file"
        content = load_checkpoint(run_dir)
        origins = {group: _other_origin(bundle.contract, content, run_dir) for group, bundle in bundles.items()}
        team = controllers_of(content, trained_task(content))
        reference, other = {group: TorchRunner(team[group]) for group in bundles}, dict(files)
    else:
        worlds, between = 1, "batched policy file and single-robot runtime"
        reference, other = dict(files), {group: _OneByOne(bundle) for group, bundle in bundles.items()}
    task = load_task(contract.task)
    size = contract.team.trained_with if len(task.groups) == 1 else None
    shield = any(sees_correction(bundle.contract) for bundle in bundles.values())
    env = TeamEnv(task, worlds, seed, num_agents=size, shield=shield)
    one, two = TeamRunner(reference), TeamRunner(other)
    one.start(env)
    two.start(env)
    worst, largest, steps = dict.fromkeys(bundles, 0.0), dict.fromkeys(bundles, 0.0), 0
    flying = torch.ones(worlds, dtype=torch.bool)
    while flying.any():
        action, wanted = one.act(env)
        said, found = two.act(env)
        for group in bundles:
            size_of = said[group].abs()[flying].max().nan_to_num(torch.finfo(torch.float32).max)
            largest[group] = max(largest[group], float(size_of))
            # max of NaN is NaN in torch, so that a NaN on one side cannot pass
            apart = float((wanted[group] - found[group]).abs()[flying].max().nan_to_num(torch.finfo(torch.float32).max))
            worst[group] = max(worst[group], apart)
        flying &= ~env.step(joined(action, env.groups)).ended
        steps += 1
    flown = {"between": between, "episodes": worlds, "steps": steps}
    return {
        group: {
            "max_abs": worst[group],
            "largest_action": largest[group],
            "robots": part_of(env, group).num_agents,
            **flown,
            "other_origin": origins[group],
        }
        for group in bundles
    }


def _other_origin(contract: Contract, content: Mapping[str, Any], run_dir: Path) -> str | None:
    """What says that a file was not made from the checkpoint with `content`; ValueError where it is of another task."""
    run, of_file = content["run"], contract.provenance
    task = without_overlay(run.get("from") or run["task"])
    if task != contract.task:
        raise ValueError(
            f"the file was not made from {run_dir}: it is for task {contract.task!r}, the run for {task!r}"
        )
    steps = content["progress"]["agent_steps"] // run["num_agents"]
    found = [
        f"seed {s}, {n:,} environment steps, saved {t}"
        for s, n, t in (
            (of_file.seed, of_file.env_steps, of_file.trained_at_utc),
            (run["seed"], steps, content["saved_at_utc"]),
        )
    ]
    return None if found[0] == found[1] else f"{found[0]}; the checkpoint {found[1]}"


class _OneByOne:
    """A policy file as robots fly it: one runtime each, unbatched, peers selected and padded by the runtime."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.runtimes: list[PolicyRuntime] = []

    def start(self, env: Any) -> None:
        """A runtime for every robot of the one world."""
        self.runtimes = [PolicyRuntime(self.bundle) for _ in range(env.num_agents)]

    def act(self, env: Any) -> tuple[torch.Tensor, torch.Tensor]:
        state, peers, objects = env.measured
        steps = []
        for i, runtime in enumerate(self.runtimes):
            seen = {name: _row(thing, i) for name, thing in objects.items()}
            command = {name: v[0, i].numpy() for name, v in env.command.items()}
            correction = env.last_correction[0, i].numpy()
            steps.append(runtime.step(_row(state, i), _row(peers, i), command, seen, correction))
        pairs = [(step.action, step.requested.target) for step in steps]
        action, target = (np.stack(rows)[None] for rows in zip(*pairs, strict=True))
        return torch.from_numpy(action), torch.from_numpy(target)


def _row(record: Any, robot: int) -> Any:
    """A state, peers or object (1, N, ...) of torch tensors as that of one robot, in NumPy."""
    return type(record)(**{f.name: getattr(record, f.name)[0, robot].numpy() for f in fields(record)})
