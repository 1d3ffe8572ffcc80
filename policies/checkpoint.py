"""Checkpoints: one file with everything that the next iteration depends on, replaced atomically."""

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch

from policies.records import RECORD
from sim.envs.state import STATE_TYPES

FORMAT = "phalanx-checkpoint/3"  # others' policies can be exported and begun with; only this one is resumed
SAME_POLICIES, FIRST = "phalanx-checkpoint/2", "phalanx-checkpoint/1"
PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)
FILE, BEST = "checkpoint.pt", "best.pt"
RENAMED = {"normaliser.own.": "normaliser.policy.", "normaliser.peer.": "normaliser.neighbours."}
RENAMED |= {"normaliser.critic.": "normaliser.privileged."}


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, of another format or of another task, or that cannot be written."""


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors, numbers, strings, containers) so that a crash leaves the old file or the new one."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    whole = {"format": FORMAT, "saved_at_utc": now, **content}
    if wrong := _not_read_back(whole):
        raise CheckpointError(f"cannot write {path}: {wrong}; wanted tensors, numbers and strings, in dicts and lists")
    written = BytesIO()  # torch's writer does not say of a file what is wrong with it, such as that its disk is full
    torch.save(whole, written)
    replace_file(path, lambda file: file.write(written.getbuffer()))


def _not_read_back(value: Any, where: str = "") -> str:
    """What of a checkpoint would not be read back, for its type, and where it stands; "" for nothing."""
    if isinstance(value, torch.Tensor) or type(value) in (*PLAIN, *STATE_TYPES):
        return ""
    parts: Any = value.items() if isinstance(value, Mapping) else ()
    if isinstance(value, list | tuple):
        parts = enumerate(value)
    elif not isinstance(value, Mapping):
        return f"{where} is a {type(value).__name__}"
    return next(filter(None, (_not_read_back(part, f"{where}.{name}".lstrip(".")) for name, part in parts)), "")


def save_policies(path: Path, content: Mapping[str, Any]) -> None:
    """Keep the policies of `content`, a checkpoint: for export and to begin with, not to resume."""
    parts = {name: content[name] for name in ("run", "progress", "policies")}
    learned = {name: value for name, value in content["algorithm"].items() if name != "replay"}
    save_checkpoint(path, {**parts, "algorithm": learned})


def load_weights(policy: torch.nn.Module, saved: Mapping[str, torch.Tensor], group: str) -> None:
    """Give `policy` the `saved` weights; CheckpointError, in one line, for those of another network."""
    try:
        policy.load_state_dict(saved)
    except RuntimeError as error:
        found = ", ".join(sorted(policy.state_dict().keys() ^ saved.keys())[:4]) or "their sizes"
        raise CheckpointError(
            f"the policy of {group!r} has other weights than this version gives it: {found}; use the version that "
            "trained it, or train it again"
        ) from error


def save_record(folder: Path, run: Mapping[str, Any]) -> None:
    """Write what a run is as `run.json`, for people and other programs."""
    replace_file(folder / RECORD, lambda file: file.write((json.dumps(run, indent=2) + "\n").encode()))


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """`write` a file beside `path`, then put it in its place; CheckpointError, and nothing left behind, if it fails."""
    draft = path.with_suffix(path.suffix + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        kept = "; the one before is still there" if path.exists() else ""
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}{kept}") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Content of a checkpoint file, or of the one in a run directory. Runs no code from the file.

    One of an earlier version is marked `made_before`, and has its `policies` and as much of its `run` as it knew.
    """
    path = path / FILE if path.is_dir() else path
    content = read_saved(path)
    found = content.get("format") if isinstance(content, dict) else None
    if found == FIRST:
        return _of_first(content)
    if found not in (FORMAT, SAME_POLICIES):
        raise CheckpointError(f"{path} has format {found!r}, this version reads {FORMAT!r}")
    if missing := [part for part in ("run", "progress", "policies", "algorithm") if part not in content]:
        raise CheckpointError(f"{path} is damaged: it has no {', '.join(missing)}")
    return {**content, "made_before": found != FORMAT}


def read_saved(path: Path) -> Any:
    """What torch saved as `path`; CheckpointError where it is missing or damaged."""
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}")
    if path.suffix == ".onnx":
        raise CheckpointError(f"{path} is a policy file, which does not learn: give the folder of its training run")
    try:
        with ZipFile(path) as file:  # torch does not compare its checksums
            if damaged := file.testzip():
                raise BadZipFile(damaged)
        with torch.serialization.safe_globals(list(STATE_TYPES)):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever torch and zipfile raise on bytes that are none of its own
        raise CheckpointError(f"{path} is not a checkpoint of phalanx, or damaged") from error


def _of_first(content: dict[str, Any]) -> dict[str, Any]:
    """What export and start-from need of a checkpoint of the first version; a lone group is called after its robot."""
    from sim.tasks import load_task

    config = content["config"]
    learners = content.setdefault("learners", {"": dict(content)})  # before there were groups, a run was its learner
    if "" in learners:
        learners = {next(iter(load_task(config["task"]).groups)): learners[""]}
    policies = {}
    for name, state in learners.items():
        dims = [state["layout"]["own_dim"], state["layout"]["peer_dim"], state["layout"].get("critic_dim", 0)]
        sizes = {key: state["ppo"][key] for key in ("hidden", "peer_embed")}
        spec = {"dims": dims, "action_dim": state["action_dim"], **sizes}
        policies[name] = {"spec": spec, "state": renamed(state["actor"])}
    return {
        "saved_at_utc": content["saved_at_utc"],
        "made_before": True,
        "run": {
            "task": config["task"],
            "from": config["task"],
            "task_data": None,
            "algo": "ppo",
            "seed": config["seed"],
            "num_agents": content["num_agents"],
            "engines": content.get("engines", [config.get("engine") or "mujoco"]),
            "git": None,
            "versions": {},
        },
        "progress": {key: content[key] for key in ("iteration", "agent_steps", "curve")},
        "policies": policies,
        "algorithm": {"critics": {name: state["critic"] for name, state in learners.items()}},
    }


def renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a policy of the first version, by the names that they have now."""
    out = {}
    for name, value in state.items():
        prefix = next((old for old in RENAMED if name.startswith(old)), "")
        out[RENAMED.get(prefix, "") + name.removeprefix(prefix)] = value
    return out


def global_rng_state() -> dict[str, Any]:
    """State of torch's and NumPy's global generators, as tensors and numbers."""
    state: Any = np.random.get_state()
    _, keys, position, has_gauss, cached = state
    numpy_state = [torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(cached)]
    return {"torch": torch.get_rng_state(), "numpy": numpy_state}


def restore_global_rng(state: dict[str, Any]) -> None:
    """Put back what `global_rng_state` returned."""
    torch.set_rng_state(state["torch"])
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), position, has_gauss, cached))
