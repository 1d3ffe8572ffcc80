"""Of what a process printed, the line that says how it ended; and lines that differ in their numbers only."""

import re
from collections.abc import Sequence

TRACEBACK = "Traceback (most recent call last):"
ERRORS, NEWS = ("[ERROR]", "[FATAL]"), "[INFO]"


def kind_of(text: str) -> str:
    """A text without its numbers, which are measured again and again."""
    return re.sub(r"\d[\d.:]*", "", text)


def telling_line(lines: Sequence[str]) -> str:
    """The exception that ended it or its last error, whichever came last; else its last warning, else its last line.

    Empty for no lines. An error may be old: what a process reported, and went on.
    """
    errors = [at for at, line in enumerate(lines) if any(each in line for each in ERRORS) or line.startswith("error:")]
    last_error = errors[-1] if errors else -1
    begun = max((at for at, line in enumerate(lines) if line.startswith(TRACEBACK)), default=len(lines))
    # Its frames are indented; what follows them is the exception, of which a long text may have more lines.
    raised = next((at for at in range(begun + 1, len(lines)) if lines[at][:1].strip()), -1)
    if max(raised, last_error) >= 0:
        return lines[max(raised, last_error)]
    others = [line for line in lines if NEWS not in line]
    return (others or [*lines] or [""])[-1]
