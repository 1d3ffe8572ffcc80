"""The walks through the code that CONTRIBUTING shows: short enough to follow, and what a run really passes."""

import re
import sys
from inspect import CO_OPTIMIZED
from itertools import pairwise

import pytest
from places import ROOT

from phalanx.arguments import dispatch
from phalanx.commands import COMMANDS

WALK = re.compile(r"^(\d+)\. (`[^\n]+)", re.M)


def walks() -> list[list[str]]:
    """Files of each walk; a step that names two counts as two."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found: list[list[str]] = []
    for number, step in WALK.findall(text):
        found += [[]] if number == "1" else []
        found[-1] += re.findall(r"`([\w/]+(?:\.py|/))`", step)
    return found


def test_both_walks_are_ten_files_at_most():
    assert len(walks()) == 2
    for walk in walks():
        assert 5 < len(walk) <= 10 and len(set(walk)) == len(walk)
        assert all((ROOT / file).exists() for file in walk)


@pytest.mark.slow
def test_a_training_run_passes_the_files_of_its_walk_in_order(tmp_path):
    """From the command to the collector, and from the last action of the run to the engine."""
    walk, passed = walks()[0], []
    files = {str(ROOT / file): file for file in walk}

    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename in files and code.co_flags & CO_OPTIMIZED:  # the body of no class
            passed.append(files[code.co_filename])

    sys.setprofile(look)
    try:
        dispatch(COMMANDS, ["train", "hover", "--steps", "64", "--num-envs", "4", "--out", str(tmp_path / "run")])
    finally:
        sys.setprofile(None)
    assert [file for file in dict.fromkeys(passed) if file in walk[:4]] == walk[:4]
    sampled = [place for place, pair in enumerate(pairwise(passed), 1) if pair == (walk[3], walk[4])]
    steps = [dict.fromkeys(passed[begin:end]) for begin, end in pairwise(sampled)]
    assert walk[4:] in [[file for file in step if file in walk[4:]] for step in steps]
