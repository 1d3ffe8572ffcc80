"""Names that a person may have mistyped."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

SHORTEST = 4  # letters of a name that is looked for inside of another


def nearest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" with the one of `known` that contains `name` or is in it, or is spelled alike; else ""."""
    known, bare = list(known), name.strip("-")
    inside = [k for k in known if len(k.strip("-")) >= SHORTEST and (k.strip("-") in bare or bare in k)]
    near = max(inside, key=lambda k: SequenceMatcher(None, k, name).ratio(), default=None)
    near = near or next(iter(get_close_matches(name, known, n=1)), None)
    return f"; did you mean {near!r}?" if near else ""
