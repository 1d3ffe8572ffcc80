"""With whose networks a training begins: those of another run, or those in a policy file."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deploy.bundle import BundleError, load_bundle
from deploy.contract.groups import group_and_number
from policies.checkpoint import CheckpointError, load_checkpoint
from policies.networks.trunk import OLD_DEFAULTS

IN_WORDS = {
    "dims": "sizes of observations (own, neighbours, privileged)",
    "action_dim": "channels",
    "driven": "driven channels",
    "activation": "network.activation",
    "chunk": "actions of a chunk",
    "history": "periods of history",
    "mirror": "symmetry: network.symmetric, or how the two sides mirror",
}


def begin_with(path: Path, algorithm: Any, run: Mapping[str, Any], task: Any, says: bool = True) -> None:
    """Put the networks of another run, or of a policy file, into those of `algorithm`, of a `run` of `task`.

    `run` is its record. What is new all the same is said on stderr if it `says` so. CheckpointError where they do not
    fit.
    """
    if path.suffix == ".onnx":
        _with_file(path, algorithm, run, task, says)
        return
    saved = load_checkpoint(path)
    others: set[str] = set()  # parameters that only one of the two has
    for name, policy in algorithm.policies.items():
        group = group_and_number(name)[0]
        found = saved["policies"].get(name) or saved["policies"].get(group)  # which they shared before
        if found is None:
            has = ", ".join(saved["policies"])
            raise CheckpointError(f"{path} has no policy for {name!r} of task {run['task']!r}, but for {has}")
        theirs, mine = {**OLD_DEFAULTS, **found["spec"]}, policy.spec()
        differ = [
            IN_WORDS.get(key, key) + ("" if key == "mirror" else f" ({theirs.get(key)} there, {mine[key]} here)")
            for key in mine
            if theirs.get(key) != mine[key]
        ]
        if differ:
            raise CheckpointError(f"cannot start from {path}: networks differ in {', '.join(differ)}")
        _check_seen(path, saved["run"]["task_data"], run, group)
        unlike = policy.load_state_dict(found["state"], strict=False)
        others |= {*unlike.missing_keys, *unlike.unexpected_keys} - {"by_chance"}
    algo = saved.get("run", {}).get("algo", "ppo")
    if says and (algo != run["algo"] or others):
        but = f", but for {', '.join(sorted(others))}" if others else ""
        new = "; critics are new" if algo != run["algo"] else ""
        print(f"from a run of {algo}: policies are taken over{but}{new}", file=sys.stderr)
    try:
        algorithm.start_from(_of_each(saved["algorithm"], algorithm.policies) if algo == run["algo"] else None)
    except RuntimeError as error:
        raise CheckpointError(f"cannot start from {path}: its critic is of another size") from error
    except KeyError as error:
        raise CheckpointError(f"cannot start from {path}: what {algo} kept there has no {error}") from error


def _of_each(state: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """An algorithm's state with critics by these `names`; each robot's is that of its group where it was shared."""
    found = dict(state)
    for part in {"critics", "learners"} & found.keys():
        found[part] = {name: found[part].get(name) or found[part][group_and_number(name)[0]] for name in names}
    return found


def _with_file(path: Path, algorithm: Any, run: Mapping[str, Any], task: Any, says: bool) -> None:
    from policies.export.read_back import read_policy  # which takes a second to import

    if task is None:
        raise CheckpointError(f"cannot start from {path}: this environment has no task that says what it is for")
    try:
        bundle = load_bundle(path)
    except BundleError as error:
        raise CheckpointError(str(error)) from error
    contract, there = bundle.contract, bundle.contract.provenance.task_config
    name = contract.group or next(iter(there.get("groups", algorithm.policies)))
    if name not in algorithm.policies:
        raise CheckpointError(f"{path} is for {name!r}; task {run['task']!r} has {', '.join(algorithm.policies)}")
    group = group_and_number(name)[0]
    _check_seen(path, {"config": there}, run, group)
    read_policy(path, bundle, algorithm.policies[name], task.groups[group], task.scene.objects)
    algorithm.start_from(None)
    if says:
        others = [other for other in algorithm.policies if other != name]
        new = f", and so are the policies of {', '.join(others)}" if others else ""
        print(f"from a policy file: {name} is taken over, its critic is new{new}", file=sys.stderr)
        if run["algorithm"][name].get("critic_first") == 0:
            hint = f"--{algorithm.Cfg.NAME}.critic-first 500000 lets it learn before the policy does, which loses less"
            print(hint, file=sys.stderr)


def _check_seen(path: Path, there: Mapping[str, Any] | None, run: Mapping[str, Any], name: str) -> None:
    """CheckpointError where a group saw or did other things `there`, in the data of a task, than in this `run`."""
    if there is None or "groups" not in there["config"] or run["task_data"] is None:  # of before there were groups
        return
    if unlike := _unlike(there["config"]["groups"][name], run["task_data"]["config"]["groups"][name]):
        raise CheckpointError(f"cannot start from {path}: {name} sees or does other things there: {unlike}")


def _unlike(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """In which observations and commands, by name, two groups differ."""
    found = []
    for part in ("own", "peer", "memory", "privileged", "commands"):
        then, now = (list(group["observation"].get(part, group.get(part, {}))) for group in (there, here))
        if then != now:
            odd = [f"{term} there" for term in then if term not in now]
            odd += [f"{term} here" for term in now if term not in then]
            found += odd or [f"{part} in another order"]
    return ", ".join(found)
