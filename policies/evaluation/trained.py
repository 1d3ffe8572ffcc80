"""What a training run has made: its task, and the controllers of its policies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.contract.groups import group_and_number
from hardware.digest import IDLE
from hardware.names import nearest
from policies.algorithms import load_algorithm
from policies.checkpoint import CheckpointError, load_checkpoint, load_weights
from policies.networks.controller import Controller
from policies.task_data import changed, differences, digest, task_record
from sim.tasks import load_task

ACCEPT = "phalanx export --accept-task-change"


def trained_task(content: Mapping[str, Any], task: Any = None, accept_change: bool = False) -> Any:
    """The task of a checkpoint with `content`, or `task`, its present form.

    CheckpointError, in one line with the fields, where that is not what was trained, unless `accept_change`.
    """
    run = content["run"]
    if task is None:
        task = changed(load_task(run["from"] or run["task"]), run.get("task_changes", {}))
    if run["task_data"] is not None and not accept_change:
        way_out = f"go back to what it was{_commit(run)}, or make a file for the task of today by `{ACCEPT}`"
        check_same_task(run, task, way_out)
    return task


def check_same_task(run: Mapping[str, Any], task: Any, way_out: str) -> None:
    """CheckpointError where `task` is not that of the `run`; the line names the fields and the way out.

    What no simulated robot acts on, such as where a number is from, may have changed.
    """
    saved, now = run["task_data"], task_record(task)
    if saved["hash"] != digest({name: part for name, part in saved.items() if name != "hash"}):
        raise CheckpointError(f"the record of task {run['task']!r} was changed after the training: its hash differs")
    if saved["hash"] == now["hash"]:
        return
    saved, now = ({**record, "robots": _acted_on(record["robots"])} for record in (saved, now))
    found = [d for part in ("config", "robots", "sources") for d in differences(saved[part], now[part])]
    if not found:
        return
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    raise CheckpointError(
        f"task {run['task']!r} has changed since it was trained: {', '.join(found[:4])}{more}; {way_out}"
    )


def _acted_on(value: Any) -> Any:
    """Specifications of robots without the fields that they are simulated without."""
    if isinstance(value, Mapping):
        return {name: _acted_on(each) for name, each in value.items() if name not in IDLE}
    return [_acted_on(each) for each in value] if isinstance(value, list | tuple) else value


def _commit(run: Mapping[str, Any]) -> str:
    return f" (commit {run['git']['commit'][:10]})" if run["git"] else ""


def load_controller(checkpoint: Path, task: Any = None, group: str = "", accept_change: bool = False) -> Controller:
    """The controller of a checkpoint (file or run directory), of `group` where there are several, ready to fly.

    Raises CheckpointError; `task` is needed when it is not one that `load_task` knows.
    """
    team = load_controllers(checkpoint, task, accept_change)
    return team[chosen_group(team, group, checkpoint)]


def load_controllers(checkpoint: Path, task: Any = None, accept_change: bool = False) -> dict[str, Controller]:
    """As `load_controller`, of every group of the checkpoint."""
    return load_trained(checkpoint, task, accept_change)[2]


def load_trained(
    checkpoint: Path, task: Any = None, accept_change: bool = False
) -> tuple[dict[str, Any], Any, dict[str, Controller]]:
    """Content of a checkpoint, its task, and the controller of every group."""
    content = load_checkpoint(checkpoint)
    task = trained_task(content, task, accept_change)
    return content, task, controllers_of(content, task)


def chosen_group(team: Mapping[str, Any], group: str, checkpoint: Path) -> str:
    """`group`, or the only one of a `team` where none is named; CheckpointError for one that it has not."""
    group = next(iter(team)) if not group and len(team) == 1 else group
    if group not in team:
        raise CheckpointError(f"{checkpoint} has no group {group!r}; it has: {', '.join(team)}{nearest(group, team)}")
    return group


def controllers_of(content: Mapping[str, Any], task: Any) -> dict[str, Controller]:
    """The controllers of a checkpoint with `content`, by group."""
    found, kind = {}, load_algorithm(content["run"]["algo"])
    for name, saved in content["policies"].items():
        group = group_and_number(name)[0]
        if group not in task.groups:
            raise CheckpointError(f"task {task.name!r} has no group {group!r}; it has: {', '.join(task.groups)}")
        policy = kind.Policy(**saved["spec"])
        load_weights(policy, saved["state"], name)
        found[name] = Controller(task.groups[group], policy).eval()
    return found
