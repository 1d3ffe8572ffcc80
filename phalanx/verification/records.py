"""What `phalanx verify --record` writes into policy files, and which older record it does not replace by itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.console import err

if TYPE_CHECKING:
    from deploy.bundle import Bundle
    from policies.evaluation.margins import MarginCfg


def check_replaced(bundles: "Mapping[Path, Bundle]", starts: int, margins: "MarginCfg | None") -> None:
    """ValueError where a file carries a record of more starts, more episodes for each margin, or more margins."""
    for file, bundle in bundles.items():
        if lost := _lost(bundle.verification or {}, starts, margins):
            raise ValueError(f"{file}: its record has {lost}: --replace to lose that")


def _lost(record: Mapping[str, Any], starts: int, margins: "MarginCfg | None") -> str:
    """In words, what `record` rests on that one of so many `starts`, with those `margins`, would not."""
    if (had := record.get("episodes", 0)) > starts:
        return f"{had} held-out starts, this would have {starts}"
    known = record.get("margins")
    if not known:
        return ""
    if margins is None:
        return "margins, this would have none"
    if known["episodes"] > margins.episodes:
        return f"{known['episodes']} episodes for each margin, this would have {margins.episodes}"
    if margins.only and not (known["only"] and set(known["only"]) <= set(margins.only)):
        return f"margins of {', '.join(known['only']) or 'all'}, this would have only {', '.join(margins.only)}"
    return ""


def write_records(bundles: "Mapping[Path, Bundle]", verdict: Mapping[str, Any]) -> None:
    """The verdict into each policy file, but for where the files were."""
    from deploy.bundle.file import add_record, write_atomically

    record = without_paths(verdict)
    for file, bundle in bundles.items():
        write_atomically(add_record(bundle, record), file)
        gone = f"; it is not signed by {bundle.signer} any more: phalanx sign {file}" if bundle.signer else ""
        err.print(f"recorded in {file}{gone}", markup=False, soft_wrap=True)


def without_paths(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What `verify` found, without the paths of the files."""
    parts = {group: _without_path(part) for group, part in verdict.get("files", {}).items()}
    return _without_path(verdict) | ({"files": parts} if parts else {})


def _without_path(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "bundle"}
