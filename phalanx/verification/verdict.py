"""What `phalanx verify` found of a policy file, in words, and where it was written down."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.console import err
from policies.records import RECORD

if TYPE_CHECKING:
    from deploy.bundle import Bundle

SIGNS = {">=": "at least", "<=": "at most"}
WAITED = 0.1  # of the time, from which on others make a step slow


def verification(file: Path, bundle: "Bundle") -> dict[str, Any] | None:
    """What `phalanx verify --record` wrote into `file`, or `--json` printed of it: beside it as FILE.json or TASK.json.

    `record` says where it was found.
    """
    if bundle.verification:
        return {**bundle.verification, "record": "in the file"}
    for path in (file.with_suffix(".json"), file.with_name(f"{bundle.contract.task}.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            parts = record.get("files", {"": record}).values()
            if "verdict" in record and bundle.fingerprint in [part["fingerprint"] for part in parts]:
                return record | {"record": str(path)}
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue  # there is none, or something else of that name
    return None


def warn_of_files(bundles: "Mapping[Path, Bundle]") -> None:
    """A warning on stderr for each file that was not verified, or is not to be flown, or that states no plant."""
    from deploy.bundle.verification import NOT, REFUSED, UNVERIFIED, standing

    for file, bundle in bundles.items():
        warn_of_unstated(file, bundle)
        record = verification(file, bundle)
        if record is None:
            err.print(f"[yellow]warning:[/] {file} {UNVERIFIED}")
        elif standing(record) in (REFUSED, NOT):
            err.print(f"[yellow]warning:[/] {file} was {verdict_in_words(record)}")


def warn_of_size(bundles: "Mapping[Path, Bundle]", robots: int) -> None:
    """A warning on stderr for each file that is flown in a team of another size than it was trained and verified in."""
    for file, bundle in bundles.items():
        trained, record = bundle.contract.team.trained_with, verification(file, bundle) or {}
        if robots != trained and str(robots) not in record.get("teams", {}):
            err.print(
                f"[yellow]warning:[/] {file} was trained with {team_in_words(trained)}, not verified with {robots}"
            )


def warn_of_unstated(file: Path, bundle: "Bundle") -> None:
    """A warning on stderr for a file from before contracts stated the plant."""
    from deploy.runtime.compatibility import UNSTATED

    if bundle.contract.plant is None:
        err.print(f"[yellow]warning:[/] {file} {UNSTATED}")


def verdict_in_words(record: Mapping[str, Any]) -> str:
    """`refused by success of one robot with shield: 0.841, at least 0.9 (zoo/velocity.json)`."""
    missed = [f"{gate_in_words(gate)}: {figures_of(gate)}" for gate in record["gates"] if not gate["passed"]]
    by = f" by {'; '.join(missed)}" if missed else f" with {record['episodes']} held-out starts"
    return f"{record['verdict']}{by} ({record['record']})"


def verification_in_words(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of a table: the verdict, and where they are known the advice, the date and the versions."""
    rows = [("verification", verdict_in_words(record))]
    if flight := record.get("flight"):
        reasons = (f"{reason['name']}: {reason['why']}" for reason in flight["reasons"])
        rows.append(("advice", "; ".join((flight["advice"], *reasons))))
    if "verified_at_utc" in record:
        versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        rows.append(("verified", f"{record['verified_at_utc']} with {versions}"))
    return rows


def gate_in_words(gate: Mapping[str, Any]) -> str:
    """`success of 4 robots with shield` for shielded_success_4, `parity of carrier` for parity_carrier."""
    if found := re.fullmatch(r"shielded_(success|collisions)_(\d+)", gate["name"]):
        return f"{found[1]} of {team_in_words(int(found[2]))} with shield"
    return gate["name"].replace("_", " of ", 1)


