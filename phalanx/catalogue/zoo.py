"""The policies that ship, and how well they did when somebody measured."""

import json
from pathlib import Path
from typing import Any

ZOO = Path("zoo")


def shipped_figure(task: str, folder: Path = ZOO) -> dict[str, Any] | None:
    """What is known of the policy file of `task`: its path, and with a fitting record its success and interval.

    The record TASK.json is what `phalanx eval zoo/TASK.onnx --json` printed; one of another file counts for nothing.
    """
    file, record = folder / f"{task}.onnx", folder / f"{task}.json"
    if not file.exists():
        return None
    figure: dict[str, Any] = {"file": file.as_posix()}
    if record.exists():
        from deploy.bundle import load_bundle

        measured = json.loads(record.read_text(encoding="utf-8"))
        if measured.get("fingerprints") == [load_bundle(file).fingerprint]:
            team = measured["teams"][0]
            names = ("success_rate", "success_interval", "episodes", "num_agents", "shield")
            figure |= {name: team[name] for name in names}
    return figure


def in_words(figure: dict[str, Any] | None) -> str:
    """A figure as a cell of a table."""
    if figure is None:
        return ""
    if "success_rate" not in figure:
        return str(figure["file"])
    low, high = (100 * share for share in figure["success_interval"])
    behind = " behind the shield" if figure["shield"] else ""
    return f"{100 * figure['success_rate']:.1f} % ({low:.1f} to {high:.1f}){behind}"
