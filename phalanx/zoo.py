"""The policies that ship with the source tree, and their measured success."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.console import err
from sim.tasks import load_task

if TYPE_CHECKING:
    from deploy.bundle import Bundle

SIGNS = {">=": "at least", "<=": "at most"}

ZOO = Path(__file__).resolve().parents[1] / "zoo"  # of this source tree; an installed package brings none


def shipped_files(task: str) -> list[Path]:
    """Where the policy files of `task` belong, one for each group, whether or not they are there."""
    cfg = load_task(task)
    names = [cfg.name] if len(cfg.groups) == 1 else [f"{cfg.name}-{group}" for group in cfg.groups]
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

        measured, bundles = json.loads(record.read_text(encoding="utf-8")), [load_bundle(file) for file in files]
        of_files = measured["files"].values() if "files" in measured else [measured]
        if {part["fingerprint"] for part in of_files} == {bundle.fingerprint for bundle in bundles}:
            trained = str(bundles[0].contract.team.trained_with)
            team = measured["teams"].get(trained) or next(iter(measured["teams"].values()))
            names = ("success_rate", "success_interval", "shielded_success_rate", "shielded_success_interval")
            figure |= {"episodes": measured["episodes"], **{name: team[name] for name in names}}
    return figure


def verification(file: Path, bundle: "Bundle") -> dict[str, Any] | None:
    """What `phalanx verify --json` printed of this very `file`, where it stands beside it as FILE.json or TASK.json."""
    for path in (file.with_suffix(".json"), file.with_name(f"{bundle.contract.task}.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            parts = record.get("files", {"": record}).values()
            if bundle.fingerprint in [part["fingerprint"] for part in parts]:
                return record | {"record": str(path)}
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue  # there is none, or something else of that name
    return None


def warn_of_refused(bundles: "Mapping[Path, Bundle]") -> None:
    """A warning on stderr for each file that its verification refused."""
    for file, bundle in bundles.items():
        record = verification(file, bundle)
        if record and record["verdict"] != "verified":
            err.print(f"[yellow]warning:[/] {file} was {verdict_in_words(record)}")


def verdict_in_words(record: dict[str, Any]) -> str:
    """`refused by shielded_success_1: 0.841, at least 0.9 (zoo/velocity.json)`."""
    missed = [
        f"{g['name']}: {g['value']:.3g}, {SIGNS[g['sign']]} {g['limit']:g}" for g in record["gates"] if not g["passed"]
    ]
    by = f" by {'; '.join(missed)}" if missed else f" with {record['episodes']} held-out starts"
    return f"{record['verdict']}{by} ({record['record']})"


def figure_in_words(figure: dict[str, Any] | None) -> str:
    """A figure as a cell of a table."""
    if figure is None:
        return ""
    if "success_rate" not in figure:
        return ", ".join(figure["files"])
    return f"{100 * figure['success_rate']:.1f} %, shielded {100 * figure['shielded_success_rate']:.1f} %"