def actuators_in_words(file: Mapping[str, Any]) -> list[str]:
    """Two lines: what a policy asks of its actuators, in the worst of them, and how long a step of it takes."""
    effort = file["actuators"]["effort_share"]
    channels = {name: each for name, each in file["actuators"]["channels"].items() if each["change_rms_per_s"]}
    if not channels:
        return []
    ends = max(channels, key=lambda name: channels[name]["at_limit"])
    quick = max(channels, key=lambda name: channels[name]["frequency_hz"])
    asked = [
        f"at an end of its range {100 * channels[ends]['at_limit']:.1f} % of the time ({ends})",
        f"targets change at {channels[quick]['frequency_hz']:.1f} Hz ({quick})",
    ]
    if effort:
        most = max(effort, key=lambda name: effort[name])
        asked.append(f"effort {100 * effort[most]:.0f} % RMS of its limit ({most})")
        asked.append(f"{file['actuators']['power_w']:.3g} W put in")
    if beyond := file["actuators"].get("beyond_curve_share"):  # which older results do not have
        most = max(beyond, key=lambda name: beyond[name])
        share = f"{100 * beyond[most]:.2g} % of the time ({most})" if beyond[most] else "never"
        asked.append(f"beyond a motor's torque-speed curve {share}")
    step = file["step_us"]
    share = 100 * step["p99"] / step["period"]
    waited = step.get("waited", 0.0)  # which older results do not have
    others = f"; other programs had the processor for {100 * waited:.0f} % of the time" if waited > WAITED else ""
    return [
        f"actuators  {', '.join(asked)}",
        f"one step   {step['p50']:.0f} us median, {step['p99']:.0f} us p99 here: {share:.1f} % of its period{others}",
    ]


def figures_of(gate: Mapping[str, Any]) -> str:
    """Value and limit of a gate: `0.841, at least 0.9`."""
    return f"{gate['value']:.3g}, {SIGNS[gate['sign']]} {gate['limit']:g}"


def too_few_starts(verdict: Mapping[str, Any]) -> int:
    """How many it would take at least, where a file is refused only for starts that cannot show its success; else 0."""
    from policies.evaluation.evaluate import fewest_for

    failed = [gate for gate in verdict["gates"] if not gate["passed"]]
    if len(failed) != 1 or not _is_likely(verdict, failed[0]) or failed[0]["limit"] >= 1.0:
        return 0
    least = fewest_for(failed[0]["limit"])
    return least if verdict["episodes"] < least else 0


def why_not_shown(verdict: Mapping[str, Any]) -> str:
    """What it means that more starts succeeded than are asked for, and that they do not show it."""
    if least := too_few_starts(verdict):
        limit = next(gate["limit"] for gate in verdict["gates"] if not gate["passed"])
        return cannot_show(verdict["episodes"], limit, least)
    return f"{verdict['episodes']} starts show no more than that; more of them may: --episodes"


def cannot_show(episodes: int, limit: float, least: int) -> str:
    """That so few starts show no success of `limit`, whatever they give."""
    return f"{episodes} episodes cannot show {limit:g}: at least {least} are needed"


def _is_likely(verdict: Mapping[str, Any], gate: Mapping[str, Any]) -> bool:
    """Whether more starts succeeded than a gate of success asks for."""
    team = verdict["teams"].get(gate["name"].removeprefix("shielded_success_"), {})
    return bool(team.get("shielded_success_rate", 0.0) > gate["limit"])


def next_step(verdict: Mapping[str, Any], files: Sequence[str]) -> str:
    """What to do about a policy that was refused, or about a team's `files`, by the first gate that they missed."""
    named, run = " ".join(files), _run_of(files[0])
    missed = next(gate for gate in verdict["gates"] if not gate["passed"])
    if not missed["name"].startswith("shielded"):
        return f"write the file again, phalanx export {run}, and verify that one"
    if _is_likely(verdict, missed):
        return f"phalanx verify {named} --episodes {max(4 * verdict['episodes'], 2 * too_few_starts(verdict))}"
    look = f"see what goes wrong, phalanx play {named} --out page.html"
    return f"{look}, then train on: phalanx train --resume {run} --steps MORE"


def _run_of(file: str) -> Path | str:
    """The training run whose folder a policy `file` lies in; RUN where that is not known."""
    folder = Path(file).parent
    return folder if (folder / RECORD).exists() else "RUN"


def team_in_words(robots: int) -> str:
    """`one robot`, `4 robots`."""
    return "one robot" if robots == 1 else f"{robots} robots"


def why_no_parity(parity: Mapping[str, Any]) -> str:
    """What it means that commands differ by more than rounding."""
    apart = f"commands of {parity['between']} differ by up to {parity['max_abs']:.3g}"
    if origin := parity.get("other_origin"):
        return f"{apart}: the file was not made from this checkpoint: {origin}"
    return apart
