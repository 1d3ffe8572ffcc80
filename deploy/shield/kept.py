"""What is prepared once for a robot and its parameters."""

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

Given = TypeVarTuple("Given")
Made = TypeVar("Made")
MOST = 64  # answers of one function; making one again costs less than a second


def kept(make: Callable[[*Given], Made]) -> Callable[[*Given], Made]:
    """`make` with its answers kept by the identity of its arguments, which must never change.

    Specifications and parameters are frozen, and hashing all their numbers takes longer than a filter's answer.
    """
    known: dict[tuple[int, ...], tuple[Any, Made]] = {}

    def find(*args: *Given) -> Made:
        key = tuple(map(id, args))
        if (found := known.get(key)) is None:
            if len(known) >= MOST:
                known.clear()
            found = known[key] = args, make(*args)  # the arguments live as long: no other can get their id
        return found[1]

    find.__doc__ = make.__doc__
    return find
