"""What shields guarantee, written into a document: `make docs` fills `docs/shield.md`."""

import re
from pathlib import Path

from deploy.shield.guarantee import TITLES
from deploy.shield.guarantees import make_guarantee
from hardware import load_robot

BLOCK = re.compile(r"(<!-- shield of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_guarantees(path: Path) -> None:
    """Replace what stands between the marks of each robot by the tables of its shield; ValueError without marks."""
    text = path.read_text(encoding="utf-8")
    if not BLOCK.search(text):
        raise ValueError(f"{path}: no lines '<!-- shield of ROBOT -->' and '<!-- end -->' to write between")
    path.write_text(with_guarantees(text), encoding="utf-8")


def with_guarantees(text: str) -> str:
    """The document with the tables that the code gives now; ValueError for an unknown robot."""
    return BLOCK.sub(lambda found: f"{found[1]}{_tables(found[2])}{found[3]}", text)


def _tables(robot: str) -> str:
    guarantee = make_guarantee(load_robot(robot))
    parts = []
    for name, title in TITLES.items():
        lines = "\n".join(f"| {what} | {much} |" for what, much in getattr(guarantee, name))
        parts.append(f"| {title} | |\n|---|---|\n{lines}\n")
    return "\n".join(parts)
