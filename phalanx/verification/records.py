"""What `phalanx verify --record` writes into policy files, and which older record it does not replace by itself."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.console import err

if TYPE_CHECKING:
    from deploy.bundle import Bundle
    from deploy.contract import Contract
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


def renewed(record: Mapping[str, Any], contracts: "Iterable[Contract]") -> dict[str, Any]:
    """A `record` with the advice that its margins come to today, of files with these `contracts`."""
    from policies.evaluation.flight_advice import advise
    from policies.evaluation.margin_renewal import as_hardware_shows
    from sim.tasks import load_task

    margins = as_hardware_shows(record["margins"], load_task(record["task"]))
    return {**record, "margins": margins, "flight": advise(record["gates"], margins, contracts, parts_of(record))}


def renew_records(files: Iterable[Path]) -> None:
    """`renewed` into policy files whose record has margins, and where that lies beside one as FILE.json or TASK.json.

    ValueError for a file without.
    """
    from deploy.bundle import load_bundle
    from deploy.bundle.file import write_atomically

    bundles = {file: load_bundle(file) for file in files}
    for file, bundle in bundles.items():
        record = bundle.verification
        if not record or "margins" not in record:
            raise ValueError(f"{file}: has no record of margins: phalanx verify {file} --margins --record")
        parts = fingerprints(record)
        contracts = [each.contract for each in bundles.values() if each.fingerprint in parts]
        if len(contracts) < len(parts):
            raise ValueError(f"{file}: its record is of {len(parts)} files that are flown together: give all of them")
        new = renewed(record, contracts)
        write_records({file: bundle}, new)
        for path in (file.with_suffix(".json"), file.with_name(f"{bundle.contract.task}.json")):
            if path.exists() and without_paths(beside := json.loads(path.read_text(encoding="utf-8"))) == record:
                text = json.dumps({**beside, "margins": new["margins"], "flight": new["flight"]}, indent=2)
                write_atomically(f"{text}\n".encode(), path)


def parts_of(record: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """What a record says of each file, by group; of the only one under the name ""."""
    return record.get("files", {"": record})


def fingerprints(record: Mapping[str, Any]) -> set[str]:
    """Of the files that a record is of."""
    return {part["fingerprint"] for part in parts_of(record).values()}


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
