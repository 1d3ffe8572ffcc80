"""What a run is: its configuration, its task as data, and where it was made; known before the first step."""

import inspect
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from policies.algorithms import load_algorithm
from policies.algorithms.algorithm import Group
from policies.algorithms.own import PACKAGES
from policies.checkpoint import CheckpointError
from policies.evaluation.trained import check_same_task
from policies.networks.trunk import OLD_DEFAULTS
from policies.task_data import digest, task_record
from policies.training.config import TrainCfg
from sim.physics import packages_of


def run_record(cfg: TrainCfg, env: Any, groups: Mapping[str, Group], shards: int = 1) -> dict[str, Any]:
    """Plain JSON data about a run that begins now, in `env` and those of the other `shards`."""
    task = env.task
    robots = sum(group.shape[1] for group in groups.values())
    return {
        "task": task.name if task is not None else str(cfg.task),
        "from": cfg.task if isinstance(cfg.task, str) else None,  # how to find the task again
        "task_changes": dict(cfg.task_changes),
        "task_data": task_record(task) if task is not None else None,
        "algo": cfg.algo,
        "algorithm_source": source_digest(load_algorithm(cfg.algo)),
        "algorithm": {name: asdict(group.cfg) for name, group in groups.items()},
        "network": {name: asdict(group.network) for name, group in groups.items()},
        "given": {"algorithm": dict(cfg.algorithm), "network": dict(cfg.network)},  # on top of what the task says
        "robots": cfg.collection.num_agents,
        "num_envs": next(iter(groups.values())).shape[0] * shards,
        "shards": shards,
        "num_agents": robots,
        "shield": cfg.behind_shield(task) if task is not None else bool(cfg.collection.shield),
        "machine": asdict(cfg.machine)
        | {"shards": shards, "cpu": platform.processor() or platform.machine(), "system": platform.platform()},
        "seed": cfg.seed,
        "total_steps": cfg.total_steps,
        "wall_budget_s": cfg.wall_budget_s,
        "stop_at": cfg.stop_at,
        "checkpoint_every": cfg.checkpoint_every,
        "keep_every": cfg.keep_every,
        "onnx": cfg.onnx,
        "film": cfg.film,
        "wandb": cfg.wandb,
        "start_from": str(cfg.start_from) if cfg.start_from is not None else None,
        "command": list(sys.argv),
        "git": git_state(),
        "versions": versions(cfg.machine.engine or "mujoco"),
        "started_at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def versions(engine: str) -> dict[str, str]:
    """Of Python and the packages that decide what a run comes to."""
    names = ("phalanx", "torch", "mujoco", "numpy", "onnx", *packages_of(engine))
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


def source_digest(kind: type) -> str | None:
    """Hash of the module of an algorithm of the user's own; None for ours, which the commit and the version name."""
    if kind.__module__.split(".")[0] in PACKAGES:
        return None
    try:
        return digest(inspect.getsource(sys.modules[kind.__module__]))
    except (OSError, TypeError, KeyError):  # written where there is no file
        return "unknown"


def git_state() -> dict[str, Any] | None:
    """Commit of this source tree and whether it has changes; None when it is not a checkout."""

    def git(*args: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *args]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def check_same_run(
    state: Mapping[str, Any], run: Mapping[str, Any], groups: Iterable[str], task: Any, folder: Path
) -> None:
    """CheckpointError where the checkpoint with `state`, of `folder`, is not of the `run` that is to go on from it.

    `groups` are those that have policies. Nothing is said of a `task` that is None, nor of a hyperparameter that is new
    since.
    """
    if state.get("made_before"):
        raise CheckpointError(
            f"cannot resume {folder}: its checkpoint is of an earlier version, which can be exported, or begun with by "
            f"--start-from {folder} and another --out"
        )
    saved = state["run"]
    if saved["task_data"] is not None and task is not None:
        check_same_task(saved, task, "go on all the same by --accept-task-change")
    if state["policies"].keys() != {*groups}:
        then = ", ".join(state["policies"])
        raise CheckpointError(f"cannot resume with groups {', '.join(groups)}: the checkpoint was made with {then}")
    for name in ("shards", "task", "algo", "seed", "num_envs", "num_agents", "shield"):
        if saved[name] != run[name]:
            option = {"num_agents": "robots"}.get(name, name)
            raise CheckpointError(
                f"cannot resume with {option} = {run[name]!r}: the checkpoint was made with {saved[name]!r}"
            )
    for part in ("network", "algorithm"):
        changed = {
            f"{field} = {value!r} (there {then!r})": None
            for name, values in run[part].items()
            for field, value in values.items()
            if (then := saved[part].get(name, {}).get(field, OLD_DEFAULTS.get(field, value))) != value
        }
        if changed:
            other = f"with them, from these networks on: --start-from {folder} and another --out"
            values = f"cannot resume with other values than the checkpoint's: {', '.join(changed)}"
            raise CheckpointError(f"{values}; {other}")
