"""The policies that ship, and how well they did when somebody verified them."""

import json
from pathlib import Path
from typing import Any

from sim.task import TaskCfg
from sim.tasks import load_any_task

ZOO = Path(__file__).resolve().parents[2] / "zoo"  # of this source tree; an installed package brings none


def shipped_files(task: str) -> list[Path]:
    """Where the policy files of `task` belong, one for each role, whether or not they are there."""
    cfg = load_any_task(task)
    names = [cfg.name] if isinstance(cfg, TaskCfg) else [f"{cfg.name}-{role}" for role in cfg.roles]
    return [ZOO / f"{name}.onnx" for name in names]


def shipped_figure(task: str) -> dict[str, Any] | None:
    """What is known of the policies of `task`: their paths, and with a fitting record their success, bare and shielded.

    The record zoo/TASK.json is what `phalanx verify FILE... --json` printed; one of other files counts for nothing.
    """
    files, record = shipped_files(task), ZOO / f"{task}.json"
    if not all(file.exists() for file in files):
        return None
    figure: dict[str, Any] = {"files": [f"zoo/{file.name}" for file in files]}
    if record.exists():
        from deploy.bundle import load_bundle

        measured = json.loads(record.read_text(encoding="utf-8"))
        of_files = measured["files"].values() if "files" in measured else [measured]
        if {part["fingerprint"] for part in of_files} == {load_bundle(file).fingerprint for file in files}:
            team = measured["teams"][max(measured["teams"], key=lambda size: size == str(_trained_with(files[0])))]
            names = ("success_rate", "success_interval", "shielded_success_rate", "shielded_success_interval")
            figure |= {"episodes": measured["episodes"], **{name: team[name] for name in names}}
    return figure


def in_words(figure: dict[str, Any] | None) -> str:
    """A figure as a cell of a table."""
    if figure is None:
        return ""
    if "success_rate" not in figure:
        return ", ".join(figure["files"])
    return f"{100 * figure['success_rate']:.1f} %, shielded {100 * figure['shielded_success_rate']:.1f} %"


def _trained_with(file: Path) -> int:
    from deploy.bundle import load_bundle

    return load_bundle(file).contract.team.trained_with
