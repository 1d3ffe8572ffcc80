"""Whether to fly a policy, from its gates and its margins, with the reasons by name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deploy.bundle.verification import CARE, FLY, NOT
from deploy.contract import Contract
from deploy.runtime.compatibility import lacks_firmware

# Share of the time in which a joint may ask for more torque than its motor gives at its speed; the plant gives it all.
# Held to ever weaker curves at every physics step, `velocity` lost nothing that 128 starts show at 2.5 % of the time
# (success 99.2 to 98.4 %), and 5 points at 4.8 %. The policies of the zoo are at less than 0.1 %, see docs/models.md.
BEYOND_CURVE = 0.01
ENOUGH = 32  # episodes for each value: of fewer hardly any failures refute the success that is asked for


def advise(
    gates: Iterable[Mapping[str, Any]],
    margins: Mapping[str, Any],
    contracts: Iterable[Contract] = (),
    files: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """`advice`, one of the three, and its `reasons`: each with a `name` of a gate or a number, and `why` in words.

    A gate that failed, or a success below the task's on the task's own plant: do not fly. A number that holds less far
    than the policy was trained for, or than hardware shows, or no farther than its nominal value, or that is not known:
    with care; so it is where all numbers together hold less far than they were trained for, under other physics, where
    only some were pushed, or with few episodes, or a record is from before others could be, and where one of the
    `contracts` is of a drone that never flew by its firmware, or of a plant that was never varied, or where one of the
    `files`, by group as `verify` has them, asks a motor for more torque than it gives at its speed.
    """
    failed = [
        _reason(gate["name"], f"{gate['value']:.3g}, must be {gate['sign']} {gate['limit']:g}")
        for gate in gates
        if not gate["passed"]
    ]
    if margins["held"] is False:
        failed.append(_reason("success", f"{margins['success']:.3g}, must be >= {margins['gate']:g}"))
    if failed:
        return {"advice": NOT, "reasons": failed}
    rows = [*margins["rows"], *filter(None, [margins["corner"]])]
    reasons = [_reason(name_of(row, rows), why) for row in rows if (why := why_short(row))]
    reasons += [
        _reason(name, f"success {margins['physics'][name]:.3g}, must be >= {margins['gate']:g}")
        for name in margins.get("fell_under", ())  # records from before do not say
    ]
    if not margins["complete"]:
        reasons.append(_reason("margins", "not all are known: the search was interrupted"))
    reasons += [_reason(*stated) for contract in contracts for stated in _against(contract)]
    reasons += [
        _reason(f"{group}: torque-speed curve" if group else "torque-speed curve", why)
        for group, file in (files or {}).items()
        if (why := beyond_curves(file.get("actuators", {})))
    ]
    if unknown := margins.get("unknown"):
        reasons.append(_reason("margins", f"{', '.join(unknown)} not pushed: the record is older"))
    if margins["episodes"] < ENOUGH:
        reasons.append(_reason("margins", f"only {margins['episodes']} episodes for each value, {ENOUGH} are wanted"))
    if margins["only"]:
        reasons.append(_reason("margins", f"only {', '.join(margins['only'])} pushed"))
    return {"advice": CARE if reasons else FLY, "reasons": reasons}


def _against(contract: Contract) -> Iterator[tuple[str, str]]:
    """What a file itself states that makes it one to be flown with care: a name, and why."""
    group = f"{contract.group}: " if contract.group else ""
    if why := lacks_firmware(contract):
        yield f"{group}rate loop", why
    if contract.plant is not None and not contract.plant.trained_ranges:
        yield f"{group}training", "was trained without randomisation: on one plant, that of the robot's model"


def beyond_curves(actuators: Mapping[str, Any]) -> str:
    """Why what a file asks of motors at their speed is too much, in its worst joint; empty where it is not."""
    beyond = actuators.get("beyond_curve_share", {})  # which records from before do not have
    worst = max(beyond, key=lambda name: beyond[name], default="")
    if not worst or beyond[worst] <= BEYOND_CURVE:
        return ""
    share = f"{100 * beyond[worst]:.2g} % of the time"
    return f"{worst} is asked for more than its motor gives {share}, must be <= {100 * BEYOND_CURVE:g} %"


def why_short(row: Mapping[str, Any]) -> str:
    """Why the margin of a row of `measure_margins` is too small; empty where it is not."""
    if row["fell"] is None:
        return ""
    held = row["held"]
    for who, edge in (("trained for", row["trained"]), ("hardware shows", row["field"])):
        if edge is not None and (held is None or _farther(row, edge, held)):
            return f"{_held_in_words(row, edge)}, {who} {_with_unit(edge, row)}"
    if held == row["nominal"] and row["found"]:
        return f"{_held_in_words(row)}, the least that was pushed"
    return f"{_held_in_words(row)}" if held is None else ""


def name_of(row: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> str:
    """`mass, less`; without the direction where only one is pushed, after its group where a task has several."""
    rows = list(rows)
    groups, ways = {each["group"] for each in rows} - {""}, [each for each in rows if _number(each) == _number(row)]
    way = "" if len(ways) < 2 else ", more" if row["direction"] == "up" else ", less"
    return (
        f"{row['group']}: {row['parameter']}{way}" if len(groups) > 1 and row["group"] else f"{row['parameter']}{way}"
    )


def _number(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["group"], row["parameter"]


def _farther(row: Mapping[str, Any], value: float, than: float) -> bool:
    """Whether `value` is farther out than another one, in the direction of the row."""
    return value > than if row["direction"] == "up" else value < than


def _held_in_words(row: Mapping[str, Any], asked: float | None = None) -> str:
    """Where it falls; between which values where the one that is `asked` for was not flown."""
    if row["held"] is None:
        return f"falls already at {_with_unit(row['fell'], row)}"
    if not row["found"] or (asked is not None and _farther(row, row["fell"], asked)):
        return f"falls between {row['held']:.4g} and {_with_unit(row['fell'], row)}"
    return f"falls at {_with_unit(row['fell'], row)}"


def _with_unit(value: float, row: Mapping[str, Any]) -> str:
    return f"{value:.4g}{'' if row['unit'] == '1' else ' ' + row['unit']}"


def _reason(name: str, why: str) -> dict[str, str]:
    return {"name": name, "why": why}
