"""Words of an earlier, private vocabulary do not come back: the field's standard terms are used instead."""

import re
import subprocess

import pytest
from places import ROOT

KINDS = (".py", ".md", ".yaml", ".toml", ".cfg", ".xml", ".js", ".html", ".css")
# A whole word, or a part of an identifier: what is said instead
GONE = {
    "told": "commanded, given, reported",
    "nobody": "no robot, no peer, without",
    "whoever": "who, each that",
    "anew": "again",
    "crews?": "AgentGroup",
    "percepts?": "PolicyInput",
    "judge[ds]?": "evaluate, check, compute_rewards_and_terminations",
    "(?<!dead_)(?<!dead-)reckon(ed)?": "compute, dead_reckon",
    "seal(ed)?": "fingerprint",
    "pilots?": "policy runner",
    "dead_man": "command_watchdog",
    "one_role|mixed_env|mixed_task_cfg": "TeamEnv, TaskCfg",
    "role_cfg": "GroupCfg",
    "random_term": "EventTerm",
}


@pytest.fixture(scope="module")
def shipped() -> dict[str, str]:
    """Text files of the project but for its tests: identifiers as words between underscores, in small letters."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name.endswith(KINDS) and not name.startswith("tests/")]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).is_file()}
    return {name: re.sub("(?<=[a-z])(?=[A-Z])", "_", text).lower() for name, text in texts.items()}


@pytest.mark.parametrize("word", GONE)
def test_a_word_that_was_replaced_does_not_come_back(shipped, word):
    found = [
        f"{name}:{text.count(chr(10), 0, at.start()) + 1}"
        for name, text in shipped.items()
        for at in re.finditer(rf"(?<![a-z])({word})(?![a-z])", text)
    ]
    assert not found, f"say {GONE[word]} instead of {word!r}"
