"""Names that a person may have mistyped."""

from collections.abc import Iterable
from contextlib import suppress
from difflib import SequenceMatcher, get_close_matches
from itertools import islice
from pathlib import Path

SHORTEST = 4  # letters of a name that is looked for inside of another
MOST = 1000  # names of a folder that are compared


def nearest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" with the one of `known` that contains `name`, or is in it or spelled alike; else ""."""
    known, bare = list(known), name.strip("-")
    inside = [
        k
        for k in known
        if (len(k.strip("-")) >= SHORTEST and k.strip("-") in bare) or (len(bare) >= SHORTEST and bare in k)
    ]
    if not any(bare in k for k in inside):  # a short name that is in a mistyped long one says less than its spelling
        inside += get_close_matches(name, known, n=1)
    near = max(inside, key=lambda k: SequenceMatcher(None, k, name).ratio(), default=None)
    return f"; did you mean {near!r}?" if near else ""


def nearest_path(path: Path | str) -> str:
    """ "; did you mean ...?" with what is spelled like `path`, which does not exist, in its folder; else ""."""
    path = Path(path)
    with suppress(OSError):
        found = [k for k in islice(path.parent.iterdir(), MOST) if not k.name.startswith(".")]
        if path.suffix:  # a file is wanted: a folder like "policies" is not nearly "policy.onnx"
            found = [k for k in found if k.suffix or not k.is_dir()]
        # Without their suffixes, for these make any two files alike.
        near = [k for k in found if get_close_matches(path.stem, [k.stem])]
        best = max(near, key=lambda k: SequenceMatcher(None, k.name, path.name).ratio(), default=None)
        return f"; did you mean {str(best)!r}?" if best else ""
    return ""
