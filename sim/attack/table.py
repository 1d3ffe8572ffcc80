"""The result of a campaign as one table: faults, attackers, and what came of them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sim.attack.attackers import Attacker
from sim.attack.campaign import Campaign, attacks_on
from sim.attack.faults import Fault
from sim.attack.outcome import Outcome


def result_of(cfg: Campaign, table: Mapping[tuple[str, str], Outcome]) -> dict[str, Any]:
    """Plain data: totals, a row for each fault and class of attackers, and one for each fault and attacker."""
    faults, attackers = attacks_on(cfg.robot)
    total = {True: Outcome(), False: Outcome()}
    classes: dict[tuple[str, str], Outcome] = {}
    for (fault, attacker), outcome in table.items():
        total[faults[fault].inside].add(outcome)
        classes.setdefault((fault, attackers[attacker].kind), Outcome()).add(outcome)
    return {
        **asdict(cfg),
        "passed": not total[True].violations,
        "inside": total[True].as_json(),
        "outside": total[False].as_json(),
        "classes": _rows(classes, faults, attackers),
        "rows": _rows(table, faults, attackers),
    }


def _rows(
    table: Mapping[tuple[str, str], Outcome], faults: Mapping[str, Fault], attackers: Mapping[str, Attacker]
) -> list[dict[str, Any]]:
    """In the order of the faults and attackers."""
    kinds = list(dict.fromkeys(attacker.kind for attacker in attackers.values()))
    order = {name: number for number, name in enumerate([*faults, *kinds, *attackers])}
    return [
        {"fault": fault, "inside": faults[fault].inside, "attackers": who, **table[fault, who].as_json()}
        for fault, who in sorted(table, key=lambda key: (order[key[0]], order[key[1]]))
    ]
