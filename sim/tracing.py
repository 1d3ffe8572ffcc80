"""Whether a control step is being traced into one program, in which nothing may depend on what a tensor holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_TRACING = ContextVar("tracing", default=False)


@contextmanager
def tracing() -> Iterator[None]:
    """Trace what is done inside."""
    token = _TRACING.set(True)
    try:
        yield
    finally:
        _TRACING.reset(token)


def is_tracing() -> bool:
    """Whether this is inside `tracing`."""
    return _TRACING.get()


def may_hold(condition: Tensor) -> bool:
    """Whether a condition holds anywhere, to save work where it does not; in a trace it always may."""
    return _TRACING.get() or bool(condition.any())


class Untraceable(Exception):
    """What a task does that only single steps can; the message names it."""


def untraceable(what: str) -> None:
    """Raise Untraceable in a trace."""
    if _TRACING.get():
        raise Untraceable(what)
