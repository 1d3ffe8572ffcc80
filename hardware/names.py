"""Names that a person may have mistyped."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import SequenceMatcher, get_close_matches
from itertools import islice
from pathlib import Path

SHORTEST = 4  # letters of a name that is looked for inside of another
MOST_MEANT = 2  # names that are abbreviated alike
MOST = 1000  # names of a folder that are compared


def one_line(error: BaseException, said: str | None = None) -> str:
    """An error's type and what it says, or what is `said` in its place, in one line."""
    return " ".join(f"{type(error).__name__}: {error if said is None else said}".split())


def nearest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" with the one of `known` that `name` abbreviates, that contains it, is in it or is spelled
    alike; else "".
    """
    known, bare = list(known), name.strip("-")
    if short := [k for k in known if _abbreviates(bare, k.strip("-"))]:
        return f"; did you mean {' or '.join(map(repr, short[:MOST_MEANT]))}?"
    inside = [
        k
        for k in known
        if (len(k.strip("-")) >= SHORTEST and k.strip("-") in bare) or (len(bare) >= SHORTEST and bare in k)
    ]
    if not any(bare in k for k in inside):  # a short name that is in a mistyped long one says less than its spelling
        inside += get_close_matches(name, known, n=1)
    near = max(inside, key=lambda k: SequenceMatcher(None, k, name).ratio(), default=None)
    return f"; did you mean {near!r}?" if near else ""


def _abbreviates(name: str, whole: str) -> bool:
    """Whether `name` stands for `whole`: lr for learning-rate, num for num-steps; after the same words before a point.

    One letter stands for too much.
    """
    (group, _, short), (of_group, _, words) = name.rpartition("."), whole.rpartition(".")
    initials = "".join(word[0] for word in re.split("[-_]+", words) if word)
    return group == of_group and len(short) > 1 and (short == initials or words.startswith(short))


def nearest_path(path: Path | str) -> str:
    """ "; did you mean ...?" with what is spelled like `path`, which does not exist, in its folder; else "".

    Of a link that leads nowhere it is that, and where it leads.
    """
    path = Path(path)
    with suppress(OSError):
        if path.is_symlink():
            return f"; it is a link to {os.readlink(path)}, which is not there"
        found = [k for k in islice(path.parent.iterdir(), MOST) if not k.name.startswith(".")]
        if path.suffix:  # a file is wanted: a folder like "policies" is not nearly "policy.onnx"
            found = [k for k in found if k.suffix or not k.is_dir()]
        # Without their suffixes, for these make any two files alike.
        near = [k for k in found if get_close_matches(path.stem, [k.stem])]
        best = max(near, key=lambda k: SequenceMatcher(None, k.name, path.name).ratio(), default=None)
        return f"; did you mean {str(best)!r}?" if best else ""
    return ""
