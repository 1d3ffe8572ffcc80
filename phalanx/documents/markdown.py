"""What documents in Markdown are made of: tables, and parts that the code writes between two marks."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

BAR = "\\|"  # the sign that ends a cell, as a character of a cell
MARKED = re.compile(r"(<!-- (?!end -->)([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of these columns, a line each; what would end a cell is written so that it does not."""
    columns = tuple(columns)
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', BAR) for cell in line)} |\n" for line in lines)


def with_parts(text: str, write: Callable[[str], str]) -> str:
    """`text` with `write(NAME)` between every `<!-- NAME -->` and its `<!-- end -->`; ValueError where it has none."""
    text, count = MARKED.subn(lambda found: f"{found[1]}{write(found[2])}{found[3]}", text)
    if not count:
        raise ValueError("no lines '<!-- NAME -->' and '<!-- end -->' to write between")
    return text


def write_parts(path: Path, write: Callable[[str], str]) -> None:
    """The same with a file; ValueError where it has no marks."""
    try:
        text = with_parts(path.read_text(encoding="utf-8"), write)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    path.write_text(text, encoding="utf-8")
