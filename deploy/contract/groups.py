"""Whose policy a file is: that of a group of like robots, or of one robot of a group, such as "crazyflie-robot-2"."""

import re
from collections.abc import Iterable, Mapping

ONE_OF = re.compile(r"^(.+)-robot-([1-9]\d*)$")


def one_of(group: str, number: int) -> str:
    """The name of one robot's policy; robots of a `group` are counted from 1."""
    return f"{group}-robot-{number}"


def group_and_number(name: str) -> tuple[str, int | None]:
    """The group that a policy of this `name` is of, and which robot's it is; None for that of all of them."""
    found = ONE_OF.match(name)
    return (found[1], int(found[2])) if found else (name, None)


def names_of(group: str, robots: int) -> list[str]:
    """The names of the policies of its robots."""
    return [one_of(group, number + 1) for number in range(robots)]


def needed(robots: Mapping[str, int], given: Iterable[str]) -> list[str]:
    """Whose policies a team with so many `robots` in each group needs: each group's, or that of each of its robots.

    Each robot's, where those that are `given` have one of its group.
    """
    apart = {group for group, number in map(group_and_number, given) if number is not None}
    return [name for group, n in robots.items() for name in (names_of(group, n) if group in apart else [group])]


def robots_of(groups: Iterable[str], given: Iterable[str], trained_with: Iterable[int] = ()) -> int | None:
    """Robots of a team of one group in which each has a policy of its own; None for any number.

    As many as policies that are `given` were trained with, where that is known: one that is not given is missed.
    """
    numbers = [number for _, number in map(group_and_number, given) if number is not None]
    return max([*numbers, *trained_with]) if numbers and len(list(groups)) == 1 else None
