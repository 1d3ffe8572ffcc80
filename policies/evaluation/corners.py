"""Plants in which all numbers that a policy was trained over are at an end of their range at once."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from deploy.contract.plant import Plant
from sim.conditions import Condition, Terms
from sim.perturbations import Perturbation, perturbations
from sim.task import TaskCfg

CORNERS = 16  # drawn: at each, every number is at the lower or the upper end
TrainedNumber = tuple[str, Perturbation, tuple[float, float]]  # its group, and the range that it was trained over


def trained_numbers(task: TaskCfg, plants: Mapping[str, Plant | None]) -> list[TrainedNumber]:
    """Of each group's plant the numbers that its policy was trained over a range of."""
    numbers = ((group, each, plant) for group, plant in plants.items() if plant for each in perturbations(task, group))
    return [(group, each, span) for group, each, plant in numbers if (span := each.trained(plant)) is not None]


def corners(task: TaskCfg, trained: Sequence[TrainedNumber], seed: int) -> Callable[[float], list[Condition]]:
    """Conditions with all numbers at a fraction of their trained range, each at one of its ends, as drawn."""
    draw = torch.rand(CORNERS, len(trained), generator=torch.Generator().manual_seed(seed)) < 0.5

    def conditions(fraction: float) -> list[Condition]:
        return [_corner(task, trained, fraction, signs) for signs in draw.tolist()]

    return conditions


def _corner(task: TaskCfg, trained: Sequence[Any], fraction: float, signs: Sequence[bool]) -> Condition:
    terms: dict[str, dict[str, Any]] = defaultdict(dict)
    groups = dict(task.groups)
    for (group, each, span), low in zip(trained, signs, strict=True):
        ends = [end for end in (each.edge(span, False), each.edge(span, True)) if end is not None]
        end = ends[0] if low or len(ends) == 1 else ends[1]
        value = min(max(each.nominal + fraction * (end - each.nominal), each.low), each.high)
        new: Terms = each.terms(groups[group], value)
        terms[group] |= new  # a term with several numbers keeps those that were set before
        groups[group] = replace(groups[group], randomisation={**groups[group].randomisation, **new})
    return Condition(terms)
