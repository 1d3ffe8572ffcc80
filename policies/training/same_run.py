"""Whether a checkpoint is of the run that shall go on."""

from collections.abc import Mapping
from typing import Any

from policies.checkpoint import CheckpointError
from policies.evaluation.trained import check_same_task


def check_same_run(state: Mapping[str, Any], trainer: Any) -> None:
    """CheckpointError where what is asked of `trainer` is not what the checkpoint `state` was made with."""
    if "run" not in state:
        raise CheckpointError("the checkpoint is of an earlier version, which can be exported but not resumed")
    if state["generators"].keys() != trainer.generators.keys():
        raise CheckpointError(
            "the checkpoint is of an earlier version, with one generator for all draws: it can be exported, or "
            "begun with by --start-from, but not resumed"
        )
    saved, asked = state["run"], trainer.run
    saved = {"shards": 1, "teams": [saved["num_agents"]], **saved}  # of before there were such
    if saved["task_data"] is not None and trainer.collector.env.task is not None and not trainer.cfg.accept_task_change:
        check_same_task(saved, trainer.collector.env.task, "go on all the same by --accept-task-change")
    if state["policies"].keys() != trainer.algorithm.policies.keys():
        now, then = (", ".join(groups) for groups in (trainer.algorithm.policies, state["policies"]))
        raise CheckpointError(f"cannot resume with groups {now}: the checkpoint was made with {then}")
    for name in ("shards", "task", "algo", "seed", "num_envs", "teams", "shield"):
        if saved[name] != asked[name]:
            option, now, then = name, repr(asked[name]), repr(saved[name])
            if name == "teams":
                option, now, then = "robots", *("-".join(map(str, run[name])) for run in (asked, saved))
            raise CheckpointError(f"cannot resume with {option} = {now}: the checkpoint was made with {then}")
    for part in ("network", "algorithm"):
        changed = {
            f"{field} = {value!r} (there {then!r})": None
            for name, values in asked[part].items()
            for field, value in values.items()
            if (then := saved[part].get(name, {}).get(field, value)) != value  # a new one is as it is now
        }
        if changed:
            raise CheckpointError(f"cannot resume with other values than the checkpoint's: {', '.join(changed)}")
