"""What Ctrl-C says, and how it ends the process. It is imported first: it imports nothing that takes time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

INTERRUPTED = 130
SHOW_CURSOR = "\x1b[?25h"
says = "interrupted"  # a command adds what it leaves and how to go on


def end(*_: object) -> NoReturn:
    """One line and exit code 130, and no destructor runs: a handler of signals."""
    os.write(2, f"{SHOW_CURSOR if os.isatty(2) else ''}phalanx: {says}\n".encode())
    os._exit(INTERRUPTED)


@contextmanager
def leaving_all_open() -> Iterator[None]:
    """Ctrl-C within it is `end`: what destroys the middleware late would add a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        end()
