"""What the documents say can be typed and opened: commands with their options, files, links, make targets."""

import re
import shlex

import pytest
from places import ROOT

from phalanx.arguments import parse_command
from phalanx.commands import COMMANDS

PAGES = sorted(
    [*ROOT.glob("*.md"), *(p for folder in ("docs", "zoo", "benchmarks") for p in (ROOT / folder).glob("*.md"))]
)
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
STANDS_FOR = {"TASK": "hover", "RUN": "runs/hover", "<task>": "hover", "FOLDER": "folder"}
CODE = re.compile(r"```sh\n(.*?)```|`([^`\n]+)`", re.S)


def commands() -> list[tuple[str, str]]:
    """(page, arguments) of every `phalanx COMMAND ...` that a page shows; those with dots in it are only hinted at."""
    found = []
    for page, text in TEXTS.items():
        for block in CODE.finditer(text):
            for line in re.split(r"\n|&&", block[1] or block[2]):
                line = re.split(r"\s#|\s>|\s\|", line.strip())[0].removeprefix("PHALANX_TRACEBACK=1 ")
                words = line.split()
                if words[:1] == ["phalanx"] and words[1:2] and words[1] in COMMANDS and "..." not in words:
                    found.append((page, " ".join(words[1:])))
    return sorted(set(found))


def test_there_are_commands_to_check():
    assert len(commands()) > 30 and "README.md" in {page for page, _ in commands()}


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_of_the_documents_can_be_typed(page, line, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")  # where `own_task` is, which the tutorial trains
    for word, value in STANDS_FOR.items():
        line = line.replace(word, value)
    name, *args = shlex.split(line)
    if args:
        parse_command(COMMANDS, name, args)  # ValueError for an option or value that there is not


@pytest.mark.parametrize("page", TEXTS)
def test_links_and_files_of_a_page_are_there(page):
    here = (ROOT / page).parent
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", TEXTS[page]):
        path, _, anchor = target.partition("#")
        file = (here / path).resolve() if path else ROOT / page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, target
    own = r"`(?:python )?((?:sim|policies|deploy|hardware|phalanx|ros_nodes|tests|examples|benchmarks)/[\w/.]+)"
    for path in re.findall(own, TEXTS[page]):
        assert (ROOT / path).exists(), path
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for target in re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", TEXTS[page], re.M):
        assert set(target) & targets, target
